"""Whether an image has what its lock says, asked of its own Python.

    python3 verify.py MANIFEST RESULT
    python3 verify.py --locate RESULT PACKAGE...

It runs in an image, where vpatch is not. A manifest is of one package: vllm, or that of a tree
beside it. RESULT gets a JSON object: `package`, the folder of the package; `problems`, a list of
{path, what}; `imports`, {module: why it cannot be imported}; `probes`, {patch: {held, problems,
unknown}}. With --locate it gets the folder of each package, or null where there is none.
"""

from __future__ import annotations

import ast
import gc
import hashlib
import importlib
import importlib.metadata
import importlib.util
import inspect
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, TypedDict

_IMPORT_SECONDS = 600
# Behind a name that nobody could ask for.
NOT_IMPORTED = ": its module cannot be imported here"


class ManifestFile(TypedDict):
    """A file's `sha256:HEX` before and after the patches."""

    path: str
    before: str | None
    after: str


Manifest = TypedDict(
    "Manifest",
    {
        "manifest-version": int,
        "version": str,
        "vllm": str,
        "trees": list[str],
        "tree": str,
        "package": str,
        "release": "str | None",
        "mode": str,
        "lock": str,
        "files": list[ManifestFile],
        "not-shipped": list[str],
        "modules": list[str],
        "probes": dict[str, list[dict[str, str]]],
    },
    total=False,
)
"""What is locked of a package: `version` to `trees` of vLLM, `tree` to `release` of another."""


class Effect(TypedDict):
    """What became of a patch's probes: `held` counts, the others say what and why."""

    held: int
    problems: list[str]
    unknown: list[str]


class ImageAnswer(TypedDict):
    package: str | None
    problems: list[dict[str, str]]
    imports: dict[str, str]
    probes: dict[str, Effect]


def locate(package: str) -> Path | None:
    """Return the folder of a package that this Python would import, without importing it."""
    spec = importlib.util.find_spec(package)
    places = list(spec.submodule_search_locations or ()) if spec else []
    return Path(places[0]).resolve() if places else None


def package_of(manifest: Manifest) -> str:
    """Return the name of the package that a manifest is of."""
    return manifest.get("package", "vllm")


def other_release(manifest: Manifest, package: Path) -> str | None:
    """Say which release the package is of, where it is not the one that was locked."""
    wanted: str | None
    if "vllm" in manifest:
        name, version, wanted = "vLLM", _version_of(package), manifest["vllm"]
    else:
        name, wanted = manifest["tree"], manifest["release"]
        try:
            version = importlib.metadata.version(name).partition("+")[0]
        except importlib.metadata.PackageNotFoundError:
            version = None
        if wanted is None:
            return None
    return None if version == wanted else f"has {name} {version}, and the lock is of {wanted}"


def _version_of(package: Path) -> str | None:
    """Return the release, without the local part that a platform appends."""
    file = package / "_version.py"
    text = file.read_text(encoding="utf-8") if file.is_file() else ""
    match = re.search(r"^__version__ = .*?'([^'+]+)", text, re.MULTILINE)
    return match[1] if match else None


def digest_of(file: Path) -> str | None:
    if not file.is_file():
        return None
    return f"sha256:{hashlib.sha256(file.read_bytes()).hexdigest()}"


def bytecode_of(file: Path) -> list[Path]:
    """Return all compiled files that an import of a module might take, of any Python."""
    beside = file.with_suffix(".pyc")
    cached = sorted((file.parent / "__pycache__").glob(f"{file.stem}.*.pyc"))
    return cached + ([beside] if beside.exists() else [])


def verify(manifest: Manifest) -> ImageAnswer:
    """Compare an image with a manifest: files, bytecode, imports and effects."""
    name = package_of(manifest)
    package = locate(name)
    if package is None:
        nothing = {"path": name, "what": f"{sys.executable} has no package {name}"}
        return {"package": None, "problems": [nothing], "imports": {}, "probes": {}}
    problems = []
    other = other_release(manifest, package)
    if other:
        problems.append({"path": str(package), "what": f"the image {other}"})
    for entry in manifest["files"]:
        file = package.parent / entry["path"]
        name = manifest.get("tree", "vLLM")
        problem = _file_problem(entry, digest_of(file), name) or _bytecode_problem(file)
        if problem:
            problems.append({"path": str(file), "what": problem})
    imports, probes = ask_live(manifest)
    return {"package": str(package), "problems": problems, "imports": imports, "probes": probes}


