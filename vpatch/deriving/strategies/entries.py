"""A list, tuple, set or dict that has other entries."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Literal

from vpatch.deriving.candidate import Candidate, Case, one, within
from vpatch.deriving.code import Pair, argument, narrowed, tells, with_instead, with_single_gaps

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vpatch.deriving.source_code import SourceCode

_BRACKETS = {ast.List: ("[", "]"), ast.Tuple: ("(", ")"), ast.Set: ("{", "}"), ast.Dict: ("{", "}")}
_GAP = "..."
# Which of the entries that stay say where the others go.
_Shown = Literal["none", "above", "below", "both"]
_SHOWN: tuple[_Shown, ...] = ("none", "above", "below", "both")


def entries(case: Case) -> Iterator[Candidate]:
    """Propose `rewrite` with `...` for the entries that stay."""
    if case.pair is None:
        return
    for outer in reversed(list(narrowed(case.pair))):
        inner = next(filter(_is_literal, narrowed(outer)), None)
        is_block = isinstance(outer.old, ast.stmt) and hasattr(outer.old, "body")
        if inner is None or inner is outer or is_block or not tells(outer.old):
            continue
        for shown in _SHOWN:
            texts = _texts(inner, shown)
            find = with_instead(outer.sources[0], outer.old, inner.old, texts[0])
            rewrite = with_instead(outer.sources[1], outer.new, inner.new, texts[1])
            if _GAP in texts[0] and "$" not in find + rewrite:
                yield one("rewrite", within({"find": find, "rewrite": rewrite}, case.scope))


def _is_literal(pair: Pair) -> bool:
    return type(pair.old) in _BRACKETS and type(pair.old) is type(pair.new)


@dataclass(frozen=True)
class _Entry:
    """An entry with its text. `head` is the key of a dict's entry, or the stars."""

    value: ast.expr
    head: str
    text: str

    @property
    def code(self) -> str:
        return f"{self.head} {ast.dump(self.value)}"


def _entries(source: SourceCode, node: ast.AST) -> list[_Entry]:
    if not isinstance(node, ast.Dict):
        values: list[ast.expr] = node.elts  # type: ignore[attr-defined]
        return [_Entry(value, "", argument(source, value)) for value in values]
    row = []
    for key, value in zip(node.keys, node.values, strict=True):
        head = "**" if key is None else f"{argument(source, key)}: "
        row.append(_Entry(value, head, head + argument(source, value)))
    return row


def _texts(pair: Pair, shown: _Shown) -> tuple[str, str]:
    """Both literals as patterns."""
    items = [_entries(source, node) for source, node in pair.sides]
    olds: list[str] = []
    news: list[str] = []
    keys = [[entry.code for entry in side] for side in items]
    matcher = SequenceMatcher(None, keys[0], keys[1], autojunk=False)
    changes = matcher.get_opcodes()
    for tag, first, last, other_first, other_last in changes:
        old, new = items[0][first:last], items[1][other_first:other_last]
        if tag == "equal":
            is_last = last == len(items[0]) and other_last == len(items[1])
            unchanged = _shorten([e.text for e in old], shown, is_first=not first, is_last=is_last)
            olds += unchanged
            news += unchanged
        elif len(old) == len(new):
            for one_entry, other in zip(old, new, strict=True):
                texts = _entry_texts(one_entry, other, pair, shown)
                olds.append(texts[0])
                news.append(texts[1])
        else:
            olds += [entry.text for entry in old]
            news += [entry.text for entry in new]
    if any(_GAP in text for text in olds) and not isinstance(pair.old, ast.Tuple):
        # A later release may have further entries before and behind those that change.
        starts, ends = (changes[at][0] in {"replace", "delete"} for at in (0, -1))
        olds, news = ([*[_GAP] * starts, *side, *[_GAP] * ends] for side in (olds, news))
    return _bracket(pair.old, olds), _bracket(pair.new, news)


def _entry_texts(old: _Entry, new: _Entry, pair: Pair, shown: _Shown) -> tuple[str, str]:
    """An entry that became another; of a literal, with `...` for the entries in it that stay."""
    inner = Pair(old.value, new.value, pair.sources)
    if _is_literal(inner) and old.head == new.head:
        texts = _texts(inner, shown)
        return old.head + texts[0], new.head + texts[1]
    return old.text, new.text


def _shorten(texts: Sequence[str], shown: _Shown, *, is_first: bool, is_last: bool) -> list[str]:
    """Entries that stay: a gap, and those that are right beside what changes."""
    above = [] if is_first or shown not in {"below", "both"} else [texts[0]]
    below = [] if is_last or shown not in {"above", "both"} else [texts[-1]]
    if len(texts) == 1 and (above or below):
        return list(texts)
    if len(texts) == len(above) + len(below):
        return [*above, *below]
    return [*above, _GAP, *below]


def _bracket(node: ast.AST, items: Sequence[str]) -> str:
    """Entries in the brackets of their kind, with one gap where several follow each other."""
    distinct = with_single_gaps(items)
    opening, closing = _BRACKETS[type(node)]
    comma = "," if isinstance(node, ast.Tuple) and len(distinct) == 1 else ""
    return f"{opening}{', '.join(distinct)}{comma}{closing}"
