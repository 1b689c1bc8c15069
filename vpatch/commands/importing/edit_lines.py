"""The lines of edits in a patch.yaml that is there: replaced, with all other lines as they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedSeq
from ruamel.yaml.error import YAMLError

from vpatch.commands.importing.patch_yaml import AS_TEXT, edits_yaml
from vpatch.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vpatch.deriving.candidate import Declared

_EDITS = "edits"


class NotLiftableError(UsageError):
    """The edits of a patch cannot be replaced by others."""

    code = "importing.not-liftable"


@dataclass(frozen=True)
class EditsInstead:
    """What is in place of an edit: others, or None for the same with another comment above.

    `notes` are comments above edits, by their number.
    """

    edits: Sequence[Declared] | None
    notes: Mapping[int, str]


def with_edits(text: str, instead: Mapping[int, EditsInstead], where: str) -> str:
    """The text of a patch.yaml with some of its edits replaced, by their number.

    Raises:
        UsageError: the edits are not a list with lines of its own.
    """
    lines = text.splitlines(keepends=True)
    data = _read(text)
    for number in sorted(instead, reverse=True):
        first, end, column = _lines_of(text, number, where)
        while end > first + 1 and _is_comment(lines, end - 1):
            end -= 1
        top = first
        while top and lines[top - 1].strip().startswith(f"# {AS_TEXT}"):
            top -= 1
        one = instead[number]
        if one.edits is None:
            new = [f"{' ' * column}# {AS_TEXT}{note}\n" for note in one.notes.values()]
            new += lines[first:end]
        else:
            new = _comments_in(lines, first, end, column)
            new += edits_yaml(one.edits, one.notes, column).splitlines(keepends=True)
        lines[top:end] = new
        text = "".join(lines)
    _check(data, _read(text), instead, where)
    return text


def _read(text: str) -> Any:
    return YAML(typ="safe", pure=True).load(text)


def _lines_of(text: str, number: int, where: str) -> tuple[int, int, int]:
    """The first line of an edit, the one behind its last, and the column of its dash."""
    document = YAML(typ="rt", pure=True).load(text)
    edits = document[_EDITS]
    if not isinstance(edits, CommentedSeq) or edits.fa.flow_style():
        raise _not_lines(where)
    lines = text.splitlines(keepends=True)
    first = edits.lc.item(number)[0]
    if number + 1 < len(edits):
        end = edits.lc.item(number + 1)[0]
    else:
        keys = [document.lc.key(key)[0] for key in document]
        end = min((line for line in keys if line > first), default=len(lines))
    column = len(lines[first]) - len(lines[first].lstrip())
    if not lines[first].lstrip().startswith("- "):
        raise _not_lines(where)
    return first, end, column


def _not_lines(where: str) -> NotLiftableError:
    return NotLiftableError(
        "its edits are not a list whose items begin with '- ' on lines of their own",
        where=where,
        hint="write them so, as in docs/reference/edits.md",
    )


def _is_comment(lines: Sequence[str], number: int) -> bool:
    """Whether a line is blank or a comment: without it, the file says the same."""
    stripped = lines[number].strip()
    if stripped and not stripped.startswith("#"):
        return False
    try:
        without = _read("".join([*lines[:number], *lines[number + 1 :]]))
        return bool(without == _read("".join(lines)))
    except YAMLError:
        return False


def _comments_in(lines: Sequence[str], first: int, end: int, column: int) -> list[str]:
    """The comments on lines of their own in an edit that goes."""
    return [
        f"{' ' * column}{lines[number].strip()}\n"
        for number in range(first, end)
        if lines[number].strip() and _is_comment(lines, number)
    ]


def _check(before: Any, after: Any, instead: Mapping[int, EditsInstead], where: str) -> None:
    """Check that the new text says what was to be said, and that all other keys are as before."""
    wanted: list[Any] = []
    for number, edit in enumerate(before[_EDITS]):
        edits = instead[number].edits if number in instead else None
        wanted += [edit] if edits is None else edits
    if after != {**before, _EDITS: wanted}:
        raise NotLiftableError(
            "vpatch cannot write its edits anew without a change of something else",
            where=where,
            hint="write each edit on lines of its own, without anchors and aliases",
        )
