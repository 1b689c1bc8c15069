"""The library's patches, as upstream would like to receive them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from vpatch.library.catalog import find_library

LIBRARY = find_library(Path(__file__).parent)
PATCHES = LIBRARY.load_all()
SPDX = (
    "# SPDX-License-Identifier: Apache-2.0\n"
    "# SPDX-FileCopyrightText: Copyright contributors to the vLLM project\n"
)
EXAMPLES = Path(__file__).parents[2] / "patches/deepgemm-next-n-3/examples"
INDEXER = "vllm/model_executor/layers/sparse_attn_indexer.py"


@pytest.mark.parametrize("patch", PATCHES, ids=lambda patch: patch.id)
def test_what_a_pull_request_says_is_said_as_upstream_does(patch):
    declared = patch.declaration
    said = [declared.title, declared.why, declared.risks or ""]
    if declared.proposal:
        said += [declared.proposal.summary, declared.proposal.limits or ""]
        said += declared.proposal.claims
    assert not [text for text in said if re.search(r"\bcures?\b", text, re.IGNORECASE)]


@pytest.mark.parametrize("patch", PATCHES, ids=lambda patch: patch.id)
def test_files_that_upstream_gets_have_its_header(patch):
    """As upstream's tools/pre_commit/check_spdx_header.py asks for."""
    declared = patch.declaration
    edits = [*declared.edits, *(edit for variant in declared.variants for edit in variant.edits)]
    added = {edit.from_ for edit in edits if getattr(edit, "add_file", None)}
    tests = {one.test for one in declared.proposal.tests} if declared.proposal else set()
    for name in added | tests:
        assert (patch.folder / name).read_text(encoding="utf-8").startswith(SPDX), name


def indents(code):
    """The lines of the hot function that are more than a name, each with where they begin."""
    function = code[code.index("def sparse_attn_indexer(") :]
    found = {}
    for line in function.splitlines():
        if not re.fullmatch(r"\W*\w*\W*", line):
            found.setdefault(line.strip(), set()).add(len(line) - len(line.lstrip()))
    return found


@pytest.mark.parametrize("release", ["0.23", "0.33"])
def test_the_hot_function_is_not_indented_anew(release):
    before, after = (
        indents((EXAMPLES / f"needed-{release}" / side / INDEXER).read_text(encoding="utf-8"))
        for side in ("before", "after")
    )
    assert {
        line for line in after.keys() & before.keys() if not after[line] & before[line]
    } == set()
    assert len(after) < len(before)
