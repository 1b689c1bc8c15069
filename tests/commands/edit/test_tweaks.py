"""Proposals for one piece of code that somebody changed."""

from __future__ import annotations

from vpatch.commands.edit.tweaks import tweaks

BEFORE = """\
    if SPECULATING:
        first_token = load(counts + row).to(int64) - 1
        first_token = smallest(largest(first_token, 0), stride - 1)
"""
EDIT = {
    "insert": "$index = smallest(largest($index, 0), stride - 1)\n",
    "after": "$index = load(counts + $row).to(int64) - 1",
}


def proposed(edit, before, after):
    files = {"vllm/a.py": (before.encode(), after.encode())}
    return [one.edits[0] for one in tweaks([edit], {}, files)]


def test_a_metavariable_of_another_pattern_stands_for_what_the_code_has():
    old, new = "(largest(first_token, 0), stride - 1)", "(stride - 1, at_least(first_token))"
    after = BEFORE.replace(old, new)
    first = proposed(EDIT, BEFORE, after)[0]
    assert first == {**EDIT, "insert": "$index = smallest(stride - 1, at_least($index))\n"}


def test_lines_of_the_code_are_one_line_in_the_edit():
    edit = {
        "find": '$name.f((f"a.{$layer}.", ...))',
        "rewrite": '$name.f((f"a.{$layer}.", f"b.{$layer}.", ...))',
    }
    before = """\
    text.f(
        (
            f"a.{base + i}.",
            f"b.{(base + i)}.",
        )
    )
"""
    more = '            f"c.{(base + i)}.",\n'
    after = before.replace("        )\n    )", more + "        )\n    )")
    rewrite = '$name.f((f"a.{$layer}.", f"b.{$layer}.", f"c.{$layer}.", ...))'
    assert {**edit, "rewrite": rewrite} in proposed(edit, before, after)
