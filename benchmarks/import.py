"""What `vpatch import` makes of changes, and how many releases these survive.

    python benchmarks/import.py [--offline] [--json] [--only own|pairs|upstream|merged] [--most N]

Four groups of changes are imported:

- `own`: what each patch of the library changes in vLLM 0.23.0, as a diff. A release counts if the
  patch is needed there; right is what the patch that was written by hand makes.
- `pairs`: small changes of the kinds that people carry (benchmarks/imports/pairs.py).
- `upstream`: each file that differs between a release and the patch release behind it. Those are
  upstream's own corrections. Every other release counts, and benchmarks/imports/judge.py says what
  is right there: definitions as before must become as after, those as after must stay.
- `merged`: pull requests (benchmarks/imports/merged.py), imported at the first release that has
  them and applied to the one before. benchmarks/imports/backport.py says what is right there.

Of each it prints the hunks of Python, how many became edits by meaning, whether the release gets
the same bytes, and the releases where vpatch, `git apply`, `git apply -3` and `patch` end well.
`wrong` ended well and made something else. Ends with 1 where an import fails, or vpatch is wrong.

Of `merged` it prints the state in each release, the definitions that came out equal, those that are
the newer release's own, and files with the same bytes. Ends with 1 if fewer than 12 changes of at
least 15 are equal.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from imports.judge import judged
from imports.merged import MERGED
from imports.merged_rows import merged_rows, met, show_merged
from imports.pairs import MODULE, PAIRS
from survival import TOOLS, contents, diff_of, edit_of, lay_out, run

from vpatch.app.context import Context
from vpatch.app.import_request import ImportRequest
from vpatch.app.importing import import_patches
from vpatch.app.selection import with_required
from vpatch.errors import VpatchError
from vpatch.importing.change import FileChange
from vpatch.importing.deriving import NotDerivedError, derive
from vpatch.importing.hunks import count_hunks
from vpatch.library.loading import load_patch
from vpatch.planning.plan import plan
from vpatch.planning.state import State
from vpatch.source.memory import MemoryTree
from vpatch.source.spec import parse_vllm
from vpatch.source.tree import Pin
from vpatch.trust.decision import NOTHING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vpatch.library.patch import Patch
    from vpatch.source.tree import Tree

GROUPS = ["pairs", "own", "upstream", "merged"]
ORIGINS = ("0.23.0", "0.22.1")
STEPS = {
    "0.20.0": "0.20.1",
    "0.20.1": "0.20.2",
    "0.22.0": "0.22.1",
    "0.25.0": "0.25.1",
    "0.27.0": "0.27.1",
}
_GENERATED = "vllm/_version.py"
Files = dict[str, bytes]


@dataclass
class Row:
    """A change, and what became of it. `tools` counts right, wrong, unknown and failed releases."""

    group: str
    name: str
    hunks: int = 0
    by_meaning: int = 0
    gives: str = ""
    kinds: Counter[str] = field(default_factory=Counter)
    why: Counter[str] = field(default_factory=Counter)
    failure: str = ""
    tools: dict[str, Counter[str]] = field(default_factory=dict)

    def count(self, tool: str, result: str) -> None:
        self.tools.setdefault(tool, Counter())[result] += 1


@dataclass(frozen=True)
class Imported:
    """An imported change: its files at the origin, and the patch."""

    row: Row
    origin: str
    before: Files
    after: Files
    patch: Patch | None
    # Written by hand, where the change is one of the library's.
    hand: tuple[Patch, ...] = ()


def imported(
    context: Context,
    row: Row,
    origin: str,
    before: Files,
    after: Files,
    hand: tuple[Patch, ...] = (),
) -> Imported:
    folder = Path(tempfile.mkdtemp(prefix="vpatch-import-"))
    file = folder / f"{re.sub(r'[^a-z0-9]+', '-', row.name.lower()).strip('-')}.diff"
    file.write_bytes(diff_of(before, after))
    request = ImportRequest(file, "diff", origin, folder, patch_id="imported", releases=())
    try:
        (made,) = import_patches(context, request)
    except VpatchError as error:
        row.failure = str(error)
        return Imported(row, origin, before, after, None, hand)
    counts = made.draft.counts
    row.hunks, row.by_meaning, row.kinds = counts.python, counts.by_meaning, counts.kinds
    row.gives = made.proof.gives
    row.why.update(edit.why for edit in made.draft.derived if edit.why)
    return Imported(row, origin, before, after, load_patch(made.folder, NOTHING), hand)


def own(context: Context) -> Iterator[Imported]:
    for name in sorted(context.library.patches):
        patches = with_required([name], context.library)
        if "vllm" not in patches[0].declaration.needed_in:
            continue
        for version in ORIGINS:
            with context.tree(parse_vllm(version)) as tree:
                edit = edit_of(patches, tree)
            if edit is not None:
                files = dict(edit.before), dict(edit.after)
                yield imported(context, Row("own", name), version, *files, tuple(patches))
                break


def upstream(context: Context, most: int) -> Iterator[Imported]:
    for old, new in STEPS.items():
        with context.tree(parse_vllm(old)) as tree, context.tree(parse_vllm(new)) as later:
            there = set(later.paths())
            paths = [
                path
                for path in tree.package_files
                if path in there and path != _GENERATED and tree.read(path) != later.read(path)
            ]
            pairs = {path: (tree.read(path), later.read(path)) for path in sorted(paths)[:most]}
        for path, (before, after) in pairs.items():
            row = Row("upstream", f"{new} {path.removeprefix('vllm/')}")
            yield imported(context, row, old, {path: before}, {path: after})


def pairs() -> Iterator[Row]:
    path = "vllm/worker.py"
    for name, (old, new) in PAIRS.items():
        if MODULE.count(old) != 1:
            sys.exit(f"{name}: the old code is there {MODULE.count(old)} times")
        after = MODULE.replace(old, new)
        tree = MemoryTree(Pin("vllm", "folder", None, "sha256:", "pairs"), {path: MODULE.encode()})
        change = FileChange(path, MODULE.encode(), after.encode())
        row = Row("pairs", name)
        try:
            found = derive(change, tree)
        except NotDerivedError as error:
            row.failure = str(error)
        else:
            counts = count_hunks([change], found)
            row.hunks, row.by_meaning, row.kinds = counts.python, counts.by_meaning, counts.kinds
            gives = [edit.gives for edit in found if edit.gives is not None]
            row.gives = max(gives, key=["layout", "code"].index, default="exact")
            row.why.update(edit.why for edit in found if edit.why)
        yield row


def tried(change: Imported, tree: Tree) -> None:
    """Try the tools and vpatch on another release, and count how they end."""
    row = change.row
    there = set(tree.paths())
    paths = sorted({*change.before, *change.after} & there)
    wanted: Mapping[str, bytes] | None = None
    hand = edit_of(list(change.hand), tree) if change.hand else None
    if change.hand:
        if hand is None or hand.fault:
            return
        wanted = hand.after
        paths = sorted({*paths, *hand.before})
    target = {path: tree.read(path) for path in paths}
    for tool, made in made_by_tools(change, target).items():
        row.count(tool, "failed" if made is None else verdict(change, target, made, wanted))
    row.count("vpatch", by_vpatch(change, tree, target, wanted))


def made_by_tools(change: Imported, target: Files) -> dict[str, Files | None]:
    """The files that each tool leaves; None where it fails."""
    found: dict[str, Files | None] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "repository"
        run(Path(name), "git", "init", "--quiet", str(folder))
        lay_out(folder, change.before)
        lay_out(folder, change.after, commit=False)
        options = ["--cached", "--full-index", "--no-renames"]
        run(folder, "git", "diff", *options, "--output=../edit.diff")
        for tool, command in TOOLS.items():
            lay_out(folder, target)
            done = run(folder, *command, check=False)
            found[tool] = contents(folder) if done.returncode == 0 else None
    return found


def by_vpatch(
    change: Imported, tree: Tree, target: Files, wanted: Mapping[str, bytes] | None
) -> str:
    if change.patch is None:
        return "failed"
    (decision,) = plan([change.patch], tree, tell="none").decisions
    if decision.state is State.NEEDED:
        made = {**target, **{path: c.after for path, c in decision.changes.items()}}
        return verdict(change, target, made, wanted)
    if decision.state is State.UPSTREAMED:
        return verdict(change, target, target, wanted)
    return "failed"


def verdict(
    change: Imported, target: Files, made: Files, wanted: Mapping[str, bytes] | None
) -> str:
    """Judge what was made of the target's files: as by hand, or by their definitions."""
    if wanted is not None:
        same = all(made.get(path) == text for path, text in {**target, **wanted}.items())
        return "right" if same else "wrong"
    results = {
        judged(change.before[path], change.after[path], target[path], made.get(path, b""))
        for path in change.before
        if path in target
    }
    return "wrong" if "wrong" in results else "unknown" if "unknown" in results else "right"


