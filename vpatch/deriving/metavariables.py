"""New edits get the metavariables of a patch, where they have the code that these match."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from vpatch.deriving.candidate import Declared

_ANCHORS = ("find", "after", "before", "at-start-of", "at-end-of", "delete")
_MAKES = ("rewrite", "insert")
_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


def in_variables(
    edit: Declared,
    origin: int | None,
    before: Sequence[Declared],
    bound: Sequence[Mapping[str, str]],
) -> Iterator[Declared]:
    """An edit with metavariables in place of code that they match.

    Args:
        edit: a new edit, or a changed one.
        origin: the number of the edit that it was; None if it is new.
        before: the edits of the patch.
        bound: the code that their metavariables match, for each of them.
    """
    if origin is not None:
        yield from _changed(edit, before[origin], bound[origin])
        return
    for other, names in zip(before, bound, strict=True):
        # It is about code that this edit has or makes.
        lines = {line.strip() for text in _texts(other) for line in text.splitlines()}
        general = _with(edit, (*_ANCHORS, *_MAKES), names)
        anchors = {str(general[key]).strip() for key in _ANCHORS if key in general}
        if general != edit and anchors and anchors <= lines:
            yield general


def _changed(edit: Declared, own: Declared, names: Mapping[str, str]) -> Iterator[Declared]:
    texts = _texts(own)
    fresh = {n: code for n, code in names.items() if not any(map(_code(code).search, texts))}
    general = _with(edit, _MAKES, fresh)
    keywords = edit.get("add-keyword")
    if isinstance(keywords, dict):
        general["add-keyword"] = _with(keywords, tuple(keywords), fresh)
    if general != edit:
        yield general


def _texts(edit: Declared) -> list[str]:
    keywords = edit.get("add-keyword")
    values = [edit[key] for key in (*_ANCHORS, *_MAKES) if key in edit]
    values += keywords.values() if isinstance(keywords, dict) else ()
    return [value for value in values if isinstance(value, str)]


def _with(edit: Declared, keys: Sequence[str], names: Mapping[str, str]) -> Declared:
    """An edit with metavariables in the texts of some keys; only those that match a name."""
    general = dict(edit)
    for name, code in sorted(names.items(), key=lambda pair: -len(pair[1])):
        for key in keys:
            text = general.get(key)
            if isinstance(text, str) and _NAME.fullmatch(code):
                general[key] = _code(code).sub(f"${name}", text)
    return general


def _code(code: str) -> re.Pattern[str]:
    """A name in code; one without dots is not that of a keyword."""
    keyword = "" if "." in code else r"(?!\s*=(?!=))"
    return re.compile(rf"(?<![\w.$]){re.escape(code)}(?!\w){keyword}")
