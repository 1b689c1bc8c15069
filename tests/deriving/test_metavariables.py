"""Metavariables in edits that are new."""

from __future__ import annotations

import pytest

from vpatch.deriving.metavariables import in_variables

OWN = {"find": "$target = f($a)", "rewrite": "$target = f($a, scale=1)\nuse(other)"}
BOUND = {"target": "self.x", "a": "size", "n": "4", "o": "other"}


@pytest.mark.parametrize(
    ("edit", "origin", "general"),
    [
        ({**OWN, "rewrite": "g(self.x, 4)"}, 0, {**OWN, "rewrite": "g($target, 4)"}),
        # Neither a part of a name, nor that of a keyword, nor what the author wrote so.
        ({**OWN, "rewrite": "g(self.xs, a.self.x, size=other)"}, 0, None),
        ({"insert": "g(self.x)", "after": "f(size)"}, None, None),
        (
            {"insert": "g(self.x)", "after": "self.x = f(size)"},
            None,
            {"insert": "g($target)", "after": "$target = f($a)"},
        ),
    ],
)
def test_what_becomes_a_metavariable(edit, origin, general):
    assert list(in_variables(edit, origin, [OWN], [BOUND])) == ([general] if general else [])
