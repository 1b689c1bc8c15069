"""Mutations of calls: how arguments are given."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from mutants.mutant import Family, Mutant, Spot
from mutants.source import Function, parsed

if TYPE_CHECKING:
    from random import Random


def _calls(spot: Spot) -> list[ast.Call]:
    node = spot.node
    found = [n for n in ast.walk(node) if isinstance(n, ast.Call)] if node else []
    source = spot.source
    return [n for n in found if not any(isinstance(u, ast.JoinedStr) for u in source.above(n))]


def _replaced(spot: Spot, call: ast.Call, new: ast.Call) -> Mutant | None:
    ast.copy_location(new, call)
    return spot.made([(*spot.source.span(call), ast.unparse(ast.fix_missing_locations(new)))])


def _plain(call: ast.Call) -> bool:
    starred = any(isinstance(a, ast.Starred) for a in call.args)
    return not starred and all(k.arg for k in call.keywords)


def _named(spot: Spot) -> list[ast.Call]:
    return [c for c in _calls(spot) if c.keywords and _plain(c)]


def reorder(spot: Spot, rng: Random) -> Mutant | None:
    calls = [c for c in _named(spot) if len(c.keywords) > 1]
    if not calls:
        return None
    call = rng.choice(calls)
    keywords = rng.sample(call.keywords, len(call.keywords))
    return _replaced(spot, call, ast.Call(call.func, call.args, keywords))


def _spread(spot: Spot, rng: Random, *, whole: bool, literal: bool) -> Mutant | None:
    calls = _named(spot)
    if not calls:
        return None
    call = rng.choice(calls)
    taken = call.keywords if whole else [rng.choice(call.keywords)]
    kept = [k for k in call.keywords if k not in taken]
    value: ast.expr
    if literal:
        keys: list[ast.expr | None] = [ast.Constant(k.arg) for k in taken]
        value = ast.Dict(keys, [k.value for k in taken])
    else:
        value = ast.Call(ast.Name("dict"), [], taken)
    return _replaced(spot, call, ast.Call(call.func, call.args, [*kept, ast.keyword(None, value)]))


def one_in_dict(spot: Spot, rng: Random) -> Mutant | None:
    return _spread(spot, rng, whole=False, literal=True)


def all_in_dict(spot: Spot, rng: Random) -> Mutant | None:
    return _spread(spot, rng, whole=True, literal=rng.choice([True, False]))


def dict_before(spot: Spot, rng: Random) -> Mutant | None:
    """Put a call's keywords into a dict that is a local."""
    source = spot.source
    found = [(c, source.statement(c)) for c in _named(spot)]
    found = [(c, s) for c, s in found if isinstance(s, ast.Assign | ast.Return | ast.Expr)]
    found = [(c, s) for c, s in found if s and s.value is c and source.whole_lines(s)]  # type: ignore[attr-defined]
    if not found:
        return None
    call, statement = rng.choice(found)
    values = ast.unparse(ast.Call(ast.Name("dict"), [], call.keywords))
    at = source.start_of_line(statement)
    new = ast.Call(call.func, call.args, [ast.keyword(None, ast.Name("kwargs_"))])
    line = f"{source.indent(statement)}kwargs_ = {values}\n"
    text = ast.unparse(ast.fix_missing_locations(ast.copy_location(new, call)))
    return spot.made([(at, at, line), (*source.span(call), text)])


def partial_before(spot: Spot, rng: Random) -> Mutant | None:
    """Give a call's keywords to a `functools.partial` that is a local."""
    source = spot.source
    found = [(c, source.statement(c)) for c in _named(spot)]
    found = [(c, s) for c, s in found if isinstance(s, ast.Assign | ast.Return | ast.Expr)]
    found = [(c, s) for c, s in found if s and source.whole_lines(s)]
    if not found:
        return None
    call, statement = rng.choice(found)
    taken = rng.sample(call.keywords, rng.randint(1, len(call.keywords)))
    kept = [k for k in call.keywords if k not in taken]
    made = ast.unparse(ast.Call(ast.Name("partial"), [call.func], taken))
    new = ast.Call(ast.Name("make_"), call.args, kept)
    at, indent = source.start_of_line(statement), source.indent(statement)
    lines = f"{indent}from functools import partial\n{indent}make_ = {made}\n"
    text = ast.unparse(ast.fix_missing_locations(ast.copy_location(new, call)))
    return spot.made([(at, at, lines), (*source.span(call), text)])


def _signature(spot: Spot, call: ast.Call) -> list[str] | None:
    """The positional parameters of what is called, if one of the files defines it."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else None
    name = call.func.id if isinstance(call.func, ast.Name) else name
    if name is None:
        return None
    for path, data in spot.files.items():
        if not path.endswith(".py") or f" {name}".encode() not in data:
            continue
        found = parsed(data).definition(name)
        if isinstance(found, ast.ClassDef):
            inits = [n for n in found.body if isinstance(n, Function) and n.name == "__init__"]
            found = inits[0] if inits else None
        if isinstance(found, Function) and not found.args.vararg:
            names = [a.arg for a in found.args.args]
            return names[1:] if names[:1] in (["self"], ["cls"]) else names
    return None


def to_keywords(spot: Spot, rng: Random) -> Mutant | None:
    """Give positional arguments by keyword."""
    found = [c for c in _calls(spot) if c.args and _plain(c)]
    rng.shuffle(found)
    for call in found:
        names = _signature(spot, call)
        if names and len(names) >= len(call.args):
            first = rng.randrange(len(call.args))
            pairs = zip(names[first:], call.args[first:], strict=False)
            given = [ast.keyword(name, value) for name, value in pairs]
            return _replaced(
                spot, call, ast.Call(call.func, call.args[:first], [*given, *call.keywords])
            )
    return None


def to_positions(spot: Spot, rng: Random) -> Mutant | None:
    """Give the next keyword arguments by position."""
    found = [c for c in _calls(spot) if c.keywords and _plain(c)]
    rng.shuffle(found)
    for call in found:
        names = _signature(spot, call) or []
        args, keywords = list(call.args), {k.arg: k for k in call.keywords}
        while len(args) < len(names) and names[len(args)] in keywords:
            args.append(keywords.pop(names[len(args)]).value)
        if len(args) > len(call.args):
            return _replaced(spot, call, ast.Call(call.func, args, list(keywords.values())))
    return None


FAMILIES = [
    Family("calls/reordered", "harmless", reorder),
    Family("calls/one-in-dict", "harmless", one_in_dict),
    Family("calls/all-in-dict", "harmless", all_in_dict),
    Family("calls/dict-before", "harmless", dict_before),
    Family("calls/partial-before", "harmless", partial_before),
    Family("calls/to-keywords", "harmless", to_keywords),
    Family("calls/to-positions", "harmless", to_positions),
]
