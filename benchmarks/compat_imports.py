"""Import the modules of a plugin in CPU builds of vLLM, and compare with `vpatch compat`.

    python benchmarks/compat_imports.py RELEASE FOLDER...

It takes the build of the release that `vpatch engine` put into the cache. What is installed there
neither with vLLM nor in the folder, such as torch_npu, is a stub that has every name. Each error in
a module of the target is compared with the item of that file and line: an error that vLLM causes
must be predicted, and what was predicted to be gone at import time must not be imported.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any


ASK = "--ask"
# Of vLLM, as Python names it in an error.
_ABOUT = ("vllm.", "'vllm'", "vllm ")


def import_all(folder: str, modules: list[str]) -> dict[str, Any]:
    """Import modules one by one in an engine's Python; return the errors by place."""
    import contextlib  # noqa: PLC0415 - only here
    import importlib  # noqa: PLC0415
    import importlib.abc  # noqa: PLC0415
    import importlib.machinery  # noqa: PLC0415
    import importlib.util  # noqa: PLC0415
    import traceback  # noqa: PLC0415
    import types  # noqa: PLC0415
    from unittest.mock import MagicMock  # noqa: PLC0415

    own = {name.partition(".")[0] for name in modules}

    class Stub(types.ModuleType):
        __path__: list[str] = []

        def __getattr__(self, name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            value = type(name, (), {"__init__": lambda self, *a, **k: None}) if name[:1].isupper() else MagicMock()
            setattr(self, name, value)
            return value

    class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
        def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
            first = name.partition(".")[0]
            if first in own or first == "vllm" or first in sys.stdlib_module_names:
                return None
            parent = sys.modules.get(name.rpartition(".")[0])
            if isinstance(parent, Stub):
                return importlib.machinery.ModuleSpec(name, self, is_package=True)
            frame = sys._getframe(1)
            while "importlib" in frame.f_code.co_filename and frame.f_back is not None:
                frame = frame.f_back
            # vLLM itself asks whether a module is there: it gets no stub.
            if path is not None or not frame.f_code.co_filename.startswith(folder):
                return None
            return importlib.machinery.ModuleSpec(name, self, is_package=True)

        def create_module(self, spec: Any) -> Any:
            return Stub(spec.name)

        def exec_module(self, module: Any) -> None:
            return None

    sys.path.insert(0, folder)
    with contextlib.suppress(ImportError):
        import torch  # noqa: PLC0415

        for device in ("hpu", "npu"):
            setattr(torch, device, MagicMock())
    # Last: what is installed comes first.
    sys.meta_path.append(Finder())
    errors: dict[str, list[str]] = {}
    imported = []
    for name in modules:
        try:
            importlib.import_module(name)
            imported.append(name)
        except BaseException as error:  # noqa: BLE001 - whatever an import raises is an answer
            frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename.startswith(folder)]
            place = f"{frames[-1].filename[len(folder) + 1 :]}:{frames[-1].lineno}" if frames else "?"
            text = f"{type(error).__name__}: {error}"[:300]
            with contextlib.suppress(Exception):
                errors.setdefault(place, [text, name])
    return {"errors": errors, "imported": imported}


def answers() -> None:
    row = json.load(sys.stdin)
    result = import_all(row["folder"], row["modules"])
    sys.stdout.write("\nANSWERS" + json.dumps(result))


def main(release: str, folders: list[str]) -> int:
    wrong = 0
    for folder in folders:
        wrong += compare(release, Path(folder).resolve())
    return 1 if wrong else 0


def compare(release: str, folder: Path) -> int:
    from measuring import VPATCH  # noqa: PLC0415 - not in the engine
    from vpatch.commands.compat.code.part import modules_of  # noqa: PLC0415
    from vpatch.workspace.context import Context, open_engine  # noqa: PLC0415

    command = [*VPATCH, "compat", str(folder), "--vllm", release, "--json", "--offline"]
    run = subprocess.run(command, capture_output=True, check=False)
    items = json.loads(run.stdout)["result"]["items"]
    paths = sorted({place["path"] for item in items for place in item["places"]})
    below = "src/" if paths and paths[0].startswith("src/") else ""
    root = folder / below
    # Paths begin with the name of a folder that is a package itself.
    if (folder / "__init__.py").is_file():
        root = folder.parent
    modules = list(modules_of(paths, below))
    with open_engine(Context(offline=True), "cpu", release) as engine:
        asked = subprocess.run(
            [str(engine.python), __file__, ASK],
            input=json.dumps({"folder": str(root), "modules": modules}),
            capture_output=True,
            text=True,
            check=False,
        )
    if "\nANSWERS" not in asked.stdout:
        sys.exit(asked.stderr[-3000:])
    real = json.loads(asked.stdout.rpartition("\nANSWERS")[2])
    at = {
        f"{place['path']}": [] for item in items for place in item["places"]
    }
    for item in items:
        for place in item["places"]:
            at[place["path"]].append((place["line"], item))
    counts: Counter[str] = Counter()
    for place, (text, _module) in sorted(real["errors"].items()):
        path, _, line = place.rpartition(":")
        near = [i for n, i in at.get(below + path, []) if abs(n - int(line or 0)) <= 30]
        states = {i["verdicts"][release]["state"] for i in near if mentions(text, i["name"])}
        about = any(word in text for word in _ABOUT)
        if states & {"gone", "changed"}:
            counts["an error, predicted"] += 1
        elif about and "stub" not in text:
            counts["an error of vLLM's, not predicted"] += 1
            print(f"{folder.name} {release}: {place}: {text}: {states}")
        else:
            counts["an error of something else"] += 1
            print(f"    other: {place}: {text}")
    whole = set(real["imported"])
    for item in items:
        if not item["at_import"] or item["verdicts"][release]["state"] != "gone":
            continue
        files = {place["path"] for place in item["places"]}
        there = {m for m, path in modules_of(paths, below).items() if path in files} & whole
        if there and not item["conditions"]:
            counts["gone, and imported"] += 1
            print(f"{folder.name} {release}: {item['kind']} {item['name']}: imported in {there}")
    print(f"{folder.name} in {release}: {len(whole)} of {len(modules)} modules import; {dict(counts)}")
    return counts["an error of vLLM's, not predicted"] + counts["gone, and imported"]


def mentions(text: str, name: str) -> bool:
    """Whether an error is about a name: about itself, or about a module that it is in."""
    quoted = re.findall(r"'([\w.]+)'", text)
    return any(name == one or name.startswith(f"{one}.") for one in quoted if "." in one) or (
        name.rpartition(".")[2] in quoted
    )


if __name__ == "__main__":
    if sys.argv[1:] == [ASK]:
        answers()
    elif len(sys.argv) > 2:  # noqa: PLR2004
        sys.exit(main(sys.argv[1], sys.argv[2:]))
    else:
        sys.exit(__doc__)
