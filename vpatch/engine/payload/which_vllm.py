"""Print which vLLM this Python would import, and what takes part in that. It imports no vLLM.

    VPATCH_MARK=MARK [VPATCH_SEES=all] PYTHON -IS which_vllm.py

It runs in the user's Python, where vpatch is not. With -S, what the environment runs at each start
(lines of `.pth` files, sitecustomize, usercustomize) has not run yet, so it has no part in the
first answer. Then it runs, as it always does, and the second answer says what that changed. With
VPATCH_SEES=all, PYTHONPATH and the user's own folder of packages count, as for a server. Python
itself must not see them: it would take its own library from a folder there.

An answer is a line of MARK and JSON. The first has

- executable, suffixes (of extension modules), pycache (`sys.pycache_prefix`)
- path: the folders in which Python looks
- origin, places: of `vllm`, as `importlib` finds it there; null and none where there is none
- starting: the files with code that runs at each start

The second has

- origin, places: what Python would import now
- loaded: the modules of vLLM that are imported already
- importers: who else takes part in imports of vLLM's modules, with the number of modules
"""

from __future__ import annotations

import builtins
import importlib
import importlib.machinery
import importlib.util
import json
import os
import site
import sys
from importlib import _bootstrap, _bootstrap_external
from typing import Any

CUSTOMISING = ("sitecustomize", "usercustomize")
IMPORTING = ("__import__", "__build_class__", "compile", "exec")
SOURCE = ".py"
# As many as a package may have; ten times those of vLLM.
MOST_MODULES = 20_000


def say(**answer: object) -> None:
    sys.stdout.write(f"\n{os.environ.get('VPATCH_MARK', '')}{json.dumps(answer)}\n")
    sys.stdout.flush()


def plain_path() -> tuple[list[str], list[str]]:
    """Return the path as `site` makes it, and the `.pth` files whose code it would run.

    `site` runs that code by `exec`: a name of the module comes before that of the builtins.
    """
    codes: list[str] = []
    reading = [""]
    add = site.addpackage

    def addpackage(folder: str, name: str, *rest: Any) -> Any:
        reading[0] = os.path.join(folder, name)
        if not os.path.isfile(reading[0]) and os.path.exists(reading[0]):
            sys.exit(f"{reading[0]} is not a file, and Python waits for it at each start")
        return add(folder, name, *rest)

    site.addpackage = addpackage  # type: ignore[assignment]
    site.exec = lambda *_: codes.append(reading[0])  # type: ignore[attr-defined]
    site.execsitecustomize = site.execusercustomize = lambda: None
    find_packages()
    del site.exec  # type: ignore[attr-defined]
    return list(sys.path), list(dict.fromkeys(codes))


def find_packages() -> None:
    if os.environ.get("VPATCH_SEES") == "all" and not os.environ.get("PYTHONNOUSERSITE"):
        site.ENABLE_USER_SITE = True
    site.main()


def customising(path: list[str]) -> list[str]:
    """Return the modules that Python imports at each start, those of its own library aside."""
    own = os.path.dirname(os.path.realpath(os.__file__))
    files = []
    for entry in path:
        if os.path.realpath(entry) == own or not os.path.isdir(entry):
            continue
        finder = importlib.machinery.PathFinder
        for name in CUSTOMISING:
            spec = finder.find_spec(name, [entry])
            if spec is not None and spec.origin:
                files.append(spec.origin)
    return files


def modules(place: str) -> list[tuple[str, str]]:
    """Return the modules of the package with the folder of each."""
    listed = []
    for parent, folders, names in os.walk(place):
        folders[:] = sorted(one for one in folders if one != "__pycache__")
        inside = os.path.relpath(parent, os.path.dirname(place)).split(os.sep)
        stems = {name.partition(".")[0] for name in names if name.endswith(SOURCE)}
        listed += [(".".join([*inside, stem]), parent) for stem in sorted(stems - {"__init__"})]
        if any(name.partition(".")[0] == "__init__" for name in names) and parent != place:
            listed.append((".".join(inside), os.path.dirname(parent)))
    return listed[:MOST_MODULES]


def seen(spec: Any) -> Any:
    """Return what of a spec decides which code runs."""
    if spec is None:
        return None
    kind = type(spec.loader)
    return (spec.origin, f"{kind.__module__}.{kind.__qualname__}")


def live_spec(name: str, folder: str) -> tuple[str, Any]:
    """Ask as an import does: each finder in turn. Return who answered, and what."""
    for finder in list(sys.meta_path):
        try:
            spec = finder.find_spec(name, [folder], None)
        except Exception:  # noqa: BLE001, S112 - a finder of somebody's may raise anything
            continue
        if spec is not None:
            kind = finder if isinstance(finder, type) else type(finder)
            return f"{kind.__module__}.{kind.__qualname__}", seen(spec)
    return "nothing", None


def machinery() -> dict[str, Any]:
    """Return the functions that import modules, by name."""
    functions = {name: getattr(builtins, name) for name in IMPORTING}
    for module in (_bootstrap, _bootstrap_external, importlib):
        for name, value in list(vars(module).items()):
            if callable(value):
                functions[f"{module.__name__}.{name}"] = value
            if isinstance(value, type):
                for inner, function in list(vars(value).items()):
                    functions[f"{module.__name__}.{name}.{inner}"] = function
    return functions


def place_of(spec: Any) -> tuple[str | None, list[str]]:
    places = [] if spec is None else [str(one) for one in spec.submodule_search_locations or ()]
    return spec and spec.origin, places


def main() -> None:
    if os.environ.get("VPATCH_SEES") == "all":
        added = os.environ.get("PYTHONPATH")
        sys.path[:0] = added.split(os.pathsep) if added else []
        sys.pycache_prefix = os.environ.get("PYTHONPYCACHEPREFIX") or None
    before = list(sys.path)
    path, codes = plain_path()
    origin, places = place_of(importlib.machinery.PathFinder.find_spec("vllm", path))
    say(
        executable=sys.executable,
        suffixes=importlib.machinery.EXTENSION_SUFFIXES,
        pycache=sys.pycache_prefix,
        path=path,
        origin=origin,
        places=places,
        starting=[*codes, *customising(path)],
    )
    listed = modules(places[0]) if places else []
    find = importlib.machinery.PathFinder.find_spec
    expected = {(name, folder): seen(find(name, [folder])) for name, folder in listed}
    functions = machinery()
    # From here on, the environment's own code runs.
    sys.path[:] = before
    importlib.reload(site)
    find_packages()
    loaded = sorted(name for name in sys.modules if name.partition(".")[0] == "vllm")
    importers: dict[str, int] = {}
    now = machinery()
    for name in sorted({*functions, *now}):
        if now.get(name) is not functions.get(name):
            importers[f"another {name}"] = len(listed)
    for one, wanted in expected.items():
        who, answer = live_spec(*one)
        if answer != wanted:
            importers[who] = importers.get(who, 0) + 1
    try:
        origin, places = place_of(importlib.util.find_spec("vllm"))
    except Exception:  # noqa: BLE001 - as above
        origin, places = place_of(None)
    say(origin=origin, places=places, loaded=loaded, importers=importers)


if __name__ == "__main__":
    main()
