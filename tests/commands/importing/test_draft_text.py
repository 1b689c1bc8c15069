"""What `vpatch import` shows of other releases."""

from __future__ import annotations

from vpatch.commands.importing.draft_text import why_git_alone
from vpatch.commands.importing.proof import OnRelease
from vpatch.planning.state import State


def test_why_the_patch_is_in_conflict_where_git_applies():
    releases = [
        OnRelease("0.1.0", State.CONFLICT, "expected 1, found 0\nin a file", "applies"),
        OnRelease("0.2.0", State.CONFLICT, "expected 1, found 0\nin a file", "applies"),
        OnRelease("0.3.0", State.CONFLICT, "no such file", "applies"),
    ]
    assert list(why_git_alone(releases)) == [
        "    in 0.1.0 to 0.2.0: expected 1, found 0",
        "    in 0.3.0: no such file",
    ]
    conflicts = [OnRelease("0.1.0", State.CONFLICT, "expected 1", "conflicts")]
    assert list(why_git_alone(conflicts)) == []
