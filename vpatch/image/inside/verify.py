"""Whether an image has what its lock says, asked of its own Python.

    python3 verify.py MANIFEST RESULT

It runs in an image, where vpatch is not. RESULT gets a JSON object: `package`, the folder of vllm;
`problems`, a list of {path, what}; `imports`, {module: why it cannot be imported}; `probes`,
{patch: {held, problems, unknown}}.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.util
import inspect
import json
import marshal
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

_IMPORT_SECONDS = 600


def locate() -> Path | None:
    """Return the folder of the package vllm that this Python would import, without importing it."""
    spec = importlib.util.find_spec("vllm")
    places = list(spec.submodule_search_locations or ()) if spec else []
    return Path(places[0]) if places else None


def version_of(package: Path) -> str | None:
    """Return the release, without the local part that a platform appends."""
    file = package / "_version.py"
    text = file.read_text(encoding="utf-8") if file.is_file() else ""
    found = re.search(r"^__version__ = .*?'([^'+]+)", text, re.MULTILINE)
    return found[1] if found else None


def digest_of(file: Path) -> str | None:
    if not file.is_file():
        return None
    return f"sha256:{hashlib.sha256(file.read_bytes()).hexdigest()}"


def bytecode_of(file: Path) -> list[Path]:
    """Return all compiled files that an import of a module might take, of any Python."""
    beside = file.with_suffix(".pyc")
    found = sorted((file.parent / "__pycache__").glob(f"{file.stem}.*.pyc"))
    return found + ([beside] if beside.exists() else [])


def verify(manifest: dict[str, Any]) -> dict[str, Any]:
    """Compare an image with a manifest: files, bytecode, imports and effects."""
    package = locate()
    if package is None:
        nothing = {"path": "vllm", "what": f"{sys.executable} has no package vllm"}
        return {"package": None, "problems": [nothing], "imports": {}, "probes": {}}
    problems = []
    found = version_of(package)
    if found != manifest["vllm"]:
        what = f"the image has vLLM {found}, and the lock is of {manifest['vllm']}"
        problems.append({"path": str(package), "what": what})
    for entry in manifest["files"]:
        file = package.parent / entry["path"]
        problem = _file_problem(entry, digest_of(file)) or _bytecode_problem(file)
        if problem:
            problems.append({"path": str(file), "what": problem})
    live = ask_live(manifest)
    return {"package": str(package), "problems": problems, **live}


def _file_problem(entry: dict[str, Any], found: str | None) -> str | None:
    if found == entry["after"]:
        return None
    if found is None:
        return "it is missing"
    if found == entry["before"]:
        return "it is as before the patch: vLLM was installed over it"
    return f"it was changed: it is {found[:23]}, and the lock has {entry['after'][:23]}"


def _bytecode_problem(file: Path) -> str | None:
    own = Path(importlib.util.cache_from_source(str(file)))
    compiled = bytecode_of(file)
    if own not in compiled:
        return "it is not compiled"
    others = [path.name for path in compiled if path != own]
    if others:
        return f"stale bytecode lies beside it: {', '.join(others)}"
    content, source = own.read_bytes(), file.read_bytes()
    # PEP 552: magic, flags, then the hash of the source where the flags have bit 0.
    by_hash = content[4:8] == b"\x03\0\0\0" and content[8:16] == importlib.util.source_hash(source)
    if content[:4] != importlib.util.MAGIC_NUMBER or not by_hash:
        return "its bytecode is of another source"
    try:
        same = marshal.loads(content[16:]) == _compiled(file)  # noqa: S302 - compared, never run
    except (EOFError, ValueError, TypeError):
        same = False
    return None if same else "its bytecode is not what its source compiles to"


def _compiled(file: Path) -> CodeType:
    return compile(file.read_bytes(), str(file), "exec", dont_inherit=True)


def ask_live(manifest: dict[str, Any]) -> dict[str, Any]:
    """Import in a process of its own: a library that dies takes its process with it."""
    with tempfile.TemporaryDirectory() as name:
        job, result = Path(name, "job.json"), Path(name, "result.json")
        job.write_text(json.dumps(manifest), encoding="utf-8")
        command = [sys.executable, "-B", __file__, "--live", str(job), str(result)]
        # What libraries write when they are imported has no place in an image.
        environment = os.environ | {"HOME": name, "TMPDIR": name, "XDG_CACHE_HOME": name}
        try:
            run = subprocess.run(command, timeout=_IMPORT_SECONDS, env=environment, check=False)
            status = run.returncode
            end = f"ended with {status}"
        except subprocess.TimeoutExpired:
            end = f"did not end in {_IMPORT_SECONDS} s"
        answers = (
            [json.loads(line) for line in result.read_text(encoding="utf-8").splitlines()]
            if result.exists()
            else []
        )
    imports = {a["module"]: a["error"] for a in answers if a.get("error")}
    asked = [answer["module"] for answer in answers if "module" in answer]
    for module in manifest["modules"]:
        if module not in asked:
            imports[module] = f"the process that imports it {end}"
            break
    probes = next((a["probes"] for a in answers if "probes" in a), None)
    if probes is None:
        unknown = {"held": 0, "problems": [], "unknown": ["the process ended before"]}
        probes = dict.fromkeys(manifest["probes"], unknown)
    return {"imports": imports, "probes": probes}


def live(manifest: dict[str, Any], result: Path) -> None:
    """Import each module and ask for each probe; write an answer a line, as they come."""
    broken = {}
    with result.open("w", encoding="utf-8") as answers:
        for name in manifest["modules"]:
            error = ""
            try:
                importlib.import_module(name)
            except BaseException as caught:  # noqa: BLE001 - a plugin may raise SystemExit
                error = broken[name] = f"{type(caught).__name__}: {caught}".splitlines()[0]
            answers.write(json.dumps({"module": name, "error": error}) + "\n")
            answers.flush()
        found = {patch: _effect(probes, broken) for patch, probes in manifest["probes"].items()}
        answers.write(json.dumps({"probes": found}) + "\n")


def _effect(probes: list[dict[str, str]], broken: dict[str, str]) -> dict[str, Any]:
    """Ask all probes of a patch: `held` counts, `problems` and `unknown` say what and why."""
    effect: dict[str, Any] = {"held": 0, "problems": [], "unknown": []}
    for probe in probes:
        where = f"{probe['module']}:{probe['name']}"
        if probe["module"] in broken:
            effect["unknown"].append(f"{where}: its module cannot be imported here")
            continue
        try:
            problem = _probe(sys.modules[probe["module"]], probe["name"], probe["kind"])
        except LookupError as reason:
            effect["unknown"].append(f"{where}: {reason.args[0]}")
            continue
        if problem:
            effect["problems"].append(f"{where} {problem}")
        else:
            effect["held"] += 1
    return effect


def _probe(module: ModuleType, name: str, kind: str) -> str:
    """Say what is wrong with a name; nothing where it is as its module's source has it.

    Raises:
        LookupError: it cannot be compared.
    """
    found = module
    for part in name.split("."):
        mangled = part.startswith("__") and not part.endswith("__") and isinstance(found, type)
        attribute = f"_{found.__name__.lstrip('_')}{part}" if mangled else part
        try:
            found = inspect.getattr_static(found, attribute)
        except AttributeError:
            return "is not there"
    if kind == "import":
        return ""
    file = Path(inspect.getfile(module))
    if kind == "constant":
        wanted = _constant(file, name)
        return "" if found == wanted else f"is {found!r}, and its source says {wanted!r}"
    code = _code_of(found)
    if code in _codes(_compiled(file)):
        return ""
    return f"is not what its source says: it comes from {code.co_filename}"


def _code_of(found: object) -> CodeType:
    """Return the code below what decorators put around a function."""
    for _ in range(20):
        if isinstance(found, FunctionType) and not hasattr(found, "__wrapped__"):
            return found.__code__
        # functools.wraps; class and static methods; properties; cached properties; triton's kernels
        for name in ("__wrapped__", "__func__", "fget", "func", "fn"):
            inner = getattr(found, name, None)
            if callable(inner) or isinstance(inner, (classmethod, staticmethod)):
                found = inner
                break
        else:
            break
    raise LookupError(f"it is a {type(found).__name__}, with no code of its own to compare")


def _codes(code: CodeType) -> list[CodeType]:
    found = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return found + [inner for one in found for inner in _codes(one)]


def _constant(file: Path, name: str) -> object:
    for node in ast.parse(file.read_bytes()).body:
        if isinstance(node, ast.Assign):
            names = [target.id for target in node.targets if isinstance(target, ast.Name)]
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names = [node.target.id]
        else:
            continue
        if names == [name] and node.value is not None:
            return ast.literal_eval(node.value)
    raise LookupError("its source does not assign it")


def main() -> None:
    if sys.argv[1] == "--live":
        live(json.loads(Path(sys.argv[2]).read_text(encoding="utf-8")), Path(sys.argv[3]))
        return
    outcome = verify(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
    Path(sys.argv[2]).write_text(json.dumps(outcome), encoding="utf-8")


if __name__ == "__main__":
    main()
