"""Read a change that looks like a diff as the code before and the code after it."""

from __future__ import annotations

import io
import itertools
import re
import tokenize
from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import libcst as cst

from vpatch.codemods.base import EditOutcome
from vpatch.codemods.change_inside import insert_inside
from vpatch.codemods.comments import comments_of
from vpatch.codemods.extent import Extents
from vpatch.codemods.pattern import EditError, PatternError, as_python
from vpatch.codemods.rewrite import Rewrite, rewrite_of
from vpatch.codemods.scope import Scope
from vpatch.codemods.statements import RewriteStatements, delete_statements, rewrite_statements

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from vpatch.codemods.base import PythonEdit
    from vpatch.codemods.pattern import Pattern
    from vpatch.codemods.reduced import Reading

_VARIABLE = re.compile(r"\$(?!_\b)[A-Za-z_]\w*")
_BLOCK = re.compile(r"(if|elif|else|for|while|with|try|except|finally|match|case)\b")
_ANY_GAP = re.compile(r"@?\.\.\.")


class ChangeError(EditError):
    """A change does not read as a diff, or says what no edit can do."""

    code = "codemods.wrong-change"


@dataclass(frozen=True)
class DiffLikeRewrite:
    """A rewrite whose gaps may match code that it would change as well.

    The rewrite takes the first way to fill the gaps. If its result has another place to rewrite,
    there was more than one way, and the places are a conflict.
    """

    rewrite: Rewrite | RewriteStatements

    @property
    def needles(self) -> Sequence[frozenset[bytes]]:
        return self.rewrite.needles

    @property
    def place(self) -> Scope:
        return self.rewrite.place

    @property
    def reading(self) -> Reading | None:
        return self.rewrite.reading

    @property
    def sought(self) -> Pattern | None:
        return self.rewrite.sought

    @property
    def replace(self) -> Pattern | None:
        """The new code."""
        return self.rewrite.replace

    def apply(self, module: cst.Module, extents: Extents) -> EditOutcome:
        outcome = self.rewrite.apply(module, extents)
        if not any(site.todo and site.problem is None for site in outcome.sites):
            return outcome
        extents.carry(module, outcome.module)
        again = self.rewrite.apply(outcome.module, extents)
        if not any(site.todo and site.problem is None for site in again.sites):
            return outcome
        problem = "the change fits at more than one place behind '...': add a line that tells which"
        sites = [replace(s, problem=s.problem or problem) if s.todo else s for s in outcome.sites]
        return EditOutcome(module, tuple(sites))


def change_of(text: str, place: Scope, *, with_comments: bool = False) -> tuple[PythonEdit, str]:
    """The edit that a change says, and the pattern of the code before it.

    With `with_comments`, the comments in, behind and right above what goes away go too.

    Raises:
        PatternError: it is not such a diff, or its two sides do not fit together.
    """
    before, after = sides_of(text)
    comments = list(_comments(text, after, " +"))
    inside = insert_inside(text, place)
    if inside is not None:
        _check_kept(sum(map(comments_of, inside[0].code), Counter[str]()), comments)
        return inside
    _check_docstring(text)
    if not after.strip():
        return delete_statements(before, place, comments=with_comments), before
    edit: Rewrite | RewriteStatements
    if comments or with_comments:
        edit = rewrite_statements(before, after, place, comments=with_comments)
    else:
        edit = rewrite_of(before, after, place)
    if comments:
        # Within no definition: none is around the code that is looked at.
        whole = rewrite_statements(before, after, Scope())
        module = cst.parse_module(as_python(before))
        _check_kept(comments_of(whole.apply(module, Extents()).module), comments)
    gap = _gap_among_statements(text)
    if gap and edit.replace is not None and edit.find.match(edit.replace.node) is not None:
        raise _wrong(
            gap,
            "'...' may fit in several ways, and the old lines also match the new code",
            "add lines that tell the place, end the change at '...' to add to the end of its "
            "block, or use insert with `within`",
        )
    return (DiffLikeRewrite(edit) if "..." in before else edit), before


