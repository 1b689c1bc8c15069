"""An empty patch, to fill in."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from pydantic import TypeAdapter, ValidationError

from vpatch.declare.patch import PatchId
from vpatch.errors import BadValueError, UsageError
from vpatch.library.patch import DECLARATION
from vpatch.util.scratch import staging_folder

if TYPE_CHECKING:
    from pathlib import Path

# It loads, and is absent from every tree until `concerns` names code.
_TEMPLATE = """\
# `vpatch schema patch` lists all keys. Delete comments when you have followed them.
id: {id}
# The title of a pull request, with upstream's bracketed tags.
title: "[Bugfix] {id}"
# The failure that this cures, and why no option or plugin does.
why: |
  Write which failure this cures.
# Messages or observations that people search for; `vpatch diagnose` finds them in logs.
symptoms:
  - write what people see without the patch
# A claim: the releases that need it, such as ">=0.20.0,<0.24.0". "<0" means none.
needed-in:
  vllm: "<0"
# Whether the code that this is about is in a tree at all. If not, the patch is absent.
concerns:
  text: write a piece of the code that this is about
# What to change. Each edit names its place by meaning, and says how many places it expects.
# Others: rewrite, insert, add-import, replace-body, set-value, text, diff, add-file, codemod.
edits:
  - find: some_function(...)
    add-keyword:
      some_keyword: "True"
    within: SomeClass.some_method
# What tells that a tree has the change, if "no edit has work left" does not:
# effect:
#   find: some_function(..., some_keyword=True)
# Threads upstream:
# upstream:
#   - {{ref: vllm-project/vllm#1, is: issue}}
#   - {{ref: vllm-project/vllm#2, is: pull request, relation: same change, state: open}}
# When the patch can go.
remove-when: write when the patch can go
# Examples go to examples/needed-LABEL/before and after: `vpatch test {id}` runs them.
"""
TEST = "test_behaviour.py"
_PROOF = """\
# The behaviour test beside this file: `vpatch test {id} --engine cpu` runs it.
proof:
  - test: {test}
    engine: cpu
    # The release of vLLM that you write the test for.
    vllm: 0.23.0
    # The tests that must fail without the patch, each with a regular expression for its message.
    fails-before:
      test_what_the_patch_cures: write what the test fails with
"""
_TEST = '''\
"""What fails in vLLM without this patch, and works with it.

The whole file runs in a vLLM without the patch, and in one with it.
"""

import pytest

# A test may import torch, vLLM and what vpatch brings, such as a tiny model:
# from tiny_mtp import write_checkpoint


def test_what_the_patch_cures():
    # Do what fails without the patch, and assert what is right. It must fail without the patch as
    # patch.yaml declares under fails-before. All other tests must pass without it as well.
    pytest.fail("this test is not written yet: write it in {test} of {id}")
'''


def new_patch(folder: Path, patch_id: str, *, with_test: bool) -> Path:
    """Write a patch.yaml to fill in, and return the folder of the patch.

    `with_test` adds a behaviour test to fill in.

    Raises:
        UsageError: it is not an id, or there is a folder of that name.
    """
    refuse_wrong_id(patch_id)
    place = folder / patch_id
    if place.exists():
        raise present(place)
    # As a whole: what is in the folder of patches must be one.
    with staging_folder(folder, patch_id) as staging:
        files = {DECLARATION: _TEMPLATE}
        if with_test:
            files = {DECLARATION: _TEMPLATE + _PROOF, TEST: _TEST}
        for name, template in files.items():
            text = template.format(id=patch_id, test=TEST)
            (staging / name).write_text(text, encoding="utf-8")
        put_patch(staging, place)
    return place


def put_patch(folder: Path, place: Path) -> None:
    """Move the folder of a patch to its place.

    Raises:
        UsageError: another run was faster, or somebody wrote a patch there.
    """
    try:
        folder.rename(place)
    except OSError as error:
        if error.errno in {errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR}:
            raise present(place) from error
        raise


def present(place: Path) -> UsageError:
    """Return what to raise where there is a patch of that id."""
    return UsageError(
        f"there is a patch {place.name!r} already",
        where=str(place),
        hint="choose another id or folder, remove the one that is there, or give --update if this "
        "is its newer form",
        code="importing.exists",
    )


def refuse_wrong_id(patch_id: str) -> None:
    """Refuse what is not an id of a patch.

    Raises:
        UsageError: it is not one.
    """
    try:
        TypeAdapter(PatchId).validate_python(patch_id)
    except ValidationError as error:
        raise BadValueError(
            f"{patch_id!r} is not an id of a patch",
            hint="use small letters, digits and single hyphens, such as fix-mtp-prefix",
        ) from error
