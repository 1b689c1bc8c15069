"""Import the modules of plugins in a CPU build of vLLM, and compare with `vpatch compat`.

    python benchmarks/compat_imports.py RELEASE FOLDER...

It takes the build of the release that `vpatch engine` put into the cache. What a plugin imports and
is not installed there, such as torch_npu, is a stub that has every name. So is what the build of a
plugin makes. An error that vLLM causes must be predicted at that place, and what is `gone` at
import time must not be in a module that imports. Ends with 1 if something differs.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.abc
import importlib.machinery
import json
import re
import subprocess
import sys
import traceback
import types
from collections import Counter
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

ASK = "--ask"
# A statement may begin above the line that Python names.
_NEAR = 30
_DEVICES = ("hpu", "npu")
_ABOUT_VLLM = re.compile(r"'vllm(?:\.|')")


class Stub(types.ModuleType):
    """A module that has every name: a class for those that begin with a capital letter."""

    __path__ = ()  # type: ignore[assignment] # what makes it a package
    __version__ = "0"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        value = type(name, (), {}) if name[:1].isupper() else MagicMock()
        setattr(self, name, value)
        return value


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Makes stubs for what the target imports and nobody has. vLLM itself gets none."""

    def __init__(self, folder: str, own: set[str]) -> None:
        self._folder = folder
        self._own = own
        self._known = {"vllm", *sys.stdlib_module_names}

    def find_spec(
        self, name: str, path: object, _target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name.partition(".")[0] in self._known:
            return None
        is_in_stub = isinstance(sys.modules.get(name.rpartition(".")[0]), Stub)
        is_built = name.partition(".")[0] in self._own
        if not (is_in_stub or is_built) and (path is not None or not self._asks_target()):
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def _asks_target(self) -> bool:
        frame = sys._getframe(2)  # noqa: SLF001 - who imports, is told nowhere else
        while "importlib" in frame.f_code.co_filename and frame.f_back is not None:
            frame = frame.f_back
        return frame.f_code.co_filename.startswith(self._folder)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return Stub(spec.name)

    def exec_module(self, _module: types.ModuleType) -> None:
        return None


def import_all(folder: str, modules: list[str]) -> dict[str, Any]:
    """Import modules one by one; return those that are, and each error by its places."""
    sys.path.insert(0, folder)
    with contextlib.suppress(ImportError):
        torch = importlib.import_module("torch")
        for device in _DEVICES:
            setattr(torch, device, MagicMock())
    # At the end: what is installed comes first.
    sys.meta_path.append(Finder(folder, {name.partition(".")[0] for name in modules}))
    errors: dict[str, tuple[list[str], str]] = {}
    imported = []
    for name in modules:
        try:
            importlib.import_module(name)
            imported.append(name)
        except BaseException as error:  # noqa: BLE001 - whatever an import raises is an answer
            frames = [
                f"{frame.filename[len(folder) + 1 :]}:{frame.lineno}"
                for frame in traceback.extract_tb(error.__traceback__)
                if frame.filename.startswith(folder)
            ]
            frames = frames or ["?:0"]
            # A target may import by a function of its own: then a place before that counts.
            errors[frames[-1]] = frames, f"{type(error).__name__}: {error}"
    return {"errors": errors, "imported": imported}


def main(release: str, folders: list[str]) -> int:
    results = [compare(release, Path(folder).resolve()) for folder in folders]
    return 1 if any(results) else 0


def compare(release: str, folder: Path) -> int:
    """Compare what Python and vpatch say of a target; return how often they differ."""
    from compat_items import items_of  # noqa: PLC0415 - not in the engine

    items = items_of(str(folder), "--vllm", release, "--offline")
    paths = sorted({place["path"] for item in items for place in item["places"]})
    modules, root = modules_in(folder, paths)
    answer = ask_engine(__file__, release, {"folder": str(root), "modules": list(modules)})
    counts = Counter(
        [
            *(judged(release, items, *one) for one in sorted(answer["errors"].values())),
            *gone_and_imported(release, items, {modules[name] for name in answer["imported"]}),
        ]
    )
    print(f"{folder.name} in {release}: {len(answer['imported'])} of {len(modules)} modules import")
    for outcome, count in sorted(counts.items()):
        print(f"  {outcome}: {count}")
    return sum(count for outcome, count in counts.items() if outcome.startswith("WRONG"))


def modules_in(folder: Path, paths: list[str]) -> tuple[dict[str, str], Path]:
    """Return the paths of a target by the names of their modules, and where these begin."""
    from vpatch.commands.compat.code.part import modules_of  # noqa: PLC0415 - not in the engine

    below = "src/" if all(path.startswith("src/") for path in paths) else ""
    root = folder.parent if (folder / "__init__.py").is_file() else folder / below
    return modules_of(paths, below), root


def ask_engine(script: str, release: str, question: object) -> Any:
    """Return what a script answers in the Python of a release's CPU build."""
    from vpatch.workspace.context import Context, open_engine  # noqa: PLC0415 - not in the engine

    with open_engine(Context(offline=True), "cpu", release) as engine:
        run = subprocess.run(
            [str(engine.python), script, ASK],
            input=json.dumps(question),
            capture_output=True,
            text=True,
            check=False,
        )
    if "\nANSWERS" not in run.stdout:
        sys.exit(run.stderr[-3000:])
    return json.loads(run.stdout.rpartition("\nANSWERS")[2])


def judged(release: str, items: list[dict[str, Any]], places: list[str], text: str) -> str:
    """Return what vpatch says of the names that an error is about, at any of its places."""
    spots = [(path, int(line)) for path, _, line in (p.rpartition(":") for p in places)]
    states = {
        item["verdicts"][release]["state"]
        for item in items
        if mentions(text, item["name"])
        and any(
            one["path"].endswith(path) and abs(one["line"] - line) <= _NEAR
            for one in item["places"]
            for path, line in spots
        )
    }
    place = places[-1]
    if states & {"gone", "changed"}:
        return "an error, predicted"
    if not _ABOUT_VLLM.search(text):
        print(f"  other: {place}: {text[:160]}")
        return "an error that is not about vLLM"
    outcome = "an error, unknown" if "unknown" in states else "WRONG: an error, not predicted"
    print(f"  {outcome}: {place}: {text[:160]}")
    return outcome


def gone_and_imported(release: str, items: list[dict[str, Any]], whole: set[str]) -> list[str]:
    outcomes = []
    for item in items:
        is_gone = item["at_import"] and item["verdicts"][release]["state"] == "gone"
        places = [one["path"] for one in item["places"] if one["path"] in whole]
        # What is caught does not stop an import.
        if is_gone and places and not item["conditions"]:
            print(f"  WRONG: {item['kind']} {item['name']}, {places}")
            outcomes.append("WRONG: gone, and imported")
    return outcomes


def mentions(text: str, name: str) -> bool:
    """Whether an error is about a name, or about a module that it is in."""
    quoted = re.findall(r"'([\w.]+)'", text)
    return name.rpartition(".")[2] in quoted or any(
        "." in one and (name == one or name.startswith(f"{one}.")) for one in quoted
    )


if __name__ == "__main__":
    if sys.argv[1:] == [ASK]:
        row = json.load(sys.stdin)
        result = import_all(row["folder"], row["modules"])
        sys.stdout.write("\nANSWERS" + json.dumps(result))
    elif len(sys.argv) > 2:  # noqa: PLR2004
        sys.exit(main(sys.argv[1], sys.argv[2:]))
    else:
        sys.exit(__doc__)
