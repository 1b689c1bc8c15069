"""The header of a function that has other parameters."""

from __future__ import annotations

import ast
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from vpatch.deriving.candidate import Candidate, Case, one, within
from vpatch.deriving.code import Pair, pattern, same
from vpatch.deriving.source_code import Function

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vpatch.deriving.source_code import SourceCode


def parameters(case: Case) -> Iterator[Candidate]:
    """Propose `add-keyword` for a def, and `rewrite` for what has no default."""
    pair = case.pair
    if pair is None or case.difference.part is None:
        return
    if not isinstance(pair.old, Function) or not isinstance(pair.new, Function):
        return
    if not _same_but_parameters(pair.old, pair.new):
        return
    scope = case.scope_of(pair.old)
    old, new = (_parameters(node.args) for node in (pair.old, pair.new))
    added = _additions(pair, old, new)
    if added:
        find = f"def {pair.old.name}(...): ..."
        yield one("add-keyword", within({"find": find, "add-keyword": {**added}}, scope))
    for texts in _texts(pair, old, new):
        find, rewrite = (f"def {pair.old.name}({text}): ..." for text in texts)
        yield one("rewrite", within({"find": find, "rewrite": rewrite}, scope))


_Parameter = tuple[str, ast.arg, ast.expr | None]


def _same_but_parameters(old: ast.stmt, new: ast.stmt) -> bool:
    rests = [
        (each.name, type(each), [ast.dump(d) for d in each.decorator_list])  # type: ignore[attr-defined]
        for each in (old, new)
    ]
    return rests[0] == rests[1] and same(old.returns, new.returns)  # type: ignore[attr-defined]


def _parameters(args: ast.arguments) -> list[_Parameter]:
    """The parameters of a def, each with its kind and default."""
    positional = [*args.posonlyargs, *args.args]
    defaults = [None] * (len(positional) - len(args.defaults)) + list(args.defaults)
    row: list[_Parameter] = [("", a, d) for a, d in zip(positional, defaults, strict=True)]
    if args.posonlyargs:
        row.insert(len(args.posonlyargs), ("/", ast.arg(""), None))
    if args.vararg:
        row.append(("*", args.vararg, None))
    elif args.kwonlyargs:
        row.append(("*", ast.arg(""), None))
    row += [("key", a, d) for a, d in zip(args.kwonlyargs, args.kw_defaults, strict=True)]
    if args.kwarg:
        row.append(("**", args.kwarg, None))
    return row


def _key(parameter: _Parameter) -> str:
    kind, arg, default = parameter
    return f"{kind} {ast.dump(arg)} {ast.dump(default) if default else ''}"


def _additions(
    pair: Pair, old: Sequence[_Parameter], new: Sequence[_Parameter]
) -> dict[str, str] | None:
    known = [_key(each) for each in old]
    further = [each for each in new if _key(each) not in known]
    if [_key(each) for each in new if _key(each) in known] != known:
        return None
    source = pair.sources[1]
    added: dict[str, str] = {}
    for _, arg, default in further:
        if default is None:
            return None
        annotation = f"{pattern(source, arg.annotation)} = " if arg.annotation else ""
        added[arg.arg] = annotation + pattern(source, default)
    return added


def _texts(
    pair: Pair, old: Sequence[_Parameter], new: Sequence[_Parameter]
) -> Iterator[tuple[str, str]]:
    """The parameters as patterns: with `...` for those that stay, and with all names."""
    texts = [
        [_text(source, each) for each in side]
        for source, side in zip(pair.sources, (old, new), strict=True)
    ]
    matcher = SequenceMatcher(None, [_key(p) for p in old], [_key(p) for p in new], autojunk=False)
    sides: tuple[list[str], list[str]] = ([], [])
    for tag, first, last, other_first, other_last in matcher.get_opcodes():
        if tag == "equal":
            # The neighbours of what changes say where it goes.
            ends = texts[0][first : first + 1] if sides[0] else []
            last_ones = texts[0][last - 1 : last] if last < len(old) or not ends else []
            middle = [] if last - first <= len(ends) + len(last_ones) else ["..."]
            unchanged = [*ends, *middle, *last_ones] if last - first > 1 else texts[0][first:last]
            sides[0].extend(unchanged)
            sides[1].extend(unchanged)
        else:
            sides[0].extend(texts[0][first:last])
            sides[1].extend(texts[1][other_first:other_last])
    yield ", ".join(sides[0]), ", ".join(sides[1])
    yield ", ".join(texts[0]), ", ".join(texts[1])


def _text(source: SourceCode, parameter: _Parameter) -> str:
    kind, arg, default = parameter
    stars = kind if kind != "key" else ""
    text = stars + arg.arg
    if arg.annotation is not None:
        text += f": {pattern(source, arg.annotation)}"
    if default is None:
        return text
    equals = " = " if arg.annotation is not None else "="
    return f"{text}{equals}{pattern(source, default)}"