def _file_problem(entry: ManifestFile, digest: str | None, name: str) -> str | None:
    if digest == entry["after"]:
        return None
    if digest is None:
        return "it is missing"
    if digest == entry["before"]:
        return f"it is as before the patch: {name} was installed over it"
    return f"it was changed: it is {digest[:23]}, and the lock has {entry['after'][:23]}"


def _bytecode_problem(file: Path) -> str | None:
    # A build leaves none that is not empty, so that nothing but the source can run.
    names = [path.name for path in bytecode_of(file) if path.stat().st_size]
    return f"stale bytecode lies beside it: {', '.join(names)}" if names else None


def _compile(file: Path) -> CodeType:
    return compile(file.read_bytes(), str(file), "exec", dont_inherit=True)


def ask_live(manifest: Manifest) -> tuple[dict[str, str], dict[str, Effect]]:
    """Import in a process apart: a library that dies takes its process with it, and no more."""
    modules = list(manifest["modules"])
    imports: dict[str, str] = {}
    while True:
        answers, end = _live_process({**manifest, "modules": modules})
        imports |= {a["module"]: a["error"] for a in answers if a.get("error")}
        probes = next((a["probes"] for a in answers if "probes" in a), None)
        answered = [answer["module"] for answer in answers if "module" in answer]
        fatal = next((module for module in modules if module not in answered), None)
        if fatal is None:
            break
        imports[fatal] = f"the process that imports it {end}"
        modules.remove(fatal)
    if probes is None:
        problem = f"cannot be asked for: the process {end}"
        gone: Effect = {"held": 0, "problems": [problem], "unknown": []}
        probes = {patch: gone for patch, asked in manifest["probes"].items() if asked}
    return imports, probes


def _live_process(manifest: Manifest) -> tuple[list[Any], str]:
    """Run `live` once; return its answers as far as they came, and how it ended."""
    with tempfile.TemporaryDirectory() as name:
        job, result = Path(name, "job.json"), Path(name, "result.json")
        job.write_text(json.dumps(manifest), encoding="utf-8")
        command = [sys.executable, "-B", __file__, "--live", str(job), str(result)]
        # What libraries write when they are imported has no place in an image.
        environment = os.environ | {"HOME": name, "TMPDIR": name, "XDG_CACHE_HOME": name}
        try:
            run = subprocess.run(command, timeout=_IMPORT_SECONDS, env=environment, check=False)
            end = f"ended with {run.returncode}"
        except subprocess.TimeoutExpired:
            end = f"did not end in {_IMPORT_SECONDS} s"
        lines = result.read_text(encoding="utf-8").splitlines() if result.exists() else []
        return [json.loads(line) for line in lines], end


def live(manifest: Manifest, result: Path) -> None:
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
        effects = {patch: _effect(probes, broken) for patch, probes in manifest["probes"].items()}
        answers.write(json.dumps({"probes": effects}) + "\n")


def _effect(probes: list[dict[str, str]], broken: dict[str, str]) -> Effect:
    """Ask all probes of a patch."""
    effect: Effect = {"held": 0, "problems": [], "unknown": []}
    for probe in probes:
        where = f"{probe['module']}:{probe['name']}"
        if probe["module"] not in sys.modules or probe["module"] in broken:
            effect["unknown"].append(f"{where}{NOT_IMPORTED}")
            continue
        try:
            problem = _probe(sys.modules[probe["module"]], probe["name"], probe["kind"])
        except LookupError as reason:
            effect["unknown"].append(f"{where}: {reason.args[0]}")
            continue
        except Exception as error:  # noqa: BLE001 - whatever stands there now, it is not the patch
            problem = f"cannot be looked at: {type(error).__name__}: {error}"
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
    member: Any = module
    for part in name.split("."):
        mangled = part.startswith("__") and not part.endswith("__") and isinstance(member, type)
        attribute = f"_{member.__name__.lstrip('_')}{part}" if mangled else part
        try:
            member = inspect.getattr_static(member, attribute)
        except AttributeError:
            return "is not there"
    file = Path(inspect.getfile(module))
    path = _path_to(ast.parse(file.read_bytes()), name.split("."))
    if kind == "function":
        return _function_problem(member, path, _codes_of(_compile(file), name))
    last = path[-1]
    if isinstance(last, (ast.Import, ast.ImportFrom)):
        same = member is _import(last, name, module)
        return "" if same else "is something else than what is imported"
    if not isinstance(last, (ast.Assign, ast.AnnAssign)) or last.value is None:
        raise LookupError("its source does not assign it")
    wanted = ast.literal_eval(last.value)
    return "" if member == wanted else f"is {member!r}, and its source says {wanted!r}"


