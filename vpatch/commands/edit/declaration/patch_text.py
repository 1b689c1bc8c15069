"""The text of a patch.yaml with other edits in one of its lists: all other lines stay."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import YAMLError

from vpatch.commands.importing.patch_yaml import AS_TEXT, edits_yaml
from vpatch.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vpatch.deriving.candidate import Declared

Location = tuple[str | int, ...]


class UnwritableEditsError(UsageError):
    """The edits of a patch.yaml are written in a way that vpatch cannot change."""

    code = "edit.unwritable"


@dataclass(frozen=True)
class ListedEdit:
    """An edit of the new list. `origin` is the number of the old one that it was, None if new.

    A new one may be `instead_of` an old one, and then has the comments above it. `note` is a
    comment for an edit by text.
    """

    declared: Declared
    origin: int | None = None
    instead_of: int | None = None
    note: str | None = None


@dataclass(frozen=True)
class ItemLines:
    """The lines of an item: its comments from `top` on, itself from `first` to `end`."""

    top: int
    first: int
    end: int
    column: int


def read(text: str) -> Any:
    """The document as plain values."""
    return YAML(typ="safe", pure=True).load(text)


def edits_at(text: str, location: Location) -> list[Declared]:
    """The edits of a list of the document."""
    node = read(text)
    for step in location:
        node = node[step]
    edits: list[Declared] = json.loads(json.dumps(node))
    return edits


def digest_of_edits(text: str) -> str:
    """A digest of what a patch.yaml says of edits and variants."""
    document = read(text)
    declared = {key: document.get(key) for key in ("edits", "variants")}
    return hashlib.sha256(json.dumps(declared, sort_keys=True).encode()).hexdigest()


def with_list(text: str, location: Location, edits: Sequence[ListedEdit], where: str) -> str:
    """Replace a list of edits by another one, which has the old ones in their order.

    Raises:
        UsageError: the edits are not a list with lines of its own.
    """
    lines = text.splitlines(keepends=True)
    items = items_of(text, location, where)
    before = edits_at(text, location)
    new: list[str] = []
    for one in edits:
        if one.origin is None:
            item = items[one.instead_of or 0]
            if one.instead_of is not None:
                new += _true_comments(lines[item.top : item.first], one)
            notes = {} if one.note is None else {0: one.note}
            new += edits_yaml([one.declared], notes, item.column).splitlines(keepends=True)
            continue
        item = items[one.origin]
        new += lines[item.top : item.first]
        own = lines[item.first : item.end]
        if one.declared != before[one.origin]:
            own = _changed_lines(own, before[one.origin], one.declared, item.column)
        if own and not own[-1].endswith("\n"):
            own[-1] += "\n"
        new += own
    while new and not new[0].strip():
        del new[0]
    lines[items[0].top : items[-1].end] = new
    changed = "".join(lines)
    wanted = read(text)
    parent = wanted
    for step in location[:-1]:
        parent = parent[step]
    parent[location[-1]] = [one.declared for one in edits]
    if read_or_none(changed) != wanted:
        raise _not_lines(where)
    return changed


def _true_comments(lines: Sequence[str], new: ListedEdit) -> list[str]:
    """The comments above an edit that another one takes the place of.

    Why the old one is by text is not true of an edit by meaning, or the new one has a reason.
    """
    if new.note is None and "text" in new.declared:
        return list(lines)
    return [line for line in lines if not line.lstrip().startswith(f"# {AS_TEXT}")]


def read_or_none(text: str) -> Any:
    """The document as plain values; None if it is not YAML."""
    try:
        return read(text)
    except YAMLError:
        return None


def items_of(text: str, location: Location, where: str) -> list[ItemLines]:
    """The lines of each item of a list.

    Raises:
        UsageError: the items have no lines of their own.
    """
    document = YAML(typ="rt", pure=True).load(text)
    node: Any = document
    for step in location:
        node = node[step]
    lines = text.splitlines(keepends=True)
    if not isinstance(node, CommentedSeq) or node.fa.flow_style() or not len(node):
        raise _not_lines(where)
    starts = sorted({line for line in _line_numbers(document) if 0 <= line < len(lines)})
    items: list[ItemLines] = []
    previous = node.lc.item(0)[0] - 1
    for number in range(len(node)):
        first = node.lc.item(number)[0]
        if not lines[first].lstrip().startswith("- "):
            raise _not_lines(where)
        column = len(lines[first]) - len(lines[first].lstrip())
        inner = set(_line_numbers(node[number])) | {first}
        following = [line for line in starts if line > max(inner)]
        end = min(following, default=len(lines))
        while end > first + 1 and _is_comment(lines, end - 1):
            end -= 1
        top = first
        floor = previous if number else first - _comments_above(lines, first, column)
        while top > max(floor, 0) and _looks_like_comment(lines[top - 1]):
            top -= 1
        items.append(ItemLines(top, first, end, column))
        previous = end
    return items


def _comments_above(lines: Sequence[str], first: int, column: int) -> int:
    """How many lines right above the first edit are comments in its column."""
    number = 0
    while first - number > 0 and lines[first - number - 1].startswith(" " * column + "#"):
        number += 1
    return number


def _line_numbers(node: Any) -> Iterator[int]:
    """The lines at which keys and items begin."""
    if isinstance(node, CommentedMap):
        for key, value in node.items():
            yield node.lc.key(key)[0]
            yield from _line_numbers(value)
    elif isinstance(node, CommentedSeq):
        for number, value in enumerate(node):
            yield node.lc.item(number)[0]
            yield from _line_numbers(value)


def _looks_like_comment(line: str) -> bool:
    return not line.strip() or line.lstrip().startswith("#")


def _is_comment(lines: Sequence[str], number: int) -> bool:
    """Whether a line is blank or a comment: without it, the file says the same."""
    if not _looks_like_comment(lines[number]):
        return False
    whole = read_or_none("".join(lines))
    return bool(read_or_none("".join([*lines[:number], *lines[number + 1 :]])) == whole)


def _changed_lines(lines: list[str], before: Declared, after: Declared, column: int) -> list[str]:
    """The lines of an edit with what differs in it: as few others as possible."""
    for tried in _ways(lines, before, after):
        if _one_edit(tried) == after:
            return tried
    by_keys = _by_keys(lines, before, after, column)
    if _one_edit(by_keys) == after:
        return by_keys
    return edits_yaml([after], {}, column).splitlines(keepends=True)


def _by_keys(lines: list[str], before: Declared, after: Declared, column: int) -> list[str]:
    """The lines of the keys that stay, and new ones for the others."""
    document = YAML(typ="rt", pure=True).load("".join(lines))
    starts = [document[0].lc.key(key)[0] for key in document[0]]
    if len({*starts}) < len(starts):
        return lines
    spans = dict(zip(document[0], zip(starts, [*starts[1:], len(lines)], strict=True), strict=True))
    pad = " " * (column + 2)
    changed = list(lines[: starts[0]])
    for number, (key, value) in enumerate(after.items()):
        if key in before and before[key] == value:
            own = lines[slice(*spans[key])]
        else:
            own = edits_yaml([{key: value}], {}, column).splitlines(keepends=True)
        head = own[0][column + 2 :]
        changed += [(f"{' ' * column}- " if number == 0 else pad) + head, *own[1:]]
        if changed[-1][-1:] != "\n":
            changed[-1] += "\n"
    return changed


def _one_edit(lines: Sequence[str]) -> Any:
    document = read_or_none("".join(lines))
    return document[0] if isinstance(document, list) and len(document) == 1 else None


def _ways(lines: list[str], before: Declared, after: Declared) -> Iterator[list[str]]:
    for old, new in _differing(before, after):
        yield from _in_block(lines, old, new)
        yield from _in_line(lines, old, new)
    yield from _with_key(lines, before, after)


def _differing(before: Any, after: Any) -> Iterator[tuple[str, str]]:
    """The texts that differ."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in before.keys() & after.keys():
            yield from _differing(before[key], after[key])
    elif isinstance(before, str) and isinstance(after, str) and before != after:
        yield before, after


