"""The same edits with one piece of their code changed, as somebody changed what it makes."""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from vpatch.commands.edit.workbench import hunks, words_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from vpatch.deriving.candidate import Declared

_CONTEXTS = ((0, 0), (1, 0), (0, 1), (1, 1), (2, 1), (1, 2), (2, 2), (3, 3), (5, 5))
_LINES = ((0, 0), (1, 0), (0, 1), (1, 1))
_MOST = 400
# What an edit makes is in these keys; all others find its place.
_MAKES = ("rewrite", "insert", "set-value", "replace-body")


def tweaks(
    edits: Sequence[Declared],
    files: Mapping[str, bytes],
    differing: Mapping[str, tuple[bytes | None, bytes | None]],
) -> Iterator[tuple[list[Declared], dict[str, bytes], tuple[str, str]]]:
    """Propose other edits and files beside them; and the text that changes, before and after.

    Args:
        edits: those of the patch.
        files: what is beside the patch.
        differing: the files that the edits make, and what somebody made of them.
    """
    for path, (now, wanted) in differing.items():
        if wanted is None:
            continue
        for edit in edits:
            name = edit.get("from")
            if edit.get("add-file") == path and files.get(str(name)) == now:
                yield list(edits), {**files, str(name): wanted}, ("", "")
        if now is None:
            continue
        for old, new in hunks(now, wanted):
            for above, below in _LINES:
                pair = old.around(above, below), new.around(above, below)
                if pair[0]:
                    yield from _everywhere(edits, files, lambda t, p=pair: _by_lines(t, *p), pair)
            texts = "".join(old.changed), "".join(new.changed)
            for one, other in _by_words(*texts):
                yield from _everywhere(
                    edits,
                    files,
                    lambda t, a=one, b=other: _replaced(t, a, b),
                    ([one], [other]),
                )


def _everywhere(edits, files, change, pair):  # type: ignore[no-untyped-def]
    """Change each piece of code that an edit makes, one at a time."""
    shown = "".join(pair[0]).strip(), "".join(pair[1]).strip()
    for number, edit in enumerate(edits):
        for path, text in _leaves(edit):
            for other in change(text):
                if other.strip():
                    changed = _with(edit, path, other)
                    yield [*edits[:number], changed, *edits[number + 1 :]], dict(files), shown
    for name in dict.fromkeys(name for edit in edits for name in _snippets(edit)):
        if name in files:
            for other in change(files[name].decode(errors="replace")):
                yield list(edits), {**files, name: other.encode()}, shown


def _leaves(edit: Declared) -> Iterator[tuple[tuple[str, ...], str]]:
    for key in _MAKES:
        if isinstance(edit.get(key), str):
            yield (key,), str(edit[key])
    match edit:
        case {"add-keyword": dict(keywords)}:
            for name, value in keywords.items():
                yield ("add-keyword", name), str(value)
        case {"text": {"replace": str(text)}}:
            yield ("text", "replace"), text


def _snippets(edit: Declared) -> Iterator[str]:
    for key in ("insert", "replace-body"):
        snippet = edit.get(key)
        if isinstance(snippet, dict):
            yield str(snippet["from"])
    if "add-file" in edit:
        yield str(edit["from"])
    if "codemod" in edit:
        yield str(edit["codemod"])


def _with(edit: Declared, path: tuple[str, ...], text: str) -> Declared:
    if len(path) == 1:
        return {**edit, path[0]: text}
    inner = edit[path[0]]
    assert isinstance(inner, dict)  # noqa: S101 - see `_leaves`
    return {**edit, path[0]: {**inner, path[1]: text}}


def _by_lines(text: str, old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    """Replace lines, whatever their indentation is."""
    lines = text.splitlines(keepends=True)
    if not old:
        return
    bare = [line.strip() for line in old]
    for start in range(len(lines) - len(old) + 1):
        own = lines[start : start + len(old)]
        if [line.strip() for line in own] != bare:
            continue
        shifts = {
            _indent(a) - _indent(b) for a, b in zip(own, old, strict=True) if a.strip()
        }
        if len(shifts) != 1:
            continue
        shift = shifts.pop()
        made = [_shifted(line, shift) for line in new]
        changed = "".join([*lines[:start], *made, *lines[start + len(old) :]])
        yield changed if text.endswith("\n") else changed.removesuffix("\n")


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _shifted(line: str, shift: int) -> str:
    if not line.strip():
        return line
    return " " * max(0, _indent(line) + shift) + line.lstrip(" ")


def _by_words(old: str, new: str) -> Iterator[tuple[str, str]]:
    """Texts to replace, with few words around what differs: each part, and then all of it."""
    one, other = words_of(old), words_of(new)
    matcher = SequenceMatcher(None, one, other, autojunk=False)
    spans = [code[1:] for code in matcher.get_opcodes() if code[0] != "equal"]
    if not spans:
        return
    whole = (spans[0][0], spans[-1][1], spans[0][2], spans[-1][3])
    for first, last, other_first, other_last in dict.fromkeys([whole, *spans]):
        for above, below in _CONTEXTS:
            start, end = max(0, first - above), min(len(one), last + below)
            begin, stop = other_first - (first - start), other_last + (end - last)
            text = "".join(one[start:end])
            if text.strip():
                yield text, "".join(other[max(0, begin) : stop])


def _replaced(text: str, old: str, new: str) -> Iterator[str]:
    at = text.find(old)
    number = 0
    while at >= 0 and number < _MOST:
        yield text[:at] + new + text[at + len(old) :]
        at = text.find(old, at + 1)
        number += 1
