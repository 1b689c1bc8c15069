"""Names: a value is named by what it is, and a module by a noun."""

from __future__ import annotations

import ast
import json
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "vpatch"
# How many values of each file have such a name. A file that is not here has none.
# Modules of old code that still have such a name. The list becomes shorter, and never longer.
PARTICIPLES = [
    "vpatch/checkout/generated.py",
    "vpatch/checkpoint/fused.py",
    "vpatch/checkpoint/opening.py",
    "vpatch/checkpoint/switching.py",
    "vpatch/checkpoint/writing.py",
    "vpatch/cluster/running.py",
    "vpatch/codemods/allowed.py",
    "vpatch/codemods/binding.py",
    "vpatch/codemods/nesting.py",
    "vpatch/codemods/reduced.py",
    "vpatch/codemods/rewriting.py",
    "vpatch/codemods/spelling.py",
    "vpatch/codemods/standing.py",
    "vpatch/codemods/wrapping.py",
    "vpatch/confinement/payload/confined.py",
    "vpatch/engine/asking.py",
    "vpatch/engine/installed.py",
    "vpatch/engine/making.py",
    "vpatch/evidence/collecting.py",
    "vpatch/harness/measured.py",
    "vpatch/image/asking.py",
    "vpatch/image/payload/installed.py",
    "vpatch/image/running.py",
    "vpatch/library/loading.py",
    "vpatch/planning/editing.py",
    "vpatch/planning/telling.py",
    "vpatch/source/searched.py",
    "vpatch/util/limited.py",
    "vpatch/util/matching.py",
    "vpatch/util/uninterrupted.py",
    "vpatch/util/untrusted.py",
    "vpatch/util/wrapping.py",
]
RECORD = Path(__file__).with_name("names.json")
# Each of them names values of every type, so that a reader must look for the type.
VAGUE = frozenset(["found", "made", "said", "left", "kept", "told", "given"])


def bindings(tree):
    """The names that code binds: parameters, variables, attributes of a class, and aliases."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                yield name
            case ast.alias(asname=str(name)) | ast.ExceptHandler(name=str(name)):
                yield name
            case _:
                pass


def vague_names(source):
    return sum(name in VAGUE for name in bindings(ast.parse(source)))


def counts():
    return Counter(
        {
            path.relative_to(ROOT).as_posix(): vague_names(path.read_text())
            for path in sorted(PACKAGE.rglob("*.py"))
        }
    )


@pytest.mark.parametrize(
    ("source", "number"),
    [
        ("found = 1", 1),
        ("def f(made, *, kept=1, **given): ...", 3),
        ("for told in []: [left for left in []]", 2),
        ("class C:\n    said: int", 1),
        ("with f() as found, g() as (made, x): ...", 2),
        ("if (found := f()): ...", 1),
        ("import a as kept", 1),
        ("found.made(kept); f(told=1); g.left", 0),
    ],
)
def test_what_counts_as_a_vague_name(source, number):
    assert vague_names(source) == number


def test_values_are_named_by_what_they_are():
    """Names of old code may become fewer; new code has none."""
    record, present = json.loads(RECORD.read_text()), counts()
    more = {path: n for path, n in present.items() if n > record.get(path, 0)}
    assert more == {}, f"name these values by what they are, not {', '.join(sorted(VAGUE))}"
    fewer = {path: n for path, n in record.items() if present[path] < n}
    assert fewer == {}, f"there are fewer now: python -m {__name__} writes {RECORD.name}"


def test_modules_are_named_by_nouns():
    """A participle, such as `planned` or `deciding`, does not say what is in a module."""
    participles = sorted(
        path.relative_to(ROOT).as_posix()
        for path in PACKAGE.rglob("*.py")
        if path.stem.endswith(("ed", "ing"))
    )
    assert participles == PARTICIPLES


if __name__ == "__main__":
    rows = {path: number for path, number in counts().items() if number}
    RECORD.write_text(json.dumps(rows, indent=1) + "\n")
