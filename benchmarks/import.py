"""What `vpatch import` makes of changes, and how many releases these survive.

    python benchmarks/import.py [--offline] [--json] [--only own|pairs|upstream|merged|public]
        [--most N] [--since VERSION]
    python benchmarks/import.py --steps [--step A..B ...] [--sample N] [--seed N] [--minutes N]
        [--change]

Five groups of changes are imported:

- `own`: what each patch of the library changes in vLLM 0.23.0, as a diff. A release counts if the
  patch is needed there, by the same variants: of others, the diff says nothing. Right is the code
  that the patch makes which was written by hand, whatever its layout, comments and docstrings. So
  is the diff's own change: by hand, a patch may find further places.
- `pairs`: small changes of the kinds that people carry (benchmarks/imports/pairs.py).
- `upstream`: each file that differs between a release and the patch release behind it. Those are
  upstream's own corrections. They are tried on every other release.
- `merged`: pull requests (benchmarks/imports/merged.py), imported at the first release that has
  them. They are tried on every release before that.
- `public`: the same for pull requests that were drawn at random (benchmarks/imports/public.py).

benchmarks/imports/judge.py says what is right for the last three groups: the same for all tools.
A release is `open` to a change if it has all definitions of it, and not the change. No tool can do
right where a definition, or what the change imports, is `gone`. There is nothing to do where the
change is `present`. `unclear` are releases whose definitions changed in the same lines: a tool may
do right there.

Of each change it prints the hunks of Python, how many became edits by meaning, whether the release
gets the same bytes, the releases, and those where vpatch, `git apply`, `git apply -3` and `patch`
do right. `wrong` ended well and made something else, or made nothing of an open release: for
vpatch, this is a release that it takes for `upstreamed` or `absent`. Ends with 1 where an import
fails, or vpatch is wrong.

Of `merged` it also prints the state in each release, the definitions that came out equal in the
release before, those that are the newer release's own, and files with the same bytes. Ends with 1
if fewer than 12 changes of at least 15 are equal.

With `--steps`, each file that differs between two releases is one diff, which is imported at the
earlier release (benchmarks/imports/steps.py). It prints how many give the code of the later
release, how many hunks of Python became edits by meaning, and the CPU time for a hunk. Ends with 1
where a goal is missed. With `--change` too, only edits of the kind `change` are tried: the share by
meaning is how many hunks that kind can say.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
import time
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from imports.changes import every_change
from imports.judge import judged
from imports.merged import MERGED
from imports.merged_rows import merged_rows, met, show_merged
from imports.pairs import MODULE, PAIRS
from imports.places import Places
from imports.public import PUBLIC
from imports.steps import show_steps, step_rows
from imports.table import Row, show
from packaging.version import Version
from parsed import drop_docstrings, same_code
from survival import TOOLS, contents, diff_of, edit_of, lay_out, run

import vpatch.deriving.derive as deriving
from vpatch.changes.change import FileChange
from vpatch.commands.importing.hunks import count_hunks
from vpatch.commands.importing.request import ImportRequest
from vpatch.commands.importing.usecase import import_patches
from vpatch.deriving.derive import NotDerivedError, derive
from vpatch.errors import VpatchError
from vpatch.library.loading import load_patch
from vpatch.planning.plan import plan
from vpatch.planning.state import State
from vpatch.source.memory import MemoryTree
from vpatch.source.spec import parse_vllm
from vpatch.source.tree import Pin
from vpatch.trust.decision import NOTHING
from vpatch.workspace.context import Context
from vpatch.workspace.selection import with_required

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from imports.merged import Merged
    from imports.merged_rows import MergedChange, MergedRow

    from vpatch.library.patch import Patch
    from vpatch.planning.answers import Answers
    from vpatch.planning.state import Decision
    from vpatch.source.entry import CachedTree
    from vpatch.source.spec import TreeSpec
    from vpatch.source.tree import Tree

GROUPS = ["pairs", "own", "upstream", "merged", "public"]
ORIGINS = ("0.23.0", "0.22.1")
STEPS = {
    "0.20.0": "0.20.1",
    "0.20.1": "0.20.2",
    "0.22.0": "0.22.1",
    "0.25.0": "0.25.1",
    "0.27.0": "0.27.1",
}
ALL_STEPS = ("0.23.0..0.24.0", "0.27.1..0.28.0", "0.30.0..0.31.0")
_GENERATED = "vllm/_version.py"
Files = dict[str, bytes]
_OPEN: dict[tuple[TreeSpec, str | None], CachedTree] = {}
# What the tools make of files, by the change and the files: many releases have the same ones.
_KNOWN: dict[tuple[str, str, tuple[tuple[str, bytes], ...]], dict[str, Files | None]] = {}


class OpenTrees(Context):
    """A context that keeps its trees open: each change is tried on all of them."""

    def tree(
        self, spec: TreeSpec, expected_digest: str | None = None
    ) -> AbstractContextManager[CachedTree]:
        if (spec, expected_digest) not in _OPEN:
            _OPEN[spec, expected_digest] = super().tree(spec, expected_digest).__enter__()
        return nullcontext(_OPEN[spec, expected_digest])


@dataclass(frozen=True)
class Imported:
    """An imported change: its files at the origin, and the patch."""

    row: Row
    origin: str
    before: Files
    after: Files
    patch: Patch | None
    # Written by hand, where the change is one of the library's; and their variants at the origin.
    hand: tuple[Patch, ...] = ()
    variants: tuple[str | None, ...] = ()


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
    request = ImportRequest(file, origin, kind="diff", patch_id="imported", releases="all")
    try:
        (made,) = import_patches(context, request, folder)
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
                edit = edit_of(patches, tree, context.answers)
            if edit is not None:
                files = dict(edit.before), dict(edit.after)
                change = imported(context, Row("own", name), version, *files, tuple(patches))
                yield replace(change, variants=edit.variants)
                break


def upstream(context: Context, most: int, since: Version) -> Iterator[Imported]:
    for old, new in STEPS.items():
        if Version(new) < since:
            continue
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
            print(f"imports {row.name}", file=sys.stderr)
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


def tried(
    change: Imported, tree: Tree, places: Places, decision: Decision, answers: Answers
) -> None:
    """Try the tools on another release, and count how they and vpatch's decision end."""
    there = set(tree.paths())
    paths = sorted({*change.before, *change.after} & there)
    wanted: Mapping[str, bytes] | None = None
    situation = "open"
    if change.hand:
        hand = edit_of(list(change.hand), tree, answers)
        if hand is None or hand.fault or hand.variants != change.variants:
            return
        wanted = hand.after
        paths = sorted({*paths, *hand.before})
    else:
        situation = places.situation(change.before, change.after)
    change.row.releases[situation] += 1
    target = {path: tree.read(path) for path in paths}
    results = {
        tool: "failed" if made is None else verdict(change, target, made, wanted, places)
        for tool, made in made_by_tools(change, target).items()
    }
    results["vpatch"] = by_vpatch(change, decision, target, wanted, places)
    for tool, result in results.items():
        missed = result == "nothing" and situation == "open"
        change.row.count(tool, "wrong" if missed else result)


