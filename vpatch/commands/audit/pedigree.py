"""What each patch changes, as a diff for the pedigree of a bill of materials."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vpatch.util.unified_diff import unified_diff

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vpatch.planning.state import Change, Plan


def diffs_of(plan: Plan) -> dict[str, str]:
    """Return a unified diff for each patch that a plan applies, by id."""
    return {decision.patch.id: diff_text(decision.changes) for decision in plan.taken}


def diff_text(changes: Mapping[str, Change]) -> str:
    return "".join(_of(path, change) for path, change in sorted(changes.items()))


def _of(path: str, change: Change) -> str:
    try:
        return b"".join(unified_diff(path, change.before, change.after)).decode()
    except UnicodeDecodeError:
        before = "/dev/null" if change.before is None else f"a/{path}"
        return f"Binary files {before} and b/{path} differ\n"
