"""A patch of the library with its edits written as changes that read like a diff."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any

import libcst as cst

from vpatch.codemods.bind import bind
from vpatch.codemods.snippet import read_code
from vpatch.declare.edits import (
    AddKeywordEdit,
    ChangeEdit,
    DeleteEdit,
    Edit,
    InsertEdit,
    PlacedEdit,
    RewriteEdit,
    SetValueEdit,
)
from vpatch.errors import UsageError
from vpatch.library.patch import BoundVariant, Patch
from vpatch.trust.decision import NOTHING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

_ON_ONE_LINE = re.compile(r"(.*[^.\s]:) \.\.\.", re.DOTALL)


def as_changes(patch: Patch, alike: Callable[[Patch, Patch], bool]) -> tuple[Patch, Counter[str]]:
    """The patch with each edit as a change that then decides alike; and how many are, by verb."""
    counts: Counter[str] = Counter()
    for at, variant in enumerate(patch.variants):
        declared = _edits(patch, at)
        if len(variant.edits) != len(declared):
            counts["kept: diff"] += len(declared)
            continue
        for number, edit in enumerate(declared):
            made = _with(patch, at, number, as_change(edit, patch.folder))
            taken = made is not None and alike(patch, made)
            counts[f"{'as change' if taken else 'kept'}: {_verb(edit)}"] += 1
            patch = made if made is not None and taken else patch
    return patch, counts


def _edits(patch: Patch, variant: int) -> Sequence[Edit]:
    declaration = patch.declaration
    return declaration.variants[variant].edits if declaration.variants else declaration.edits


def _with(patch: Patch, variant: int, number: int, change: ChangeEdit | None) -> Patch | None:
    """The patch with a change in place of an edit; None if there is none, or it cannot be bound."""
    if change is None:
        return None
    try:
        bound = bind(change, patch.folder, NOTHING)
    except UsageError:
        return None
    old = patch.variants[variant]
    edits = (*old.edits[:number], *bound, *old.edits[number + 1 :])
    made = BoundVariant(old.name, old.when, edits)
    variants = (*patch.variants[:variant], made, *patch.variants[variant + 1 :])
    return replace(patch, variants=variants, digest=f"{patch.digest} {variant}.{number}")


def _verb(edit: Edit) -> str:
    return type(edit).__name__.removesuffix("Edit")


def as_change(edit: Edit, folder: Path) -> ChangeEdit | None:
    """The change that says what an edit says; None if none does."""
    lines = list(_lines(edit, folder))
    if not lines:
        return None
    more: dict[str, Any] = {}
    if isinstance(edit, PlacedEdit):
        more = {"within": edit.within, "where": edit.where}
    if isinstance(edit, SetValueEdit) and "." in edit.of:
        more = {"within": edit.of.rpartition(".")[0]}
    if isinstance(edit, DeleteEdit):
        more["with_comments"] = edit.with_comments
    text = "".join(f"{line}\n" for line in lines)
    files, expect = getattr(edit, "files", None), getattr(edit, "expect")  # noqa: B009 - AddFile has none
    placed = {"within": None, "where": {}, "with_comments": False, **more}
    return ChangeEdit.model_construct(change=text, files=files, expect=expect, **placed)


def _lines(edit: Edit, folder: Path) -> Iterator[str]:
    match edit:
        case RewriteEdit():
            yield from _between(_apart(edit.find), _apart(edit.rewrite))
        case DeleteEdit():
            yield from _between(_apart(edit.delete), [])
        case InsertEdit():
            yield from _inserted(edit, folder)
        case AddKeywordEdit():
            added = [f"{name}={value}" for name, value in edit.add_keyword.items()]
            yield from _between(_apart(edit.find), _apart(_with_arguments(edit.find, added)))
        case SetValueEdit():
            name = edit.of.rpartition(".")[2]
            yield from _between([f"{name} = {edit.was}"], [f"{name} = {edit.set_value}"])


def _inserted(edit: InsertEdit, folder: Path) -> Iterator[str]:
    code, _ = read_code(edit.insert, folder)
    text = edit.insert if isinstance(edit.insert, str) else cst.Module(body=code).code
    new = [f"+ {line}" for line in text.rstrip("\n").split("\n")]
    for anchor, place in ((edit.after, 0), (edit.before, 1)):
        if anchor is not None:
            there = [f"  {line}" for line in _apart(anchor)]
            yield from (*new, *there) if place else (*there, *new)


def _with_arguments(call: str, added: Sequence[str]) -> str:
    """A call or a def with further arguments in front of its last bracket."""
    head, bracket, rest = call.rpartition(")")
    comma = "" if head.rstrip().endswith(("(", ",")) else ", "
    return f"{head}{comma}{', '.join(added)}{bracket}{rest}"


def _apart(pattern: str) -> list[str]:
    """The lines of a pattern; a block on the line of its header has a line of its own."""
    text = pattern.strip("\n")
    match = _ON_ONE_LINE.fullmatch(text)
    if match:
        indent = re.findall(r"^ *", text.rpartition("\n")[2])[0]
        text = f"{match[1]}\n{indent}    ..."
    return text.split("\n")


def _between(old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    for tag, first, last, other_first, other_last in matcher.get_opcodes():
        if tag == "equal":
            yield from (f"  {line}" for line in old[first:last])
        else:
            yield from (f"- {line}" for line in old[first:last])
            yield from (f"+ {line}" for line in new[other_first:other_last])
