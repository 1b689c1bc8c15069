"""The same edits with one piece of their code changed, as somebody changed what it makes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import chain
from typing import TYPE_CHECKING

from vpatch.commands.edit.workbench import HunkSide, hunks, words_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from vpatch.deriving.candidate import Declared

_CONTEXTS = ((0, 0), (1, 0), (0, 1), (1, 1), (2, 1), (1, 2), (2, 2), (3, 3), (5, 5))
_LINES = ((0, 0), (1, 0), (0, 1), (1, 1))
_MOST = 400
# How many lines around a change, and signs beside a metavariable, tell which code is there for it.
_FAR, _NEAR = 6, 4
_VARIABLE = re.compile(r"\$[a-z]\w*")
# The part of the lines of a file that must be the same where it has another path.
_ALIKE = 0.5
# What an edit makes is in these keys; all others find its place.
_MAKES = ("rewrite", "insert", "set-value", "replace-body")


@dataclass(frozen=True)
class Tweak:
    """Other edits, and files beside the patch; `pair` is the text that changed."""

    edits: tuple[Declared, ...]
    files: Mapping[str, bytes]
    pair: tuple[str, str]


def tweaks(
    edits: Sequence[Declared],
    files: Mapping[str, bytes],
    differing: Mapping[str, tuple[bytes | None, bytes | None]],
) -> Iterator[Tweak]:
    """Propose edits with one piece of code changed.

    Args:
        edits: those of the patch.
        files: what is beside the patch.
        differing: the files that the edits make, and what somebody made of them.
    """
    for path, (now, wanted) in differing.items():
        if wanted is None:
            yield from _moved(edits, files, differing, path)
            continue
        for edit in edits:
            name = str(edit.get("from"))
            if edit.get("add-file") == path and files.get(name) == now:
                yield Tweak(tuple(edits), {**files, name: wanted}, ("", ""))
        for replacement in _replacements(edits, now or b"", wanted):
            yield from _everywhere(edits, files, replacement)


def _moved(
    edits: Sequence[Declared],
    files: Mapping[str, bytes],
    differing: Mapping[str, tuple[bytes | None, bytes | None]],
    path: str,
) -> Iterator[Tweak]:
    """Let an edit that adds a file add it at another path, where most of its lines are."""
    for other, (now, wanted) in differing.items():
        if now is not None or wanted is None:
            continue
        for number, edit in enumerate(edits):
            name = str(edit.get("from"))
            if edit.get("add-file") != path or name not in files:
                continue
            lines = files[name].splitlines(), wanted.splitlines()
            if SequenceMatcher(None, *lines, autojunk=False).ratio() > _ALIKE:
                moved = (*edits[:number], {**edit, "add-file": other}, *edits[number + 1 :])
                yield Tweak(moved, {**files, name: wanted}, ("", ""))


@dataclass(frozen=True)
class _TextChange:
    """A text to replace: whole lines, whatever their indentation is, or a part of some."""

    old: Sequence[str]
    new: Sequence[str]
    by_lines: bool

    def apply(self, text: str) -> Iterator[str]:
        if self.by_lines:
            return _by_lines(text, self.old, self.new)
        return _replaced(text, self.old[0], self.new[0])

    @property
    def pair(self) -> tuple[str, str]:
        return "".join(self.old).strip(), "".join(self.new).strip()


def _replacements(edits: Sequence[Declared], now: bytes, wanted: bytes) -> Iterator[_TextChange]:
    for old, new in hunks(now, wanted):
        for above, below in _LINES:
            lines = old.around(above, below)
            if lines:
                yield _TextChange(lines, new.around(above, below), by_lines=True)
        texts = "".join(old.changed), "".join(new.changed)
        pairs = chain(
            *(_in_one_line(edit, old, new) for edit in edits),
            _by_words(*texts),
            *(_with_variables(edit, *texts) for edit in edits),
        )
        for one, other in pairs:
            yield _TextChange([one], [other], by_lines=False)


def _everywhere(
    edits: Sequence[Declared], files: Mapping[str, bytes], replacement: _TextChange
) -> Iterator[Tweak]:
    """Change each piece of code that an edit makes, one at a time."""
    for number, edit in enumerate(edits):
        for path, text in _leaves(edit):
            for other in filter(str.strip, replacement.apply(text)):
                changed = (*edits[:number], _with(edit, path, other), *edits[number + 1 :])
                yield Tweak(changed, files, replacement.pair)
    for name in dict.fromkeys(name for edit in edits for name in _snippets(edit)):
        if name in files:
            for other in replacement.apply(files[name].decode(errors="replace")):
                yield Tweak(tuple(edits), {**files, name: other.encode()}, replacement.pair)


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
    return {**edit, path[0]: {**inner, path[1]: text}} if isinstance(inner, dict) else edit


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
        shifts = {_indent(a) - _indent(b) for a, b in zip(own, old, strict=True) if a.strip()}
        if len(shifts) != 1:
            continue
        shift = shifts.pop()
        shifted = [_shifted(line, shift) for line in new]
        changed = "".join([*lines[:start], *shifted, *lines[start + len(old) :]])
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


def _with_variables(edit: Declared, old: str, new: str) -> Iterator[tuple[str, str]]:
    """Texts to replace with a metavariable in place of one of its values."""
    where = edit.get("where")
    for name, values in where.items() if isinstance(where, dict) else ():
        for value in values if isinstance(values, list) else [values]:
            for one, other in _by_words(old, new):
                if str(value) in one and str(value) in other:
                    yield one.replace(str(value), name), other.replace(str(value), name)


def _in_one_line(edit: Declared, old: HunkSide, new: HunkSide) -> Iterator[tuple[str, str]]:
    """Lines to replace as an edit has them: in one line, and with its metavariables."""
    around = "".join(old.around(_FAR, _FAR))
    for _, text in _leaves(edit):
        bound = _bound(text, around)
        for above, below in _LINES:
            one, other = (_joined(side.around(above, below), bound) for side in (old, new))
            if one and other:
                yield one, other


def _joined(lines: Sequence[str], bound: Mapping[str, str]) -> str:
    text = " ".join(line.strip() for line in lines if line.strip())
    for code, name in bound.items():
        text = text.replace(code, name)
    return text


def _bound(text: str, around: str) -> dict[str, str]:
    """The code that is there for metavariables of a text, by the signs beside them."""
    bound: dict[str, str] = {}
    for match in _VARIABLE.finditer(text):
        before, after = text[: match.start()][-_NEAR:], text[match.end() :][:_NEAR]
        if before.strip() and after.strip() and "$" not in before + after:
            codes = re.findall(f"(?={re.escape(before)}(.+?){re.escape(after)})", around)
            bound |= {code.strip(): match[0] for code in codes if _is_whole(code)}
    return dict(sorted(bound.items(), key=lambda pair: -len(pair[0])))


def _is_whole(code: str) -> bool:
    return all(code.count(a) == code.count(b) for a, b in ("()", "[]", "{}"))


def _replaced(text: str, old: str, new: str) -> Iterator[str]:
    at = text.find(old)
    number = 0
    while at >= 0 and number < _MOST:
        yield text[:at] + new + text[at + len(old) :]
        at = text.find(old, at + 1)
        number += 1
