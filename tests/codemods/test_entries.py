"""Entries of lists, tuples, sets and dicts: added, removed and replaced beside those that stay."""

from __future__ import annotations

import pytest

from tests.helpers import edited, fails, run

LINES = """\
KINDS = [
    # the first
    "a",  # about a

    # about b
    "b",
    "c",  # about c
]
"""
NAMES = """\
NAMES = {
    # the first
    "a": 1,  # about a
    # about b
    "b": 2,
    **rest,
}
"""


@pytest.mark.parametrize(
    ("find", "rewrite", "before", "after"),
    [
        # At the end and at the start, as the other entries are written.
        ("[...]", '[..., "z"]', LINES, LINES.replace("]", '    "z",\n]')),
        ("[...]", '["z", ...]', LINES, LINES.replace("    # the", '    "z",\n    # the')),
        ("[...]", '[..., "z"]', 'KINDS = ["a"]\n', 'KINDS = ["a", "z"]\n'),
        ("[...]", '[..., "z"]', 'KINDS = ["a", ]\n', 'KINDS = ["a", "z", ]\n'),
        ("[...]", '[..., "z"]', "KINDS = []\n", 'KINDS = ["z"]\n'),
        ("[...]", "[..., z]", "KINDS = [\n  a,\n  b\n]\n", "KINDS = [\n  a,\n  b,\n  z\n]\n"),
        # Beside a neighbour. The comments and blank lines of the next one stay with it.
        ('["a", ...]', '["a", "z", ...]', LINES, LINES.replace("a\n\n", 'a\n    "z",\n\n')),
        ('[..., "b", ...]', '[..., "z", "b", ...]', LINES, LINES.replace("\n\n", '\n\n    "z",\n')),
        # Of an entry that goes, the comments above stay.
        ('[..., "b", ...]', "[...]", LINES, LINES.replace('    "b",\n', "")),
        ('[..., "b", ...]', '[..., "y", "z", ...]', LINES, LINES.replace('"b"', '"y",\n    "z"')),
        ('["a", ...]', "[...]", 'KINDS = ["a", "b"]\n', 'KINDS = ["b"]\n'),
        ("[a, ...]", "[...]", "KINDS = [\n  a,\n  # b\n  b,\n]\n", "KINDS = [\n  # b\n  b,\n]\n"),
        ("[..., a, ...]", "[...]", "KINDS = [\n  b,\n  a,\n  # c\n  c,\n]\n",
         "KINDS = [\n  b,\n  # c\n  c,\n]\n"),
        ('[..., "a"]', "[...]", 'KINDS = ["b", "a"]\n', 'KINDS = ["b"]\n'),
        ("[..., a]", "[...]", "KINDS = [\n  b,  # b\n  a,\n]\n", "KINDS = [\n  b,  # b\n]\n"),
        # A comma that only makes a tuple comes and goes with the number of entries.
        ("(...,)", "(..., b)", "KINDS = (a,)\n", "KINDS = (a, b)\n"),
        ("(..., b)", "(...,)", "KINDS = a, b\n", "KINDS = a,\n"),
        ("(...,)", "(..., b)", "KINDS = (\n  a,\n)\n", "KINDS = (\n  a,\n  b,\n)\n"),
        ("{a, ...}", "{a, z, ...}", "KINDS = {a, b}\n", "KINDS = {a, z, b}\n"),
        # The further lines of a new entry are below its first.
        ("[...]", "[..., f(\n    1,\n)]", "KINDS = [\n    a,\n]\n",
         "KINDS = [\n    a,\n    f(\n        1,\n    ),\n]\n"),
    ],
)  # fmt: skip
def test_entries_are_laid_out_as_the_others(find, rewrite, before, after):
    edit = {"find": f"KINDS = {find}", "rewrite": f"KINDS = {rewrite}"}
    assert edited(edit, before) == after