def made_by_tools(change: Imported, target: Files) -> dict[str, Files | None]:
    """The files that each tool leaves; None where it fails."""
    key = change.row.group, change.row.name, tuple(sorted(target.items()))
    if key not in _KNOWN:
        _KNOWN[key] = _run_tools(change, target)
    return _KNOWN[key]


def _run_tools(change: Imported, target: Files) -> dict[str, Files | None]:
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
    change: Imported,
    decision: Decision,
    target: Files,
    wanted: Mapping[str, bytes] | None,
    places: Places,
) -> str:
    if decision.state in {State.UPSTREAMED, State.ABSENT}:
        return "nothing"
    if decision.state is not State.NEEDED:
        return "failed"
    before = {path: c.before for path, c in decision.changes.items() if c.before is not None}
    made = {path: c.after for path, c in decision.changes.items()}
    return verdict(change, {**before, **target}, {**target, **made}, wanted, places)


def verdict(
    change: Imported,
    target: Files,
    made: Files,
    wanted: Mapping[str, bytes] | None,
    places: Places,
) -> str:
    """Judge what was made of the target's files: by the code as by hand, or by definitions.

    Code that imports what the release lacks is wrong, whoever makes it.
    """
    if places.lacks_import(target, made):
        return "wrong"
    if wanted is not None:
        same = all(
            same_code(path, made.get(path, b""), text, drop_docstrings)
            for path, text in {**target, **wanted}.items()
        )
        if same:
            return "right"
    # By hand, a patch may find further places in a release, of which its diff says nothing.
    return judged(change.before, change.after, target, made)