def survey(context: Context, groups: list[str], most: int) -> list[Row]:
    rows = list(pairs()) if "pairs" in groups else []
    changes = list(own(context)) if "own" in groups else []
    changes += list(upstream(context, most)) if "upstream" in groups else []
    for version in context.releases() if changes else []:
        with context.tree(parse_vllm(version)) as tree:
            for change in changes:
                if change.origin != version and not change.row.failure:
                    tried(change, tree)
        print(f"tried {version}", file=sys.stderr)
    return [*rows, *(change.row for change in changes)]


def show(rows: list[Row]) -> None:
    tools = ["vpatch", *TOOLS]
    table = [["change", "hunks", "by meaning", "gives", *tools]]
    for group in dict.fromkeys(row.group for row in rows):
        mine = [row for row in rows if row.group == group]
        table += [cells(row, tools) for row in mine]
        table.append(cells(total(group, mine), tools))
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for line in table:
        print("  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip())
    for row in rows:
        if row.failure:
            print(f"{row.name}: not imported: {row.failure}")


def cells(row: Row, tools: list[str]) -> list[str]:
    counted = [row.tools.get(tool, Counter()) for tool in tools]
    return [row.name, str(row.hunks), str(row.by_meaning), row.gives, *map(cell, counted)]


def cell(results: Counter[str]) -> str:
    if not results:
        return ""
    ended = sum(results.values()) - results["failed"]
    wrong = f", {results['wrong']} wrong" if results["wrong"] else ""
    return f"{ended} of {sum(results.values())} ({results['right']} right{wrong})"


def total(group: str, rows: list[Row]) -> Row:
    exact = sum(row.gives == "exact" for row in rows)
    whole = Row(group, f"all of {group}", gives=f"{exact} of {len(rows)} exact")
    for row in rows:
        whole.hunks += row.hunks
        whole.by_meaning += row.by_meaning
        for tool, results in row.tools.items():
            whole.tools.setdefault(tool, Counter()).update(results)
    return whole


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--offline", action="store_true", help="use the cache alone")
    parser.add_argument("--json", action="store_true", dest="as_json")
    parser.add_argument("--only", choices=GROUPS, help="one group")
    parser.add_argument("--most", type=int, default=1000, help="files of each patch release")
    options = parser.parse_args()
    groups = [options.only] if options.only else GROUPS
    with Context(offline=options.offline) as context:
        rows = survey(context, groups, options.most)
        merged = merged_rows(context, MERGED) if "merged" in groups else []
    if options.as_json:
        # asdict() would make other keys of a Counter.
        found = [*map(vars, rows), *(row.as_json() for row in merged)]
        print(json.dumps(found, default=vars, indent=1))
    else:
        if rows:
            show(rows)
        if merged:
            show_merged(merged)
    wrong = [row for row in rows if row.tools.get("vpatch", Counter())["wrong"]]
    missed = bool(merged) and not met(merged)
    return int(bool(wrong) or missed or any(row.failure for row in rows))


if __name__ == "__main__":
    sys.exit(main())
