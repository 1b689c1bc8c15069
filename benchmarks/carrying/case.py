"""One patch that does not fit a release: carried there, solved, refreshed, and judged."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from pathlib import Path
from typing import TYPE_CHECKING

from parsed import order_imports, same_code

from vpatch.commands.edit.record import read_record
from vpatch.commands.edit.refresh import refresh_patch
from vpatch.commands.edit.refresh_result import RefreshRequest
from vpatch.commands.edit.series import required_series
from vpatch.commands.edit.work_tree import open_edit
from vpatch.commands.proofs.style import judge_style
from vpatch.errors import VpatchError
from vpatch.merging.markers import MARKERS
from vpatch.planning.plan import plan
from vpatch.planning.state import State
from vpatch.source.memory import ChangedTree
from vpatch.source.spec import parse_vllm
from vpatch.workspace.context import Context
from vpatch.workspace.examples import run_examples

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from vpatch.commands.edit.carry import CarriedPatch
    from vpatch.planning.state import Decision

Files = dict[str, bytes]
LIBRARY = Path(__file__).parents[2] / "patches"


@dataclass(frozen=True)
class Case:
    """A patch that fits `old`, and not `new`: a version, or a folder.

    `prepare` changes the patch in its folder first. `wanted` is what the patch is to make of `new`,
    and `kept` what it makes of `old`.
    """

    group: str
    patch: str
    old: str
    new: str
    prepare: Callable[[Path], None]
    wanted: Mapping[str, bytes]
    kept: Mapping[str, bytes]
    what: str = ""


@dataclass
class Row:
    """What became of a case.

    `state` is that of the patch in the new release before. `by_hand` are hunks that somebody has
    to solve, `wrong` are those without a marker that are not as wanted.
    """

    group: str
    patch: str
    step: str
    what: str
    state: str = ""
    edits: str = ""
    proposal: str | None = None
    open_parts: int = 0
    doubts: list[str] = field(default_factory=list)
    by_hand: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    old_right: bool = False
    new_right: bool = False
    twice: bool = False
    tested: bool = False
    failure: str = ""
    comments: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def is_right(self) -> bool:
        """Whether both releases get what they are to get, and nobody had to see that it was not."""
        return self.old_right and self.new_right and self.twice and self.tested and not self.wrong

    @property
    def is_silent(self) -> bool:
        """Whether something is wrong, and the command named nothing to look at."""
        return bool(self.wrong) and not self.open_parts and not self.doubts


def row_of(case: Case, room: Path) -> Row:
    """Carry the patch of a case in a scratch project."""
    step = f"{case.old} to {case.new}" if case.group == "library" else case.old
    row = Row(case.group, case.patch, step, case.what)
    folder = room / "patches" / case.patch
    shutil.copytree(library_folder(case.patch), folder)
    case.prepare(folder)
    begun = time.monotonic()
    try:
        with Context(folder=room, trust_everything=True, offline=True) as context:
            row.state = str(decision_on(context, case.patch, case.new).state)
            opened = open_edit(context, case.patch, case.new, None, room / "edit")
            if opened.carried is None:
                row.failure = "it is not carried"
                return row
            _describe(row, opened.carried)
            _solve(row, room / "edit", opened.files, case.wanted)
            refresh_patch(context, RefreshRequest(case.patch, room / "edit", "none"))
    except VpatchError as error:
        row.failure = str(error).splitlines()[0]
        return row
    finally:
        row.seconds = time.monotonic() - begun
    with Context(folder=room, trust_everything=True, offline=True) as context:
        row.old_right = _gives(context, case.patch, case.old, case.kept, row)
        row.new_right = _gives(context, case.patch, case.new, case.wanted, row)
        row.twice = all(_is_stable(context, case.patch, one) for one in (case.old, case.new))
    row.tested = _passes_its_test(case, room)
    return row


def _passes_its_test(case: Case, room: Path) -> bool:
    """Whether `vpatch test` passes: examples, and upstream's style in both releases."""
    with Context(folder=room, trust_everything=True) as context:
        patch = context.library.patch(case.patch)
        failing = [f"{e.name}: {e.failures}" for e in run_examples(patch) if e.failures]
        styles = list(judge_style(context, [patch], [case.old, case.new]))
    failing += [f"{one.release}: {hook.id} {hook.output}" for one in styles for hook in one.failed]
    for failure in failing:
        print(f"{case.patch}: {failure}", file=sys.stderr)
    return not failing


def library_folder(patch: str) -> Path:
    return next(one.parent for one in LIBRARY.rglob("patch.yaml") if one.parent.name == patch)


