"""Change patches of the library by `vpatch edit` and `refresh`, without a look at patch.yaml.

    python benchmarks/edits.py [--only WORDS] [--keep DIR]

Each change of edit_changes.py goes through a project of its own, with a copy of the patch: `vpatch
edit`, an edit of the work tree, `vpatch refresh --releases all`, `vpatch test`. A table in Markdown
is printed. A row is right if

- the patch makes on its release exactly what the work tree had,
- its state in each release is what it was, or refresh named it,
- `vpatch test` holds, but for examples that refresh named,
- patch.yaml has at most the lines added and removed that a person would need.

`reaches` counts the releases that need the patch and get other code now. Ends with 1 if a row is
not right.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING

from edit_changes import CHANGES, Change
from measuring import VPATCH

from vpatch.commands.edit.series import planned_series, required_series, selected
from vpatch.source.spec import PypiSpec
from vpatch.workspace.context import Context

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

ROOT = Path(__file__).parents[1]


@dataclass
class Row:
    """What became of a change. `problems` are empty where it is right."""

    change: Change
    lines: int = 0
    beside: int = 0
    same: str = ""
    states: str = ""
    reaches: str = ""
    tests: str = ""
    problems: tuple[str, ...] = ()

    @property
    def cells(self) -> list[str]:
        change = self.change
        return [
            change.name,
            f"`{change.patch}`",
            change.release,
            self.same,
            f"{self.lines} of {change.lines}",
            change.need,
            str(self.beside),
            self.states,
            self.reaches,
            self.tests or "hold",
            "; ".join(self.problems) or "right",
        ]


HEAD = [
    "Change",
    "Patch",
    "Release",
    "Edits that stay",
    "Lines of patch.yaml, of those needed",
    "What a person needs",
    "Lines beside it",
    "States",
    "Reaches",
    "Examples",
    "Result",
]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="changes whose name or patch has these words")
    parser.add_argument("--keep", type=Path, help="a folder in which the projects stay")
    options = parser.parse_args()
    keep = options.keep and options.keep.resolve()
    rows = []
    print(f"| {' | '.join(HEAD)} |\n|{'|'.join(['---'] * len(HEAD))}|", flush=True)
    for number, change in enumerate(CHANGES):
        if options.only not in f"{change.patch}: {change.name}":
            continue

        place = nullcontext(str(keep / str(number))) if keep else tempfile.TemporaryDirectory()
        with place as folder:
            rows.append(row_of(change, Path(folder)))
        print(f"| {' | '.join(rows[-1].cells)} |", flush=True)
    right = sum(not row.problems for row in rows)
    print(f"\n{right} of {len(rows)} are right")
    return 0 if right == len(rows) else 1


def row_of(change: Change, folder: Path) -> Row:
    """Make a change in a project of its own."""
    copy = folder / "patches" / change.patch
    shutil.copytree(ROOT / "patches" / change.folder, copy)
    for old, new in change.declared.items():
        text = (copy / "patch.yaml").read_text()
        (copy / "patch.yaml").write_text(text.replace(old, new))
    names = ", ".join([*change.below, change.patch])
    (folder / "recipes").mkdir()
    (folder / "recipes" / "ours.yaml").write_text(f"vllm: {change.release}\npatches: [{names}]\n")
    before = states(folder, change)
    checkout = folder / "edit"
    row = Row(change)
    try:
        files = run(folder, "edit", change.patch, "--checkout", str(checkout))["files"]
        wanted = change.make(checkout, files)
        document = run(folder, "refresh", change.patch, "--checkout", str(checkout), *ALL)
    except RefusedError as error:
        row.problems = (str(error),)
        return row
    row.same = f"{document['same']} of {document['total']}"
    lines = list(lines_of(document["diff"]))
    row.lines, row.beside = sum(lines), len(lines) - sum(lines)
    after = states(folder, change)
    claims = {
        one["version"]: one["after"]
        for one in [*document["releases"], *document["series"]]
        if one["patch"] == change.patch
    }
    named = [note.split()[1].rstrip(":") for note in document["examples"] if "not hold" in note]
    changed = {v: state for v, (state, _) in after.items() if state != before[v][0]}
    row.states = spans([(v, f"{before[v][0]} -> {s}") for v, s in changed.items()]) or "as before"
    needing = [v for v, (state, _) in after.items() if state == "needed" == before[v][0]]
    row.reaches = f"{sum(after[v] != before[v] for v in needing)} of {len(needing)}"
    row.problems = tuple(problems(folder, row, wanted, after, claims, named))
    return row


def problems(
    folder: Path,
    row: Row,
    wanted: Mapping[str, bytes | None],
    after: Mapping[str, tuple[str, object]],
    claims: Mapping[str, str],
    named: Sequence[str],
) -> Iterator[str]:
    """What is not right with a changed patch, in words."""
    change = row.change
    made = made_of(folder, change, wanted)
    differing = [path for path, text in wanted.items() if made[path] != text]
    if differing:
        yield f"{', '.join(differing)} differ from the work tree"
    unsaid = [v for v, (state, _) in after.items() if claims[v] != state]
    if unsaid:
        yield f"refresh did not name the state in {', '.join(unsaid)}"
    if row.lines > change.lines:
        yield f"{row.lines - change.lines} lines too many"
    tests = run(folder, "test", change.patch)
    failing = [one["example"] for one in tests["examples"] if one["failures"]]
    failing += [one["hook"] for each in tests["style"] for one in each["failed"]]
    row.tests = ", ".join(failing) and f"{', '.join(failing)} named"
    if unnamed := [name for name in failing if name not in named]:
        yield f"vpatch test: {', '.join(unnamed)} fail"


ALL = ("--releases", "all")


class RefusedError(Exception):
    """What vpatch says where it refuses."""


def run(folder: Path, *words: str) -> dict:
    """Run vpatch, and return its JSON."""
    process = subprocess.run(
        [*VPATCH, "--trust", *words, "--json"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    document = json.loads(process.stdout)
    if document["errors"]:
        reasons = [one["what"] for one in document["errors"]]
        raise RefusedError(f"{words[0]}: {'; '.join(reasons)}")
    return document["result"]


def spans(changes: list[tuple[str, str]]) -> str:
    """Releases with what changed in them, those with the same change together."""
    groups = [(change, [v for v, _ in group]) for change, group in groupby(changes, itemgetter(1))]
    return ", ".join(f"{change} in {v[0]} to {v[-1]}" for change, v in groups)


def states(folder: Path, change: Change) -> dict[str, tuple[str, object]]:
    """The state of a patch in each release, and what it makes there."""
    with Context(folder=folder, trust_everything=True, offline=True) as context:
        patches = required_series(context, context.library.patch(change.patch))
        found = {}
        for version in context.releases():
            with context.tree(PypiSpec("vllm", version)) as tree:
                decision = planned_series(context, patches, change.patch, tree).decision
            changes = {path: one.after for path, one in decision.changes.items()}
            found[version] = str(decision.state), changes
        context.answers.save()
        return found


def made_of(folder: Path, change: Change, paths: Iterable[str]) -> dict[str, bytes | None]:
    """Files of the release with the patch, behind those before it in the series."""
    with Context(folder=folder, trust_everything=True, offline=True) as context:
        selection = selected(context, change.patch, None, "ours")
        patches = context.library.load([patch.id for patch in selection.patches])
        with context.tree(selection.spec) as tree:
            series = planned_series(context, patches, change.patch, tree)
            changes, below = series.decision.changes, series.tree_below
            present = set(below.paths())
            return {
                path: changes[path].after
                if path in changes
                else (below.read(path) if path in present else None)
                for path in paths
            }


def lines_of(diff: str) -> Iterator[bool]:
    """Whether each line that a diff adds or removes is one of patch.yaml."""
    name = ""
    for line in diff.splitlines():
        if line[:4] in {"--- ", "+++ "}:
            name = line[4:].strip()
        elif line[:1] in {"+", "-"}:
            yield name.endswith("/patch.yaml")


if __name__ == "__main__":
    sys.exit(main())