def _in_block(lines: list[str], old: str, new: str) -> Iterator[list[str]]:
    """Replace a text that has lines of its own, as after `insert: |`."""
    texts = old.removesuffix("\n").split("\n")
    for start in range(len(lines) - len(texts) + 1):
        head = lines[start]
        indent = head[: len(head) - len(head.lstrip())]
        own = [_indented(text, indent) for text in texts]
        if [line.rstrip() for line in lines[start : start + len(texts)]] == [
            line.rstrip() for line in own
        ]:
            changed = [_indented(text, indent) for text in new.removesuffix("\n").split("\n")]
            yield [*lines[:start], *changed, *lines[start + len(texts) :]]


def _indented(text: str, indent: str) -> str:
    return f"{indent}{text}\n" if text.strip() else "\n"


def _in_line(lines: list[str], old: str, new: str) -> Iterator[list[str]]:
    """Replace a text in one line, or the part of it that differs."""
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    end = 0
    while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
        end += 1
    parts = [(old, new)]
    for more in range(0, len(old) + 1, 2):
        first, last = max(0, start - more), max(0, end - more)
        part = old[first : len(old) - last], new[first : len(new) - last]
        if part[0]:
            parts.append(part)
            break
    for one, other in parts:
        for number, line in enumerate(lines):
            at = line.find(one)
            while at >= 0:
                changed = line[:at] + other + line[at + len(one) :]
                yield [*lines[:number], changed, *lines[number + 1 :]]
                at = line.find(one, at + 1)


def _with_key(lines: list[str], before: Declared, after: Declared) -> Iterator[list[str]]:
    """Add keys at the end of `add-keyword`."""
    maps = before.get("add-keyword"), after.get("add-keyword")
    if not isinstance(maps[0], dict) or not isinstance(maps[1], dict):
        return
    more = [f"{key}: {json.dumps(maps[1][key])}" for key in maps[1] if key not in maps[0]]
    start = next((n for n, line in enumerate(lines) if "add-keyword:" in line), None)
    if start is None or not more:
        return
    head = lines[start]
    if "{" in head and head.rstrip().endswith("}"):
        at = head.rindex("}")
        yield [*lines[:start], f"{head[:at]}, {', '.join(more)}{head[at:]}", *lines[start + 1 :]]
        return
    column = len(head) - len(head.lstrip(" -"))
    stop = start + 1
    while stop < len(lines) and len(lines[stop]) - len(lines[stop].lstrip()) > column:
        stop += 1
    indent = lines[start + 1][: len(lines[start + 1]) - len(lines[start + 1].lstrip())]
    yield [*lines[:stop], *(f"{indent}{one}\n" for one in more), *lines[stop:]]


def _not_lines(where: str) -> UnwritableEditsError:
    return UnwritableEditsError(
        "vpatch cannot write its edits anew without a change of something else",
        where=where,
        hint="write each edit on lines of its own, without anchors and aliases",
    )
