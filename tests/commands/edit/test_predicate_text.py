"""Predicates that also hold for code that a changed edit makes."""

from __future__ import annotations

from vpatch.commands.edit.declaration.predicate_text import with_alternatives

PIECES = {"f(a, b)": "f(b)"}


def test_a_predicate_by_itself_becomes_one_of_two():
    text = "effect:\n  find: f(a, b)\n  within: g\n\n# Why.\nedits: []\n"
    assert with_alternatives(text, "effect", PIECES) == (
        "effect:\n  any:\n    - find: f(a, b)\n      within: g\n    - find: f(b)\n      within: g\n"
        "\n# Why.\nedits: []\n"
    )


def test_a_predicate_of_several_becomes_one_of_two():
    text = "effect:\n  all:\n    - find: f(a, b)\n      files: x\n    - text: other\nedits: []\n"
    assert with_alternatives(text, "effect", PIECES) == (
        "effect:\n  all:\n    - any:\n        - find: f(a, b)\n          files: x\n"
        "        - find: f(b)\n          files: x\n    - text: other\nedits: []\n"
    )


def test_one_of_several_gets_one_more():
    text = "effect:\n  any:\n    - find: x = f(a, b)\n    - text: y\nedits: []\n"
    assert with_alternatives(text, "effect", PIECES) == (
        "effect:\n  any:\n    - find: x = f(a, b)\n    - find: x = f(b)\n    - text: y\nedits: []\n"
    )
    assert with_alternatives(text, "effect", {"no such": "x"}) == text
    assert with_alternatives(text, "concerns", PIECES) == text
