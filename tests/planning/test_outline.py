"""What a file defines, and digests that change with the syntax and with nothing else."""

from __future__ import annotations

import pytest

from vpatch.planning.names import STATEMENT
from vpatch.planning.outline import outline

SOURCE = b'''"""A module."""
import os, sys
from a.b import c as d

FLAG = 1


@decorated
def f(x):
    """Says what it does."""
    return x  # a comment


class C(Base, metaclass=M):
    field: int = 0

    def g(self):
        def inner():
            return self.field
        return inner


if FLAG:
    def late():
        return 1
    FLAG = 2
f(1)
'''


def names(source):
    return [one.name for one in outline(source)]


def digest(source, name):
    (found,) = [one.digest for one in outline(source) if one.name == name]
    return found


def test_definitions_have_qualified_names_in_order():
    assert names(SOURCE) == [
        *("os", "sys", "d", "FLAG", "f", "C", "C.field", "C.g"),
        *(STATEMENT, "late", STATEMENT),
    ]


def test_lines_include_decorators():
    (found,) = [one for one in outline(SOURCE) if one.name == "f"]
    assert (found.first, found.last) == (8, 11)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"return x  # a comment", b"return (x)"),
        (b'"""Says what it does."""', b'"""Says more."""'),
        (b"def f(x):", b"def f(\n    x,\n):"),
    ],
)
def test_layout_comments_and_docstrings_do_not_count(before, after):
    changed = SOURCE.replace(before, after)
    assert changed != SOURCE
    assert digest(changed, "f") == digest(SOURCE, "f")


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("f", b"return x", b"return y"),
        ("f", b"@decorated", b"@other"),
        ("f", b"def f(x)", b"async def f(x)"),
        ("f", b"def f(x)", b"def f(x=None)"),
        ("d", b"from a.b", b"from .a.b"),
        ("os", b"import os, sys", b"import os.path, sys"),
        ("C", b"(Base, metaclass=M)", b"(Base)"),
        ("C", b"class C(", b"@final\nclass C("),
        ("C.field", b"= 0", b"= 1"),
        ("C.g", b"return inner", b"return inner()"),
        ("late", b"return 1", b"return 1.0"),
    ],
)
def test_syntax_counts(name, before, after):
    changed = SOURCE.replace(before, after)
    assert changed != SOURCE
    assert digest(changed, name) != digest(SOURCE, name)
    others = {one.name: one.digest for one in outline(SOURCE) if one.name not in {name, STATEMENT}}
    assert {n: d for n, d in others.items() if d in {o.digest for o in outline(changed)}} == others


def test_a_class_does_not_change_with_its_methods():
    changed = SOURCE.replace(b"return inner", b"return None")
    assert digest(changed, "C") == digest(SOURCE, "C")


def test_a_statement_does_not_change_with_the_functions_in_it():
    def statement(source):
        return next(one.digest for one in outline(source) if one.name == STATEMENT)

    assert statement(SOURCE.replace(b"return 1", b"return 2")) == statement(SOURCE)
    assert statement(SOURCE.replace(b"FLAG = 2", b"FLAG = 3")) != statement(SOURCE)


def test_what_is_no_python_is_one_definition():
    (found,) = outline(b"set(TAG 1)\nset(URL 2)\n", python=False)
    assert (found.name, found.first) == ("", 1)
    assert found.digest != outline(b"set(TAG 2)\n", python=False)[0].digest
    (broken,) = outline(b"def f(:\n")
    assert broken.name == ""


def test_the_digests_are_those_of_every_python():
    # Recorded once: a committed shapes.json is read by other versions of Python.
    assert digest(SOURCE, "f") == "05bbae4fda10a6ab"
    assert digest(SOURCE, "C.g") == "78d2ab2204edba8a"
