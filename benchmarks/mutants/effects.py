"""Mutations that change what code does: parts of a cure, dead cures, branches that are gone."""

from __future__ import annotations

import ast
import difflib
import re
import textwrap
from typing import TYPE_CHECKING

from mutants.mutant import Family, Mutant, Spot
from mutants.source import own

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random


def _statements(spot: Spot, rng: Random) -> list[ast.stmt]:
    scope = spot.node if isinstance(spot.node, ast.Module) else spot.function(rng)
    found = [n for n in (own(scope) if scope else ()) if isinstance(n, ast.stmt)]
    source = spot.source
    return [
        n for n in found if source.whole_lines(n) and not source.block(n).strip().startswith("elif")
    ]


def _instead(spot: Spot, statement: ast.stmt, text: str) -> Mutant | None:
    source = spot.source
    text = textwrap.indent(text, source.indent(statement))
    return spot.made([(source.start_of_line(statement), source.end_of_line(statement), text)])


def gone(spot: Spot, rng: Random) -> Mutant | None:
    found = _statements(spot, rng)
    return _instead(spot, rng.choice(found), "pass\n") if found else None


def dead(spot: Spot, rng: Random) -> Mutant | None:
    found = _statements(spot, rng)
    if not found:
        return None
    statement = rng.choice(found)
    text = textwrap.indent(textwrap.dedent(spot.source.block(statement)), "    ")
    return _instead(spot, statement, f"if False:\n{text}")


def branch_gone(spot: Spot, rng: Random) -> Mutant | None:
    """Keep the test of an `if`, without what it did."""
    source = spot.source
    found = [n for n in _statements(spot, rng) if isinstance(n, ast.If)]
    if not found:
        return None
    block = rng.choice(found).body
    if not all(map(source.whole_lines, block)):
        return None
    at, end = source.start_of_line(block[0]), source.end_of_line(block[-1])
    return spot.made([(at, end, f"{source.indent(block[0])}pass\n")])


def test_fixed(spot: Spot, rng: Random) -> Mutant | None:
    found = [
        n for n in (ast.walk(spot.node) if spot.node else ()) if isinstance(n, ast.If | ast.IfExp)
    ]
    if not found:
        return None
    return spot.made([(*spot.source.span(rng.choice(found).test), rng.choice(["False", "True"]))])


def value_gone(spot: Spot, rng: Random) -> Mutant | None:
    found = [n for n in _statements(spot, rng) if isinstance(n, ast.Assign)]
    if not found:
        return None
    return spot.made(
        [(*spot.source.span(rng.choice(found).value), rng.choice(["None", '""', "0"]))]
    )


def wrong_keyword(*names: str) -> Callable[[Spot, Random], Mutant | None]:
    """Give another value to a keyword that the patch adds, or leave it out."""

    def mutate(spot: Spot, rng: Random) -> Mutant | None:
        found = [
            n
            for n in (ast.walk(spot.node) if spot.node else ())
            if isinstance(n, ast.keyword) and n.arg in names
        ]
        if not found:
            return None
        value = rng.choice(['""', "None", 'f""', '"wrong"', "str()", "False"])
        return spot.made([(*spot.source.span(rng.choice(found).value), value)])

    return mutate


def added_wrongly(callee: str, *values: str) -> Callable[[Spot, Random], Mutant | None]:
    """Add a keyword to a call, with a value that cures nothing."""

    def mutate(spot: Spot, rng: Random) -> Mutant | None:
        found = [
            n
            for n in (ast.walk(spot.node) if spot.node else ())
            if isinstance(n, ast.Call)
            and isinstance(n.func, ast.Name)
            and n.func.id == callee
            and n.keywords
        ]
        if not found:
            return None
        value = rng.choice(values)
        chosen = found if rng.random() < 0.7 else [rng.choice(found)]  # noqa: PLR2004
        spans = []
        for call in chosen:
            at = spot.source.span(call.keywords[-1].value)[1]
            spans.append((at, at, f", {value}"))
        return spot.made(spans)

    return mutate


def text_edit(pattern: str, replacement: str) -> Callable[[Spot, Random], Mutant | None]:
    """A mutation by a regular expression on the spot's file, at its first match."""

    def mutate(spot: Spot, rng: Random) -> Mutant | None:
        del rng
        old = spot.files[spot.path].decode()
        new = re.sub(pattern, replacement, old, count=1)
        return None if new == old else Mutant({spot.path: new.encode()})

    return mutate


def other_file(
    path: str, pattern: str, replacement: str
) -> Callable[[Spot, Random], Mutant | None]:
    """The same on a file that is no Python."""

    def mutate(spot: Spot, rng: Random) -> Mutant | None:
        del rng
        old = spot.files.get(path, b"").decode()
        new = re.sub(pattern, replacement, old)
        return None if new == old else Mutant({path: new.encode()})

    return mutate


def body(name: str, text: str) -> Callable[[Spot, Random], Mutant | None]:
    """Write another body for a function of the spot's file."""

    def mutate(spot: Spot, rng: Random) -> Mutant | None:
        del rng
        node = spot.source.definition(name)
        if not isinstance(node, ast.FunctionDef):
            return None
        source = spot.source
        start, end = source.start_of_line(node.body[0]), source.end_of_line(node.body[-1])
        return spot.made([(start, end, text)])

    return mutate


def parts(before: bytes, after: bytes, rng: Random) -> bytes | None:
    """A file with some of a patch's changes, and not all."""
    old, new = (text.decode().splitlines(keepends=True) for text in (before, after))
    steps = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    changes = [step for step in steps if step[0] != "equal"]
    if len(changes) < 2:  # noqa: PLR2004 - some of one are none
        return None
    kept = set(rng.sample(range(len(changes)), rng.randint(1, len(changes) - 1)))
    made: list[str] = []
    for step in steps:
        tag, i1, i2, j1, j2 = step
        taken = tag == "equal" or changes.index(step) not in kept
        made += old[i1:i2] if taken else new[j1:j2]
    return "".join(made).encode()


FAMILIES = [
    Family("effect/statement-gone", "meaning", gone),
    Family("effect/dead-code", "meaning", dead),
    Family("effect/branch-gone", "meaning", branch_gone),
    Family("effect/test-fixed", "meaning", test_fixed),
    Family("effect/value-gone", "meaning", value_gone),
]
