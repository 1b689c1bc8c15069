"""A patch's examples: small trees before and after, in `examples/<state>-<label>/`.

The folder's name begins with the state that the patch must have on `before/`; where that is
`needed`, `after/` holds what must come out. Every example is run twice.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.errors import UsageError
from vpatch.planning.editing import probe
from vpatch.planning.plan import plan
from vpatch.planning.state import State
from vpatch.planning.view import View
from vpatch.source.memory import MemoryTree
from vpatch.source.tree import Pin

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from vpatch.declare.edits import Predicate
    from vpatch.library.patch import Patch
    from vpatch.planning.state import Decision
    from vpatch.source.tree import Tree


# Of a patch whose code may not run, no example could show anything.
# An example has no version that a patch could leave out.
_STATES = [one for one in State if one not in {State.UNTRUSTED, State.NOT_DECLARED}]


@dataclass(frozen=True)
class ExampleResult:
    """`failures` is empty where the example holds."""

    name: str
    failures: tuple[str, ...]


def run_examples(patch: Patch) -> Iterator[ExampleResult]:
    """Run all examples of a patch.

    Raises:
        UsageError: it has none that shows the edit, or one with a name that says no state.
    """
    cases = _cases(patch)
    if not any(case.name.startswith(State.NEEDED) for case in cases):
        raise UsageError(
            f"{patch.id} has no example that needs it",
            where=str(patch.folder / "examples"),
            hint="add examples/needed-LABEL/before/... and after/...",
            code="library.no-example",
        )
    for case in cases:
        yield run_example(patch, case)


def run_example(patch: Patch, folder: Path) -> ExampleResult:
    """Run one example of a patch, which lies in a folder."""
    return ExampleResult(folder.name, tuple(_run(patch, folder)))


def write_example(folder: Path, before: Mapping[str, bytes], after: Mapping[str, bytes]) -> None:
    """Write the folder of an example: files before the patch, and after it."""
    for side, files in (("before", before), ("after", after)):
        for path, content in files.items():
            place = folder / side / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)


def concerned_files(
    concerns: Predicate, tree: Tree, files: Mapping[str, bytes]
) -> dict[str, bytes]:
    """Files of a tree without which some of its files would not concern a patch."""
    more: dict[str, bytes] = {}
    alone = View(MemoryTree(tree.pin, files))
    for site in probe(concerns, View(tree)).sites:
        if probe(concerns, alone.over(more)).holds:
            break
        more[site.path] = tree.read(site.path)
    return more


def example_decisions(patch: Patch) -> Iterator[tuple[str, Decision]]:
    """Decide on the code before each example, and yield it with the example's name.

    Raises:
        UsageError: an example lacks a folder.
    """
    for case in _cases(patch):
        tree = _tree(patch, _files(case / "before"))
        yield case.name, plan([patch], tree).decisions[0]


def _cases(patch: Patch) -> list[Path]:
    folder = patch.folder / "examples"
    return sorted(path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []


def _run(patch: Patch, case: Path) -> Iterator[str]:
    state = _state_of(case)
    before = _files(case / "before")
    decision = plan([patch], _tree(patch, before)).decisions[0]
    if decision.state is not state:
        yield f"the patch is {decision.state} here, not {state}: {decision.reason}"
        return
    if state is not State.NEEDED:
        return
    result = before | {path: change.after for path, change in decision.changes.items()}
    wanted = _files(case / "after")
    for path in sorted(result.keys() | wanted.keys()):
        if result.get(path) != wanted.get(path):
            yield _difference(path, wanted.get(path, b""), result.get(path, b""))
    again = plan([patch], _tree(patch, result, carried=[patch.id])).decisions[0]
    if again.state is not State.APPLIED or again.changes:
        yield f"the second run is not idle: the patch is {again.state}: {again.reason}"


def _state_of(case: Path) -> State:
    for state in _STATES:
        if case.name.startswith(f"{state}-"):
            return state
    raise UsageError(
        "the name of an example begins with a state",
        where=str(case),
        hint=f"rename it to one of {', '.join(f'{state}-LABEL' for state in _STATES)}",
        code="library.bad-example",
    )


def _tree(patch: Patch, files: dict[str, bytes], carried: Iterable[str] = ()) -> MemoryTree:
    name = next(iter(patch.declaration.needed_in))
    pin = Pin(name, "folder", None, "sha256:", "example")
    return MemoryTree(pin, files, frozenset(carried))


def _files(folder: Path) -> dict[str, bytes]:
    if not folder.is_dir():
        raise UsageError(
            f"the example has no folder {folder.name}",
            where=str(folder.parent),
            hint="add it, with the files of the example",
            code="library.bad-example",
        )
    # pip compiles the .py files of the library that it installs, examples included.
    paths = (p for p in sorted(folder.rglob("*")) if p.is_file() and p.suffix != ".pyc")
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def _difference(path: str, wanted: bytes, actual: bytes) -> str:
    lines = difflib.unified_diff(
        wanted.decode(errors="replace").splitlines(),
        actual.decode(errors="replace").splitlines(),
        f"{path} (after)",
        f"{path} (made)",
        lineterm="",
    )
    return "\n".join(lines)