def sides_of(text: str) -> tuple[str, str]:
    """The code before and the code after a change.

    Raises:
        ChangeError: a line does not begin with `- `, `+ ` or two spaces, or says nothing.
    """
    old: list[str] = []
    new: list[str] = []
    changed = False
    for number, line in enumerate(text.splitlines(), start=1):
        mark, code = line[:2].ljust(2), line[2:]
        if mark not in ("- ", "+ ", "  "):
            raise _wrong(
                number,
                f"{line!r} begins with {mark!r}",
                "begin each line with '- ', '+ ' or two spaces; behind `change: |2`, "
                "these count from two columns right of `change`",
            )
        _check_line(number, mark[0], code)
        changed = changed or (mark[0] != " " and bool(code.strip()))
        if mark[0] != "+":
            old.append(code)
        if mark[0] != "-":
            new.append(code)
    if not changed:
        raise _wrong(1, "no line begins with '- ' or '+ '", "mark the lines that go and come")
    before, after = "\n".join(old) + "\n", "\n".join(new) + "\n"
    if not before.strip():
        raise _wrong(
            1, "each line is new, so no line says where", "add a line that is there, or use insert"
        )
    _check_variables(text, before)
    _check_comments(text, before, after)
    return before, after


def _gap_among_statements(text: str) -> int | None:
    """The first line that is a gap with another statement in its block."""
    numbered = [(n, x) for n, x in enumerate(text.splitlines(), start=1) if x[1:].strip()]
    pairs = list(itertools.pairwise(numbered))
    for (number, line), (_, other) in [*pairs, *((b, a) for a, b in pairs)]:
        if line[1:].strip() == "..." and _indent(line) == _indent(other):
            return number
    return None


def _check_line(number: int, mark: str, code: str) -> None:
    if mark != " " and _ANY_GAP.fullmatch(code.strip()):
        raise _wrong(
            number,
            f"'...' is marked with {mark!r}",
            "write '...' with two spaces in front: what it matches stays; "
            "to take a whole block away, use delete",
        )


def _check_docstring(text: str) -> None:
    """Check that no new line comes in front of what may be a docstring."""
    numbered = list(enumerate(text.splitlines(), start=1))
    new = [(n, line) for n, line in numbered if line[:1] != "-" and line[1:].strip()]
    for (_, header), *below in (new[at:] for at in range(len(new) - 1)):
        if not header.endswith(":") or _BLOCK.match(header[2:].strip()):
            continue
        deeper = itertools.takewhile(partial(_is_below, _indent(header)), below)
        body = list(deeper)
        stays = [line[2:].strip() for _, line in body if line[0] == " "]
        if body and body[0][1][0] == "+" and stays[:1] == ["..."]:
            raise _wrong(
                body[0][0],
                "a docstring may be there",
                "write the line above that is there, or use insert with at-start-of",
            )


def _is_below(indent: int, numbered: tuple[int, str]) -> bool:
    return _indent(numbered[1]) > indent


def _indent(line: str) -> int:
    return len(line[2:]) - len(line[2:].lstrip())


def _check_variables(text: str, before: str) -> None:
    known = set(_VARIABLE.findall(before))
    for number, line in enumerate(text.splitlines(), start=1):
        for name in _VARIABLE.findall(line):
            if name not in known:
                raise _wrong(
                    number,
                    f"{name} is in no line that is there",
                    "write its value in the new line",
                )


@dataclass(frozen=True)
class _Comment:
    """A comment of a change, and the number of its line there, counted from 1."""

    text: str
    line: int


def _comments(text: str, side: str, marks: str) -> Iterator[_Comment]:
    """The comments of a side, whose lines have one of the two marks."""
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(side.replace("$", "_")).readline))
    except (tokenize.TokenError, SyntaxError):
        return  # whoever parses the side says what is wrong
    numbers = [n for n, line in enumerate(text.splitlines(), start=1) if line[:1].strip() in marks]
    for token in tokens:
        if token.type == tokenize.COMMENT:
            line, column = token.start
            yield _Comment(side.splitlines()[line - 1][column:], numbers[line - 1])


def _check_comments(text: str, before: str, after: str) -> None:
    """Check that only new lines have comments: patterns do not compare comments."""
    lines = text.splitlines()
    for comment in (*_comments(text, before, " -"), *_comments(text, after, " +")):
        if not lines[comment.line - 1].startswith("+"):
            raise _wrong(
                comment.line,
                f"the comment {comment.text!r} would not be compared",
                "leave it out: comments around the change stay as they are",
            )


def _check_kept(there: Counter[str], comments: Iterable[_Comment]) -> None:
    """Check that the code that the change makes has each of its new comments."""
    remaining = there.copy()
    for comment in comments:
        remaining[comment.text] -= 1
        if remaining[comment.text] < 0:
            raise _wrong(
                comment.line,
                f"the comment {comment.text!r} would be lost",
                "write it in a line of its own above a new statement, or leave it out",
            )


def _wrong(number: int, what: str, hint: str) -> PatternError:
    return ChangeError(f"line {number} of the change: {what}", hint=hint)
