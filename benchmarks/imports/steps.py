"""The group of whole release steps: each file that two releases have otherwise, as one diff.

No repository is needed: a diff is that of the files of two archives. Each is imported at the
earlier release, and the patch is applied there. Python's own parser compares what came out with the
file of the later release. Docstrings count only where the import kept them, and comments never.
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from parsed import drop_docstrings, same_code
from survival import diff_of

from vpatch.commands.importing.hunks import count_hunks
from vpatch.commands.importing.request import ImportRequest
from vpatch.commands.importing.usecase import import_patches
from vpatch.deriving.derive import DOCSTRING, ONLY_COMMENTS
from vpatch.errors import VpatchError
from vpatch.library.loading import load_patch
from vpatch.planning.plan import plan_of_sources
from vpatch.planning.state import State
from vpatch.source.spec import parse_vllm
from vpatch.trust.decision import NOTHING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vpatch.commands.importing.draft import Draft
    from vpatch.source.tree import Tree
    from vpatch.workspace.context import Context

_GENERATED = "vllm/_version.py"
# The goals of CPU seconds for a hunk.
MEDIAN_GOAL = 0.5
WORST_GOAL = 3.0
SHARE_GOAL = 0.9


@dataclass
class StepRow:
    """One file of a step, and what became of its diff.

    `result` is `same code`, `other code`, `refused` or `crash`. `seconds` are of CPU. `silent` are
    hunks that are not by meaning for nothing but comments or docstrings, which are left out.
    `of_code` are hunks that change something else, and `code_by_meaning` those of them in which no
    text says a change of code.
    """

    step: str
    path: str
    result: str = ""
    why: str = ""
    hunks: int = 0
    by_meaning: int = 0
    silent: int = 0
    of_code: int = 0
    code_by_meaning: int = 0
    others: int = 0
    seconds: float = 0.0
    kinds: Counter[str] = field(default_factory=Counter)
    texts: Counter[str] = field(default_factory=Counter)

    @property
    def per_hunk(self) -> float:
        return self.seconds / max(1, self.hunks + self.others)

    def as_json(self) -> dict[str, Any]:
        return {"group": "steps", **vars(self)}


def differing_files(earlier: Tree, later: Tree) -> list[str]:
    """The files of the package that both releases have, with other bytes."""
    both = set(earlier.paths()) & set(later.paths())
    return sorted(
        path
        for path in both
        if path.startswith("vllm/")
        and path != _GENERATED
        and earlier.read(path) != later.read(path)
    )


def step_rows(
    context: Context, steps: Sequence[tuple[str, str]], sample: int | None, seed: int, until: float
) -> Iterator[StepRow]:
    """Import the files of each step, or a random sample of them, until a time is over."""
    for old, new in steps:
        with context.tree(parse_vllm(old)) as earlier, context.tree(parse_vllm(new)) as later:
            paths = differing_files(earlier, later)
            number = len(paths)
            chance = random.Random(f"{seed} {old} {new}")  # noqa: S311 - a sample that comes again
            chance.shuffle(paths)
            for path in paths[:sample]:
                if time.monotonic() > until:
                    break
                row = StepRow(f"{old} to {new}", path)
                before, after = earlier.read(path), later.read(path)
                _import(context, row, (old, earlier), before, after)
                print(
                    f"{row.step}  {path}  {row.result}  {row.by_meaning}/{row.hunks}  "
                    f"{row.seconds:.1f} s",
                    file=sys.stderr,
                )
                yield row
        print(f"{old} to {new} has {number} files", file=sys.stderr)


def _import(
    context: Context, row: StepRow, release: tuple[str, Tree], before: bytes, after: bytes
) -> None:
    folder = Path(tempfile.mkdtemp(prefix="vpatch-step-"))
    try:
        file = folder / "step.diff"
        file.write_bytes(diff_of({row.path: before}, {row.path: after}))
        version, tree = release
        request = ImportRequest(file, version, kind="diff", patch_id="imported", releases="none")
        begun = time.process_time()
        try:
            (one,) = import_patches(context, request, folder / "patches")
        except VpatchError as error:
            row.result, row.why = "refused", str(error).splitlines()[0]
            return
        except Exception:  # noqa: BLE001 - a crash is a result here
            row.result, row.why = "crash", traceback.format_exc()
            return
        finally:
            row.seconds = time.process_time() - begun
        counts = one.draft.counts
        row.hunks, row.by_meaning, row.others = counts.python, counts.by_meaning, counts.others
        row.silent = count_hunks(one.draft.change.files, one.draft.derived).by_meaning
        row.silent -= row.by_meaning
        row.of_code, row.code_by_meaning = _count_of_code(one.draft)
        row.kinds = counts.kinds
        row.texts.update(edit.why for edit in one.draft.derived if edit.why)
        failed = [failure for edit in one.draft.derived for failure in edit.failures]
        if failed:
            row.result, row.why = "crash", failed[0]
            return
        left_out = bool(one.draft.left_out)
        # Another file of the step may bring what this one imports.
        (decision,) = plan_of_sources([load_patch(one.folder, NOTHING)], tree).decisions
        change = decision.changes.get(row.path)
        if decision.state is not State.NEEDED or change is None:
            row.result, row.why = "other code", f"{decision.state}: {decision.reason}"
        elif set(decision.changes) != {row.path}:
            row.result, row.why = "other code", "it changes other files"
        else:
            same = same_code(row.path, change.after, after, drop_docstrings if left_out else None)
            row.result = "same code" if same else "other code"
    finally:
        shutil.rmtree(folder)


def _count_of_code(draft: Draft) -> tuple[int, int]:
    """How many hunks change more than comments and docstrings, and how many of these by meaning."""
    silent = (ONLY_COMMENTS, DOCSTRING)
    edits = [e for e in draft.derived if e.why not in silent and not e.changes_docstring]
    # Counted as by meaning are the hunks that no edit by text is in.
    as_text = [replace(edit, candidate=replace(edit.candidate, kind="text")) for edit in edits]
    all_hunks = count_hunks(draft.change.files, ())
    without_code = count_hunks(draft.change.files, as_text).by_meaning
    by_meaning = count_hunks(draft.change.files, edits).by_meaning - without_code
    return all_hunks.python - without_code, by_meaning


def show_steps(rows: Sequence[StepRow]) -> bool:
    """Print a line for each step, and each fault; return whether the goals are met."""
    met = bool(rows)
    for step in dict.fromkeys(row.step for row in rows):
        mine = [row for row in rows if row.step == step]
        met &= _show_step(step, mine)
    for row in rows:
        if row.result != "same code":
            print(f"{row.step}  {row.path}: {row.result}: {row.why}")
    slow = sorted(rows, key=lambda row: -row.per_hunk)[:3]
    for row in slow:
        print(
            f"slowest: {row.per_hunk:.2f} s for a hunk, {row.hunks + row.others} hunks: {row.path}"
        )
    texts: Counter[str] = Counter()
    for row in rows:
        texts += row.texts
    for why, number in texts.most_common(12):
        print(f"by text: {number}  {why}")
    return met


def _show_step(step: str, rows: Sequence[StepRow]) -> bool:
    results = Counter(row.result for row in rows)
    hunks, meaning = sum(r.hunks for r in rows), sum(r.by_meaning for r in rows)
    times = sorted(row.per_hunk for row in rows)
    share = meaning / hunks if hunks else 1.0
    silent = sum(r.silent for r in rows)
    of_code, by_meaning = sum(r.of_code for r in rows), sum(r.code_by_meaning for r in rows)
    print(
        f"{step}: {len(rows)} files, {results['same code']} with the code of the later release, "
        f"{results['refused']} refused, {results['other code']} with other code, "
        f"{results['crash']} crashed; {meaning} of {hunks} hunks of Python by meaning "
        f"({share:.1%}), and {silent} more but for comments and docstrings that are left out; "
        f"{by_meaning} of {of_code} hunks that change code have all of it by meaning "
        f"({by_meaning / max(1, of_code):.1%}); "
        f"CPU for a hunk: {median(times):.2f} s in the median, {times[-1]:.2f} s at worst; "
        f"{sum(r.seconds for r in rows):.0f} s in all"
    )
    is_right = results["same code"] == len(rows)
    is_fast = median(times) <= MEDIAN_GOAL and times[-1] <= WORST_GOAL
    return is_right and is_fast and share >= SHARE_GOAL
