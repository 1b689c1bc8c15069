"""The library's patches, as upstream would like to receive them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from vpatch.library.catalog import find_library

ROOT = Path(__file__).parents[3]
NAMES = sorted(path.parent.name for path in (ROOT / "patches").rglob("patch.yaml"))
SPDX = (
    "# SPDX-License-Identifier: Apache-2.0\n"
    "# SPDX-FileCopyrightText: Copyright contributors to the vLLM project\n"
)
EXAMPLES = ROOT / "patches/deepgemm-next-n-3/examples"
INDEXER = "vllm/model_executor/layers/sparse_attn_indexer.py"


@pytest.fixture(scope="module")
def library():
    return find_library(Path(__file__).parent)


def test_these_are_all_patches(library):
    assert set(NAMES) == library.patches.keys()


@pytest.mark.parametrize("name", NAMES)
def test_what_a_pull_request_says_is_said_as_upstream_does(library, name):
    declared = library.patch(name).declaration
    said = [declared.title, declared.why, declared.risks or ""]
    if declared.proposal:
        said += [declared.proposal.summary, declared.proposal.limits or ""]
        said += declared.proposal.claims
    assert not [text for text in said if re.search(r"\bcures?\b", text, re.IGNORECASE)]


@pytest.mark.parametrize("name", NAMES)
def test_files_that_upstream_gets_have_its_header(library, name):
    """As upstream's tools/pre_commit/check_spdx_header.py asks for."""
    patch = library.patch(name)
    declared = patch.declaration
    edits = [*declared.edits, *(edit for variant in declared.variants for edit in variant.edits)]
    added = {edit.from_ for edit in edits if getattr(edit, "add_file", None)}
    tests = {one.test for one in declared.proposal.tests} if declared.proposal else set()
    for file in added | tests:
        assert (patch.folder / file).read_text(encoding="utf-8").startswith(SPDX), file


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