@pytest.mark.parametrize(
    ("find", "rewrite", "old", "new"),
    [
        ("{...}", '{..., "z": 3}', "**rest,\n", '**rest,\n    "z": 3,\n'),
        ('{..., "b": 2, ...}', '{..., "b": 3, ...}', ": 2,", ": 3,"),
        ('{..., "a": $x, ...}', '{..., "a": f($x), ...}', ": 1,", ": f(1),"),
        ('{..., "b": 2, ...}', "{...}", '    "b": 2,\n', ""),
        ("{..., **rest}", '{..., "z": [4], **rest}', "    **", '    "z": [4],\n    **'),
    ],
)
def test_entries_of_a_dict(find, rewrite, old, new):
    edit = {"find": f"NAMES = {find}", "rewrite": f"NAMES = {rewrite}"}
    assert edited(edit, NAMES) == NAMES.replace(old, new)


def test_entries_of_entries():
    edit = {
        "find": 'NAMES = {..., "k": [..., a], ...}',
        "rewrite": 'NAMES = {..., "k": [..., a, b], ...}',
    }
    before = 'NAMES = {\n  "k": [a],\n  "l": [a],\n}\n'
    assert edited(edit, before) == before.replace("[a]", "[a, b]", 1)


def test_a_place_in_an_expression():
    edit = {"find": "device in (...,)", "rewrite": 'device in (..., "npu")', "within": "f"}
    before = 'def f(device):\n    return device in ("cuda",)\n'
    assert edited(edit, before) == before.replace(",)", ', "npu")')


@pytest.mark.parametrize(
    ("find", "rewrite", "before", "problem"),
    [
        ("[...]", '[..., "c"]', LINES.replace('"c"', '"c", "d"'), "the entry 'c' is there"),
        ("{...}", '{..., "a": 3}', 'KINDS = {"a": 1}\n', "the entry 'a' is there"),
        ("{a, ...}", "{a, ..., b}", "KINDS = {a, b, c}\n", "the entry b is there"),
        ('[..., "c"]', "[...]", LINES, "would drop the comment '# about c'"),
        ("{a, ...}", "{...,}", "KINDS = {a}\n", None),
        ("(..., a)", "(...,)", "KINDS = a,\n", "zero-length tuple"),
    ],
)
def test_what_cannot_be_is_a_conflict(find, rewrite, before, problem):
    edit = {"find": f"KINDS = {find}", "rewrite": f"KINDS = {rewrite}"}
    if problem is None:
        # Braces with a gap alone are a dict.
        with fails("codemods.wrong-edit"):
            run(edit, before)
        return
    result = run(edit, before)
    assert problem in result.mismatch
    assert result.view.read("vllm/m.py").decode() == before


def test_numbers_of_a_list_may_be_there_twice():
    edit = {"find": "shape = [...]", "rewrite": "shape = [..., 1]"}
    assert edited(edit, "shape = [1, 2]\n") == "shape = [1, 2, 1]\n"


def test_a_missing_neighbour_says_what_was_expected():
    edit = {"find": 'KINDS = [..., "x", ...]', "rewrite": 'KINDS = [..., "x", "y", ...]'}
    assert run(edit, LINES).mismatch.startswith("expected 1, found 0")


def test_without_a_gap_the_layout_is_that_of_the_new_code():
    edit = {"find": "KINDS = [a]", "rewrite": "KINDS = [\n    a,\n    b,\n]"}
    assert edited(edit, "KINDS = [a]\n") == "KINDS = [\n    a,\n    b,\n]\n"


def test_a_new_keyword_goes_beside_the_one_that_is_named():
    edit = {"find": "f(..., a=1, ...)", "rewrite": "f(..., a=1, b=2, ...)"}
    before = "f(\n    x,\n    a=1,  # about a\n    # about c\n    c=3,\n)\n"
    assert edited(edit, before) == before.replace("about a\n", "about a\n    b=2,\n")
    edit = {"find": "f(x, ...)", "rewrite": "f(x, b=2, ...)"}
    assert edited(edit, "f(x, y, c=3)\n") == "f(x, y, c=3, b=2)\n"