def _path_to(scope: ast.AST, names: list[str]) -> list[ast.stmt]:
    """Return the statements that bind a dotted name, from the outermost; of several, the last."""
    for node in reversed(getattr(scope, "body", [])):
        if names[0] in _bindings(node):
            return [node, *(_path_to(node, names[1:]) if len(names) > 1 else ())]
    raise LookupError("its source does not bind it")


def _bindings(node: ast.stmt) -> set[str]:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return {node.name}
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return {alias.asname or alias.name.partition(".")[0] for alias in node.names}
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return {target.id for target in targets if isinstance(target, ast.Name)}


def _function_problem(member: Any, path: list[ast.stmt], sources: list[CodeType]) -> str:
    """Compare a function's code with its source; only its own decorators may be around it."""
    layers = len(getattr(path[-1], "decorator_list", ()))
    code = _code_of(member, layers)
    if code is not None and code in sources:
        return ""
    if any(getattr(scope, "decorator_list", ()) for scope in path[:-1]):
        raise LookupError("a decorator of its class puts something else in its place")
    if code is None and layers:
        raise LookupError(f"its decorator makes a {type(member).__name__} of it, without its code")
    if code is None:
        return f"is a {type(member).__name__}, and a function in its source"
    return f"is not what its source says: it comes from {code.co_filename}"


def _code_of(layer: Any, layers: int) -> CodeType | None:
    """Return the code below at most so many decorators; None where there is none."""
    for _ in range(layers):
        # functools.wraps; class and static methods; properties; cached properties; triton's kernels
        inner = (getattr(layer, n, None) for n in ("__wrapped__", "__func__", "fget", "func", "fn"))
        below = next((one for one in inner if one is not None), None)
        if below is None:
            break
        layer = below
    return layer.__code__ if isinstance(layer, FunctionType) else None


def _codes_of(module: CodeType, name: str) -> list[CodeType]:
    """Return what a module's source has under a dotted name; several, where it says it twice."""
    scopes = [module]
    for part in name.split("."):
        inner = [constant for code in scopes for constant in code.co_consts]
        scopes = [code for code in inner if isinstance(code, CodeType) and code.co_name == part]
    return scopes


def _import(node: ast.Import | ast.ImportFrom, name: str, module: ModuleType) -> object:
    """What an import statement binds to a name."""
    alias = next(a for a in node.names if name == (a.asname or a.name.partition(".")[0]))
    if isinstance(node, ast.ImportFrom):
        place = "." * node.level + (node.module or "")
        source = importlib.import_module(place, module.__package__)
        if hasattr(source, alias.name):
            return getattr(source, alias.name)
        return importlib.import_module(f"{source.__name__}.{alias.name}")
    whole = importlib.import_module(alias.name)
    return whole if alias.asname else sys.modules[name]


def main() -> None:
    # As `python -m` has it: what lies in the image's folder to work in may hide a package.
    sys.path.insert(0, str(Path.cwd()))
    if sys.argv[1] == "--live":
        # Imports make millions of objects that stay: to look for garbage takes a sixth of the time.
        gc.disable()
        live(json.loads(Path(sys.argv[2]).read_text(encoding="utf-8")), Path(sys.argv[3]))
        # The answers are written. Nothing here needs torch to clear up, which takes a second.
        os._exit(0)
    if sys.argv[1] == "--locate":
        places = {name: locate(name) for name in sys.argv[3:]}
        folders = {name: None if place is None else str(place) for name, place in places.items()}
        Path(sys.argv[2]).write_text(json.dumps(folders), encoding="utf-8")
        return
    outcome = verify(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
    Path(sys.argv[2]).write_text(json.dumps(outcome), encoding="utf-8")


if __name__ == "__main__":
    main()