def decision_on(context: Context, patch: str, source: str) -> Decision:
    """The decision on a patch behind those that it requires."""
    patches = required_series(context, context.library.patch(patch))
    with context.tree(parse_vllm(source)) as tree:
        decisions = plan(patches, tree, findings_for="none", shapes=False).decisions
    return next(one for one in decisions if one.patch.id == patch)


def made_by(decision: Decision) -> Files | None:
    """What a patch makes; None if it is not needed."""
    if decision.state is not State.NEEDED:
        return None
    return {path: one.after for path, one in decision.changes.items()}


def _describe(row: Row, one: CarriedPatch) -> None:
    row.edits = f"{one.total - len(one.failing)} of {one.total}"
    row.proposal = one.proposal
    row.open_parts = one.laid.open_parts
    row.doubts = list(one.laid.doubts)


def _solve(row: Row, checkout: Path, files: tuple[str, ...], wanted: Mapping[str, bytes]) -> None:
    """Do what a person would: where a marker is, write what is wanted."""
    for path in sorted({*files, *wanted}):
        place = checkout / path
        text = place.read_bytes() if place.is_file() else b""
        target = wanted.get(path)
        if target is None:
            listed = row.by_hand if _without_conflicts(text)[1] else row.wrong
            listed.append(f"{path}: it is not to change")
            _restore(checkout, path)
            continue
        if same_code(path, text, target, order_imports):
            if text != target:
                row.comments.append(path)
            continue
        _judge_hunks(row, path, text, target)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(target)


def _restore(checkout: Path, path: str) -> None:
    """Let a file be as upstream has it."""
    record = read_record(checkout)
    below = record.below if record is not None else "HEAD"
    command = ["git", "-C", str(checkout), "checkout", "--quiet", below, "--", path]
    if subprocess.run(command, check=False, stderr=subprocess.DEVNULL).returncode:
        (checkout / path).unlink()


def _judge_hunks(row: Row, path: str, text: bytes, target: bytes) -> None:
    """Tell the hunks with markers, which are solved by hand, from those that are wrong."""
    lines, conflicts = _without_conflicts(text)
    wanted = target.splitlines()
    matcher = SequenceMatcher(None, lines, wanted, autojunk=False)
    has_hunks = row.open_parts > 0
    for tag, first, last, begin, end in matcher.get_opcodes():
        if tag == "equal":
            continue
        where = f"{path}:{begin + 1}-{end}"
        near = any(a - 1 <= last and first <= b + 1 for a, b in conflicts)
        if near or (has_hunks and not conflicts):
            row.by_hand.append(where)
        else:
            row.wrong.append(where)


def _without_conflicts(text: bytes) -> tuple[list[bytes], list[tuple[int, int]]]:
    """The lines with upstream's side of each conflict, and where those are."""
    lines: list[bytes] = []
    conflicts: list[tuple[int, int]] = []
    side = ""
    for line in text.splitlines():
        marker = next((m for m in MARKERS if (line + b"\n").startswith(m)), None)
        if marker is MARKERS[0]:
            side, first = "ours", len(lines)
        elif side and marker is not None:
            side = {MARKERS[1]: "base", MARKERS[3]: "theirs", MARKERS[2]: ""}[marker]
            if not side:
                conflicts.append((first, len(lines)))
        elif side in {"", "ours"}:
            lines.append(line)
    return lines, conflicts


def _gives(
    context: Context, patch: str, source: str, wanted: Mapping[str, bytes], row: Row
) -> bool:
    decision = decision_on(context, patch, source)
    files = made_by(decision)
    if files is None:
        row.failure = f"it is {decision.state} on {Path(source).name}: {decision.reason}"
        return False
    if files.keys() != wanted.keys():
        row.failure = f"it changes other files of {Path(source).name}"
        return False
    return all(same_code(path, files[path], wanted[path], order_imports) for path in files)


def _is_stable(context: Context, patch: str, source: str) -> bool:
    """Whether a second run finds all of it done."""
    decision = decision_on(context, patch, source)
    files = made_by(decision)
    if files is None:
        return False
    patches = required_series(context, decision.patch)
    with context.tree(parse_vllm(source)) as tree:
        decisions = plan(patches, tree, findings_for="none", shapes=False).decisions
        below = {p: c.after for d in decisions for p, c in d.changes.items()}
        changed = ChangedTree(tree, {**below, **files}, frozenset(one.id for one in patches))
        again = plan(patches, changed, findings_for="none", shapes=False).decisions
    return all(one.state is not State.CONFLICT and one.state is not State.NEEDED for one in again)
