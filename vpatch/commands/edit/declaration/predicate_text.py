"""The predicates of a patch.yaml, where code that they look for changed."""

from __future__ import annotations

import json
import textwrap
from typing import TYPE_CHECKING, Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq

from vpatch.commands.edit.declaration.patch_text import read, read_or_none
from vpatch.commands.importing.patch_yaml import effect_yaml

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from vpatch.commands.edit.declaration.patch_text import ListedEdit
    from vpatch.deriving.candidate import Declared

# What a predicate looks for.
_CODE = ("find", "text", "unless")


def changed_pieces(edits: Sequence[ListedEdit], before: Sequence[Declared]) -> dict[str, str]:
    """Pieces of code that changed in edits, whole and line by line, the longest first."""
    pieces: dict[str, str] = {}
    for one in edits:
        if one.origin is None:
            continue
        old, new = dict(_texts(before[one.origin])), dict(_texts(one.declared))
        for path in old.keys() & new.keys():
            pieces |= with_lines({old[path].strip(): new[path].strip()})
    return dict(sorted(pieces.items(), key=lambda pair: -len(pair[0])))


def with_lines(texts: Mapping[str, str]) -> dict[str, str]:
    """Texts that changed, whole and line by line."""
    pieces = {old: new for old, new in texts.items() if old != new}
    for old, new in texts.items():
        lines = old.splitlines(), new.splitlines()
        if len(lines[0]) == len(lines[1]):
            pieces |= {a.strip(): b.strip() for a, b in zip(*lines, strict=True) if a != b}
    return pieces


def _texts(node: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    if isinstance(node, dict):
        for key, value in node.items():
            yield from _texts(value, (*path, str(key)))
    elif isinstance(node, str):
        yield path, node


def with_texts(text: str, keys: Sequence[str], pieces: Mapping[str, str]) -> str:
    """The text with pieces replaced in the values of some keys of the document."""
    lines = text.splitlines(keepends=True)
    for key in keys:
        for number in range(*_span(text, key)):
            lines[number] = _replaced(lines[number], pieces)
    changed = "".join(lines)
    return text if read_or_none(changed) is None else changed


def with_effect(text: str, effect: Declared | None) -> str:
    """Replace the effect by another one, or take it away; the same text where it has no lines."""
    document = read(text)
    if "effect" not in document:
        return text
    lines = text.splitlines(keepends=True)
    first = next((n for n, line in enumerate(lines) if line.startswith("effect:")), len(lines))
    ends = (n for n in range(first + 1, len(lines)) if not lines[n].startswith((" ", "\n")))
    new = [] if effect is None else [effect_yaml(effect)]
    changed = "".join([*lines[:first], *new, *lines[next(ends, len(lines)) :]])
    wanted = {key: value for key, value in document.items() if key != "effect"}
    if effect is not None:
        wanted["effect"] = effect
    return changed if read_or_none(changed) == wanted else text


def with_alternatives(text: str, key: str, pieces: Mapping[str, str]) -> str:
    """The text where predicates of a key also hold for other code than they look for.

    Other variants make the code that they look for, and go on to do so.
    """
    document: Any = YAML(typ="rt", pure=True).load(text)
    if key not in document:
        return text
    lines = text.splitlines(keepends=True)
    end = _span(text, key)[1]
    for first, last, column, is_item, in_any in reversed(list(_predicates(document[key], end))):
        own = lines[first:last]
        other = [_replaced(line, pieces) for line in own]
        if own == other or not own:
            continue
        if is_item and in_any:
            lines[last:last] = other
        elif is_item:
            head = f"{' ' * (column - 2)}- any:\n"
            lines[first:last] = [head, *_indented(own), *_indented(other)]
        else:
            head = f"{' ' * column}any:\n"
            items = [_as_item(each, column) for each in (own, other)]
            lines[first:last] = [head, *items[0], *items[1]]
    changed = "".join(lines)
    return text if read_or_none(changed) is None else changed


def _replaced(line: str, pieces: Mapping[str, str]) -> str:
    """A line with the first piece that it has replaced."""
    for old, new in pieces.items():
        for one, other in ((old, new), (_quoted(old), _quoted(new))):
            if one.strip() and one in line:
                return line.replace(one, other)
    return line


def _quoted(text: str) -> str:
    return json.dumps(text)[1:-1]


def _span(text: str, key: str) -> tuple[int, int]:
    """The lines of a key of the document, without comments and blank lines behind it."""
    document: Any = YAML(typ="rt", pure=True).load(text)
    lines = text.splitlines()
    if key not in document:
        return 0, 0
    first = document.lc.key(key)[0]
    starts = (document.lc.key(each)[0] for each in document)
    end = min((line for line in starts if line > first), default=len(lines))
    while end > first + 1 and (not lines[end - 1].strip() or lines[end - 1].startswith("#")):
        end -= 1
    return first, end


def _predicates(
    node: Any, end: int, *, is_item: bool = False, in_any: bool = False
) -> Iterator[tuple[int, int, int, bool, bool]]:
    """The lines of each predicate that looks for code, its column, and where it is."""
    if isinstance(node, CommentedMap) and any(key in node for key in _CODE):
        if not node.fa.flow_style():
            yield node.lc.line, end, node.lc.col, is_item, in_any
    elif isinstance(node, CommentedMap):
        starts = [node.lc.key(key)[0] for key in node]
        for key, following in zip(node, [*starts[1:], end], strict=True):
            yield from _listed(node[key], following, in_any=key == "any")


def _listed(node: Any, end: int, *, in_any: bool) -> Iterator[tuple[int, int, int, bool, bool]]:
    if isinstance(node, CommentedSeq) and not node.fa.flow_style():
        starts = [node.lc.item(number)[0] for number in range(len(node))]
        for one, following in zip(node, [*starts[1:], end], strict=True):
            yield from _predicates(one, following, is_item=True, in_any=in_any)


def _indented(lines: Sequence[str]) -> list[str]:
    return textwrap.indent("".join(lines), " " * 4).splitlines(keepends=True)


def _as_item(lines: Sequence[str], column: int) -> list[str]:
    """A mapping with its lines in a column as an item of a list below that column."""
    moved = textwrap.indent("".join(lines), " " * 4).splitlines(keepends=True)
    return [f"{' ' * (column + 2)}- {moved[0].lstrip(' ')}", *moved[1:]]
