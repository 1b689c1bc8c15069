"""The arguments of a call in other spellings of the same call."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence


def plain_arguments(
    args: Sequence[cst.Arg], held: Callable[[], Mapping[str, cst.BaseExpression]] = dict
) -> Sequence[cst.Arg]:
    """The same arguments, with the keywords of `**{"a": b}` and `**dict(a=b)` as keywords.

    `held` gives the values of locals, which may be such dicts.
    """
    if not any(arg.star == "**" for arg in args):
        return args
    plain: list[cst.Arg] = []
    for arg in args:
        value = arg.value
        if arg.star == "**" and isinstance(value, cst.Name):
            value = held().get(value.value, value)
        named = _keywords_in(value) if arg.star == "**" else None
        plain += [arg] if named is None else named
    return plain


def _keywords_in(value: cst.BaseExpression) -> list[cst.Arg] | None:
    """The keywords that a literal dict is, or None if it is another one."""
    match value:
        case cst.Call(func=cst.Name(value="dict"), args=args):
            return list(args) if all(arg.keyword for arg in args) else None
        case cst.Dict(elements=elements):
            named = [_named(element) for element in elements]
            keywords = [arg for arg in named if arg is not None]
            return keywords if len(keywords) == len(named) else None
    return None


def _named(element: cst.BaseDictElement) -> cst.Arg | None:
    match element:
        case cst.DictElement(key=cst.SimpleString(evaluated_value=str() as name), value=value) if (
            name.isidentifier()
        ):
            return cst.Arg(value, keyword=cst.Name(name))
    return None


def other_spellings(
    args: Sequence[cst.Arg], parameters: Sequence[str]
) -> Iterator[Sequence[cst.Arg]]:
    """The same arguments with as few keywords as a signature allows, and with as many.

    `parameters` are the names of the positional parameters, in order.
    """
    if any(arg.star for arg in args):
        return
    positional = [arg for arg in args if arg.keyword is None]
    named = {arg.keyword.value: arg for arg in args if arg.keyword is not None}
    if len(positional) > len(parameters):
        return
    fewer, remaining = list(positional), dict(named)
    for name in parameters[len(positional) :]:
        if name not in remaining:
            break
        fewer.append(cst.Arg(remaining.pop(name).value))
    yield [*fewer, *remaining.values()]
    yield [
        *(
            cst.Arg(arg.value, keyword=cst.Name(name))
            for name, arg in zip(parameters, positional, strict=False)
        ),
        *named.values(),
    ]
