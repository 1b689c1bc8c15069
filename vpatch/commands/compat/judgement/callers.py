"""Whether vLLM gives a parameter to a method: who calls a method of that name, and with what."""

from __future__ import annotations

import ast
import re
from itertools import takewhile
from typing import TYPE_CHECKING, Literal, NamedTuple

from vpatch.commands.compat.code.classes import kind_of
from vpatch.commands.compat.code.expressions import last_name
from vpatch.commands.compat.code.outline import Function
from vpatch.commands.compat.code.read import UnreadableError, parse
from vpatch.commands.compat.code.signature import IN_PLACE, Call, misfit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vpatch.commands.compat.code.codebase import DefinedPlace
    from vpatch.commands.compat.judgement.release import JudgedRelease

_LACKS = "has no parameter "
# torch calls it for whoever calls the module.
_CALLED_BY_OTHERS = frozenset(["forward"])
# A call has fewer closing brackets.
_MOST_BRACKETS = 60
_LAST_WORD = re.compile(r"\w+\Z")
_LONGEST_WORD = 80


class MethodUse(NamedTuple):
    """A use of a name in a file. Without a call, the method is handed on.

    `receiver` is the last name before the dot, `stars` says that it hands on `*args` or `**kwargs`.
    """

    line: int
    is_call: bool
    positions: int = 0
    keywords: tuple[str, ...] = ()
    stars: str = ""
    receiver: str = ""


class Giving(NamedTuple):
    """Whether some code of vLLM gives a parameter; `why` is a clause, and "" if none does."""

    answer: Literal["given", "not given", "unknown"]
    why: str = ""


def giving(  # noqa: C901, PLR0911 - the surest answer first
    release: JudgedRelease, place: DefinedPlace, name: str, problem: str
) -> Giving | None:
    """Return whether vLLM gives the parameter that an override lacks.

    None where the problem is another one, or where the parameter is required. Of one that has
    another name in the override, only whether it is given by name. `place` is the method in vLLM.
    """
    method = place.binding
    if not isinstance(method, Function):
        return None
    has_other_name = IN_PLACE in problem
    parameter = problem.rpartition(IN_PLACE)[2] if has_other_name else problem.removeprefix(_LACKS)
    optional = {one.name for one in method.parameters if one.default is not None}
    if not (has_other_name or (problem.startswith(_LACKS) and parameter in optional)):
        return None
    if name.startswith("__") or name in _CALLED_BY_OTHERS:
        return _not_known(f"others than vLLM may call {name}")
    doubts: dict[str, str] = {}
    # Of several callers, those beside the method are shown.
    own = release.path_of(place.module).split("/")
    for path in sorted(release.holding(name), key=lambda path: (-_shared(path, own), path)):
        rough = _rough_uses(release.files[path], name)
        if not any(_way(use, method, parameter) for use in rough):
            continue
        for use in release.uses(path, name):
            way = _way(use, method, parameter)
            if way == "by name":
                return Giving("given", f"{path}:{use.line} gives it")
            doubts.setdefault(way, f"{path}:{use.line}")
    if "by position" in doubts and not has_other_name:
        return Giving("given", f"{doubts['by position']} calls {name} with as many arguments")
    if "stars" in doubts:
        return _not_known(f"{doubts['stars']} gives stars to {name}")
    if "no call" in doubts:
        return _not_known(f"{doubts['no call']} hands {name} on")
    return Giving("not given")


def _not_known(why: str) -> Giving:
    return Giving("unknown", f"whether vLLM gives it is not known, as {why}")


def _shared(path: str, own: list[str]) -> int:
    pairs = takewhile(lambda pair: pair[0] == pair[1], zip(path.split("/"), own, strict=False))
    return sum(1 for _ in pairs)


def _way(use: MethodUse, method: Function, parameter: str) -> str:
    """Return how a use gives a parameter, or may give it; "" if it does not."""
    if not use.is_call:
        return "no call"
    kind = kind_of(method)
    own = method.parameters[0 if kind == "static method" else 1 :]
    # A class comes before the dot where it is given its instance as well.
    is_unbound = use.receiver[:1].isupper() and kind not in {"static method", "class method"}
    positions = use.positions - is_unbound
    stars = use.stars
    if misfit(Call(positions, use.keywords, stars == "*", stars == "**"), own) is not None:
        return ""  # It calls another method of that name.
    plain = [one.name for one in own if one.kind in {"positional", "normal"}]
    if parameter in use.keywords:
        return "by name"
    if parameter in plain[: max(positions, 0)]:
        return "by position"
    return "stars" if stars == "**" or (stars and parameter in plain) else ""


def uses_in(source: bytes, name: str) -> list[MethodUse]:
    """Return the uses of a method of a name in a file, without those through `super()`."""
    try:
        return list(_parsed_uses(parse(source), name))
    except (UnreadableError, RecursionError):
        return [MethodUse(1, is_call=False)]


def _rough_uses(source: bytes, name: str) -> Iterator[MethodUse]:
    """Yield at least the uses of a method, and what only looks so, such as texts.

    To parse a file takes long.
    """
    word = re.escape(name)
    text = source.decode(errors="replace")
    for match in re.finditer(rf"\.\s*{word}\b\s*(\(?)|[\"']{word}[\"']", text):
        call = _call_at(text, match.end() - 1) if match[1] else None
        before = _LAST_WORD.search(text, max(0, match.start() - _LONGEST_WORD), match.start())
        receiver = before[0] if before else ""
        yield MethodUse(0, is_call=False) if call is None else _use_of(call, receiver)


def _call_at(text: str, start: int) -> ast.Call | None:
    """Return a call whose bracket opens at some place of a text."""
    end = start
    for _ in range(_MOST_BRACKETS):
        end = text.find(")", end) + 1
        if not end:
            return None
        try:
            node = ast.parse(f"f{text[start:end]}", mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        return node if isinstance(node, ast.Call) else None
    return None


def _parsed_uses(tree: ast.Module, name: str) -> Iterator[MethodUse]:
    called: set[int] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr=attribute) as function) if attribute == name:
                called.add(id(function))
                if not _is_super(function.value):
                    owner = last_name(function.value)
                    yield _use_of(node, owner)
            case ast.Attribute(attr=attribute) if attribute == name and id(node) not in called:
                if not _is_super(node.value):
                    yield MethodUse(node.lineno, is_call=False)
            case ast.Constant(value=value) if value == name and isinstance(value, str):
                yield MethodUse(node.lineno, is_call=False)
            case _:
                pass


def _is_super(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super"
    )


def _use_of(node: ast.Call, receiver: str) -> MethodUse:
    has_star = any(isinstance(one, ast.Starred) for one in node.args)
    has_double = any(one.arg is None for one in node.keywords)
    return MethodUse(
        node.lineno,
        is_call=True,
        positions=sum(not isinstance(one, ast.Starred) for one in node.args),
        keywords=tuple(one.arg for one in node.keywords if one.arg),
        stars="**" if has_double else "*" if has_star else "",
        receiver=receiver,
    )