def survey(context: Context, groups: list[str], most: int, since: Version) -> list[Row]:
    rows = list(pairs()) if "pairs" in groups else []
    changes = list(own(context)) if "own" in groups else []
    changes += list(upstream(context, most, since)) if "upstream" in groups else []
    for version in context.releases() if changes else []:
        with context.tree(parse_vllm(version)) as tree:
            places = Places(tree)
            for change in changes:
                if change.origin != version and change.patch is not None:
                    answers = context.answers
                    made = plan(
                        [change.patch], tree, findings_for="none", answers=answers, shapes=False
                    )
                    tried(change, tree, places, made.decisions[0], answers)
        print(f"tried {version}", file=sys.stderr)
    return [*rows, *(change.row for change in changes)]


def survey_merged(
    context: Context, group: str, changes: Sequence[Merged]
) -> tuple[list[MergedRow], list[Row]]:
    """The rows of merged changes, and how many of the older releases they survive."""
    rows: dict[str, Row] = {}
    places: dict[str | None, Places] = {}

    def on_older(change: MergedChange, tree: Tree, decision: Decision) -> None:
        made = change.row
        counts = made.hunks, made.by_meaning, made.gives
        row = rows.setdefault(made.name, Row(group, made.name, *counts))
        files = change.files.without, change.files.newer
        each = Imported(row, made.new, *files, change.patch)
        known = places.get(tree.pin.version) or Places(tree)
        places.clear()  # of the releases before
        places[tree.pin.version] = known
        tried(each, tree, known, decision, context.answers)

    return merged_rows(context, changes, on_older), list(rows.values())


def _steps(context: Context, options: argparse.Namespace) -> int:
    if options.change:
        deriving.STRATEGIES, deriving.LAST_STRATEGIES = (every_change,), ()
    steps = [tuple(step.split("..")) for step in options.step or ALL_STEPS]
    until = time.monotonic() + 60 * options.minutes
    rows = list(step_rows(context, steps, options.sample, options.seed, until))
    if options.as_json:
        print(json.dumps([row.as_json() for row in rows], indent=1))
        return 0
    return int(not show_steps(rows))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--offline", action="store_true", help="use the cache alone")
    parser.add_argument("--json", action="store_true", dest="as_json")
    parser.add_argument("--only", choices=GROUPS, help="one group")
    parser.add_argument("--most", type=int, default=1000, help="files of each patch release")
    parser.add_argument(
        "--since", type=Version, default=Version("0"), help="leave out earlier patch releases"
    )
    parser.add_argument("--steps", action="store_true", help="import whole release steps instead")
    parser.add_argument("--step", action="append", metavar="A..B", help="a step; three by default")
    parser.add_argument("--change", action="store_true", help="with --steps: by `change` alone")
    parser.add_argument("--sample", type=int, metavar="N", help="N files of each step")
    parser.add_argument("--seed", type=int, default=1, help="of the sample (1)")
    parser.add_argument("--minutes", type=float, default=600.0, help="then it ends (600)")
    options = parser.parse_args()
    if options.steps:
        with Context(offline=options.offline) as context:
            return _steps(context, options)
    groups = [options.only] if options.only else GROUPS
    with OpenTrees(offline=options.offline) as context:
        rows = survey(context, groups, options.most, options.since)
        merged, older = (
            ([], []) if "merged" not in groups else survey_merged(context, "merged", MERGED)
        )
        rows += older
        if "public" in groups:
            rows += survey_merged(context, "public", PUBLIC)[1]
    if options.as_json:
        # asdict() would make other keys of a Counter.
        found = [*map(vars, rows), *(row.as_json() for row in merged)]
        print(json.dumps(found, default=vars, indent=1))
    else:
        if rows:
            show(rows)
        if merged:
            show_merged(merged)
    wrong = [row for row in rows if row.tools.get("vpatch", {}).get("wrong")]
    missed = bool(merged) and not met(merged)
    return int(bool(wrong) or missed or any(row.failure for row in rows))


if __name__ == "__main__":
    sys.exit(main())
