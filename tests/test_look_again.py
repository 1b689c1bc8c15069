"""The list of where a person looks again, against the tables of verdicts that people wrote."""

from __future__ import annotations

import re

from tests.commands.audit.test_bump_of_backports import STEPS as RELEASES
from tests.commands.audit.test_bump_of_backports import VERDICTS, letters
from tests.documents import page
from tests.test_releases import PATCHES, STEPS


def test_the_page_has_exactly_the_patches_that_ask_for_a_look():
    listed, release = set(), None
    for line in page("reference/look-again.md").splitlines():
        if line.startswith("## "):
            release = line.rpartition(" ")[2]
        elif found := re.match(r"\| `([^`]+)` \|", line):
            listed.add((release, found[1]))
    wanted = {
        (version, PATCHES[column])
        for version, row in STEPS.items()
        for column, letter in row.items()
        if letter == "l"
    }
    wanted |= {
        (version, patch_id)
        for patch_id in VERDICTS
        for version, letter in zip(RELEASES, letters(patch_id), strict=True)
        if letter == "l"
    }
    assert listed == wanted
