"""What each step from a release to the next one means for the backports in patches/security."""

from __future__ import annotations

import os
from itertools import pairwise

import pytest

from tests.recorded import recorded
from tests.second_parser import differs
from vpatch.commands.bump.changes import ReleaseSide, changed_code
from vpatch.commands.bump.verdict import Verdict, judge
from vpatch.library.advisories import shipped_advisories
from vpatch.planning.names import STATEMENT
from vpatch.planning.state import State
from vpatch.planning.view import View
from vpatch.source.spec import parse_vllm
from vpatch.workspace.context import Context

pytestmark = pytest.mark.slow

STEPS = (
    *("0.20.1", "0.20.2", "0.21.0", "0.22.0", "0.22.1", "0.23.0", "0.24.0", "0.25.0", "0.25.1"),
    *("0.26.0", "0.27.0", "0.27.1", "0.28.0", "0.29.0", "0.30.0", "0.31.0", "0.32.0", "0.33.0"),
)
# A letter for the step to each release: keep, look again, retire. The last letter goes on.
# Somebody read the code of both releases for each letter that is not k.
VERDICTS = {
    "cve-2026-105752": "lkllklllkkkkllr",
    "cve-2026-105755": "kkkkkkklkklkkkr",
    "cve-2026-105756": "lkllklllkllkllr",
    "cve-2026-105758": "kkkkkkllkklkkkr",
    "cve-2026-105760": "kkkkklllkkkkkkr",
    "cve-2026-114053": "kklkkkllkllkkklr",
    "cve-2026-115918": "kkklklllkklkllllr",
    "cve-2026-12491": "kklkklr",
    "cve-2026-41523": "kkkr",
    "cve-2026-47155": "kklr",
    "cve-2026-48746": "kkkr",
    "cve-2026-54233": "lkllklr",
    "cve-2026-54234": "kkkkklr",
    "cve-2026-54235": "kkklklr",
    "cve-2026-54236": "kkkkklr",
    "cve-2026-55514": "kklkklr",
    "cve-2026-55574": "lkllklr",
    "cve-2026-55646": "kkklkkr",
    "cve-2026-73555": "kkklklllkr",
    "cve-2026-73559": "lkllklllkr",
    "cve-2026-73560": "kklkkkkkkr",
    "cve-2026-90553": "kkkkkkklkklkr",
    "cve-2026-93592": "kkkkkkkkkklkr",
    "ghsa-fpch-3xrf-7q96": "kklkkklkklkkr",
    "ghsa-mm38-5g96-7j6x": "kkkkkkkr",
    "ghsa-rhcx-5729-88vg": "lkllklllkllklllr",
    "ghsa-v97p-wpxp-px84": "kkr",
    "pysec-2026-4000": "kkllkllkkllkl",
    "pysec-2026-4344": "lkllklllkllkllllr",
}
BY_LETTER = {"k": Verdict.KEEP, "l": Verdict.LOOK_AGAIN, "r": Verdict.RETIRE}
# The advisory names 0.30.0, but 0.33.0 still lacks the check.
NOT_CURED = {"pysec-2026-4000"}


def letters(patch_id):
    row = VERDICTS[patch_id]
    return row + row[-1] * (len(STEPS) - len(row))


@pytest.fixture(scope="module")
def context():
    with Context() as opened:
        yield opened


def test_the_table_has_every_backport(context):
    assert VERDICTS.keys() == context.library.security
    assert list(STEPS) == context.releases()[1:]


def test_a_backport_is_retired_at_the_release_that_its_advisory_names(context):
    """Advisories are GitHub's; nobody of vpatch decided when upstream was cured."""
    known = {name: one for one in shipped_advisories().all for name in one.names}
    for patch_id in VERDICTS:
        patch = context.library.patch(patch_id)
        cured = {
            event["fixed"]
            for one in patch.declaration.resolves
            for affected in known[one.id].affected
            for found in affected.ranges
            for event in found.events
            if "fixed" in event
        }
        first = [
            step for step, letter in zip(STEPS, letters(patch_id), strict=True) if letter == "r"
        ]
        if patch_id in NOT_CURED:
            assert first == []
        else:
            assert first[0] in cured, patch_id


def test_every_step_has_the_right_verdict(context):
    """And a second parser agrees where the code is the same, and where it is not.

    Each backport is looked at in every third step; `VPATCH_TEST_RELEASES=all` looks at all.
    """
    share = 1 if os.environ.get("VPATCH_TEST_RELEASES") == "all" else 3
    decided = {i: recorded(context.library.patch(i)) for i in VERDICTS}
    for number, (old, new) in enumerate(pairwise(["0.20.0", *STEPS])):
        with context.tree(parse_vllm(old)) as before, context.tree(parse_vllm(new)) as after:
            views = View(before, answers=context.answers), View(after, answers=context.answers)
            for patch_id, row in list(decided.items())[number % share :: share]:
                sides = ReleaseSide(row[old], views[0]), ReleaseSide(row[new], views[1])
                one = judge(row[old], row[new], (before.pin, after.pin), changed_code(*sides))
                wanted = BY_LETTER[letters(patch_id)[number]]
                assert one.verdict is wanted, (patch_id, new)
                if {row[old].state, row[new].state} != {State.NEEDED}:
                    continue
                if row[old].variant != row[new].variant:
                    assert one.verdict is Verdict.LOOK_AGAIN
                    continue
                same = not any(
                    differs(key, tree, other)
                    for release, tree, other in ((old, before, after), (new, after, before))
                    for key in row[release].shape.definitions
                    if STATEMENT not in key
                )
                assert same == (one.verdict is Verdict.KEEP), (patch_id, new)
