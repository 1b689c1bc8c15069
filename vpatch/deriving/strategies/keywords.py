"""A call that has further keywords."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from vpatch.deriving.candidate import Candidate, Case, one, within
from vpatch.deriving.code import Pair, argument, named, narrowed, pattern, same

if TYPE_CHECKING:
    from collections.abc import Iterator

# By so many of its keywords a call is told from others.
_MOST = 3


def keywords(case: Case) -> Iterator[Candidate]:
    """Propose `add-keyword` for a call."""
    if case.pair is None:
        return
    inner = list(narrowed(case.pair))[-1]
    added = _additions(inner)
    if added is None or not isinstance(call := inner.old, ast.Call):
        return
    for find in _calls(case, call):
        yield one("add-keyword", within({"find": find, "add-keyword": {**added}}, case.scope))


def _additions(pair: Pair) -> dict[str, str] | None:
    old, new = pair.old, pair.new
    if not isinstance(old, ast.Call) or not isinstance(new, ast.Call):
        return None
    if not same(old.func, new.func) or [*map(ast.dump, old.args)] != [*map(ast.dump, new.args)]:
        return None
    known = [ast.dump(each) for each in old.keywords]
    further = [each for each in new.keywords if ast.dump(each) not in known]
    if len(further) + len(known) != len(new.keywords) or not further:
        return None
    if any(each.arg is None for each in further):
        return None
    source = pair.sources[1]
    return {str(k.arg): argument(source, k).partition("=")[2].strip() for k in further}


def _calls(case: Case, call: ast.Call) -> Iterator[str]:
    """Patterns of the call, from its name to all of its arguments."""
    func = pattern(case.before, call.func)
    yield f"{func}(...)"
    statement = case.difference.old[0].node
    if getattr(statement, "value", None) is call:
        yield from (text for text in named(case.before, statement) if text.endswith("(...)"))
    if call.args:
        yield f"{func}({pattern(case.before, call.args[0])}, ...)"
    for each in call.keywords[:_MOST]:
        if each.arg is not None:
            yield f"{func}(..., {each.arg}={pattern(case.before, each.value)}, ...)"
    yield pattern(case.before, call)
