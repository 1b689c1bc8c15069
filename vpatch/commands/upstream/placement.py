"""A patch's test, put where upstream keeps such tests."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import libcst as cst
from libcst.helpers import get_full_name_for_node

from vpatch.errors import UsageError
from vpatch.planning.view import UnparsableFile, parse

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


_FUTURE = "from __future__ "
_Statement = cst.SimpleStatementLine | cst.BaseCompoundStatement


class PlacingError(UsageError):
    """A test does not fit into the file that it is for."""

    code = "upstream.test-does-not-fit"


def place_test(there: bytes | None, test: bytes, at: str) -> bytes:
    """Return upstream's test file with what a test of ours has; without one, a new file of it.

    Its imports are sorted in, what is imported already is left out, and the rest comes last.
    Comments at its head and its docstring stay behind: the file that is there has its own.

    Raises:
        PlacingError: the file defines such a name, or one of the two is not Python.
    """
    if there is None:
        return test
    module, ours = _parse(there, at), _parse(test, "the test")
    taken = dict.fromkeys(_defined_names(module.body)) | dict(_imported_names(module.body))
    mine = dict.fromkeys(_defined_names(ours.body)) | dict(_imported_names(ours.body))
    for name, code in mine.items():
        if name in taken and (code is None or code != taken[name]):
            raise PlacingError(
                f"the file already has another {name!r}",
                where=at,
                hint="rename it in the patch's test; if upstream took it over, remove it there",
            )
    imports = [line for line in ours.body if _is_import(line)]
    body = [line for line in ours.body[_behind_docstring(ours.body) :] if not _is_import(line)]
    if not body:
        raise PlacingError("the test consists of imports only", where=at, hint="write the test")
    merged = list(module.body)
    for line in imports:
        if _code(line).startswith(_FUTURE):
            _put_first(merged, line)
        elif not _join(merged, line):
            _sort_in(merged, line)
    comments = [line for line in body[0].leading_lines if line.comment is not None]
    gap = [cst.EmptyLine(indent=False)] * 2
    first = body[0].with_changes(leading_lines=[*gap, *comments])
    placed = module.with_changes(body=[*merged, first, *body[1:]]).bytes
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compile(placed, at, "exec", dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise PlacingError(
                f"the file does not compile with the test: {error}",
                where=at,
                hint="correct the patch's test",
            ) from error
    return placed


def _parse(source: bytes, where: str) -> cst.Module:
    try:
        return parse(where, source)
    except UnparsableFile as error:
        raise PlacingError(
            f"this is not Python: it {error.what}", where=error.where, hint="correct the file"
        ) from error


def _behind_docstring(body: Sequence[_Statement]) -> int:
    """The place behind the docstring of a module, which comes first."""
    return 1 if cst.Module(body[:1]).get_docstring() is not None else 0


def _defined_names(body: Sequence[_Statement]) -> Iterator[str]:
    for line in body:
        if isinstance(line, (cst.FunctionDef, cst.ClassDef)):
            yield line.name.value
        elif isinstance(line, cst.SimpleStatementLine):
            for statement in line.body:
                if isinstance(statement, cst.Assign):
                    names = (get_full_name_for_node(target.target) for target in statement.targets)
                    yield from (name for name in names if name)


def _imported_names(body: Sequence[_Statement]) -> Iterator[tuple[str, str]]:
    """What imports bind, each with its meaning."""
    for line in body:
        for statement in line.body if isinstance(line, cst.SimpleStatementLine) else ():
            if isinstance(statement, cst.Import):
                for one in statement.names:
                    whole = get_full_name_for_node(one.name) or ""
                    bound = one.evaluated_alias or whole.partition(".")[0]
                    yield bound, whole if one.evaluated_alias else bound
            elif isinstance(statement, cst.ImportFrom):
                for one in _aliases(statement):
                    source = f"{_module(statement)}.{one.evaluated_name}"
                    yield one.evaluated_alias or one.evaluated_name, source


def _join(body: list[_Statement], line: _Statement) -> bool:
    """Put the names of a `from` import into the one of the same module that is there, if one is."""
    ours = _from(line)
    if ours is None:
        return False
    for place, other in enumerate(body):
        there = _from(other)
        if there is None or _module(there) != _module(ours):
            continue
        for alias in _aliases(ours):
            there = _with_name(there, alias)
        body[place] = other.with_changes(body=[there])
        return True
    return False


def _from(line: _Statement) -> cst.ImportFrom | None:
    """The one `from` import of names that a line is."""
    if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1:
        statement = line.body[0]
        if isinstance(statement, cst.ImportFrom) and _aliases(statement):
            return statement
    return None


def _module(statement: cst.ImportFrom) -> str:
    name = get_full_name_for_node(statement.module) if statement.module else ""
    return f"{'.' * len(statement.relative)}{name}"


def _aliases(statement: cst.ImportFrom) -> Sequence[cst.ImportAlias]:
    """The names that an import takes; none where it takes all."""
    return () if isinstance(statement.names, cst.ImportStar) else statement.names


def _with_name(there: cst.ImportFrom, alias: cst.ImportAlias) -> cst.ImportFrom:
    """A `from` import with one more name, where isort would have it, in the layout that it has."""
    names = list(_aliases(there))
    if any(_spelling(one) == _spelling(alias) for one in names):
        return there
    between = there.lpar.whitespace_after if there.lpar else cst.SimpleWhitespace(" ")
    comma = cst.Comma(whitespace_after=between)
    at = next((n for n, one in enumerate(names) if _order(one) > _order(alias)), len(names))
    if at < len(names):
        names.insert(at, alias.with_changes(comma=comma))
    else:
        last = names[-1].comma
        names[-1] = names[-1].with_changes(comma=comma)
        names.append(alias.with_changes(comma=last))
    return there.with_changes(names=names)


def _spelling(alias: cst.ImportAlias) -> tuple[str, str | None]:
    return alias.evaluated_name, alias.evaluated_alias


def _order(alias: cst.ImportAlias) -> tuple[int, str]:
    """Isort's order by type: constants, classes, and then all else."""
    name = alias.evaluated_name
    kind = 0 if name.isupper() and len(name) > 1 else 1 if name[:1].isupper() else 2
    return kind, name


def _put_first(body: list[_Statement], line: _Statement) -> None:
    """Put an import from __future__ where Python wants it: behind the docstring alone."""
    if not any(_code(other) == _code(line) for other in body if _is_import(other)):
        body.insert(_behind_docstring(body), line.with_changes(leading_lines=[]))


def _is_import(line: _Statement) -> bool:
    return isinstance(line, cst.SimpleStatementLine) and isinstance(
        line.body[0], (cst.Import, cst.ImportFrom)
    )


def _code(line: _Statement) -> str:
    plain = line.with_changes(leading_lines=[])
    return cst.Module([plain]).code.strip()


def _sort_in(body: list[_Statement], line: _Statement) -> None:
    """Put an import before the next one of its package, as isort would, or behind all imports."""
    code = _code(line)
    imports = [(place, _code(other)) for place, other in enumerate(body) if _is_import(other)]
    if any(other == code for _, other in imports):
        return
    plain = line.with_changes(leading_lines=[])
    same = [(place, other) for place, other in imports if _package(other) == _package(code)]
    for place, other in same:
        if _key(other) > _key(code):
            # What comes before the next one, an empty line between two groups, stays above both.
            body[place : place + 1] = [
                line.with_changes(leading_lines=getattr(body[place], "leading_lines", [])),
                body[place].with_changes(leading_lines=[]),
            ]
            return
    if same:
        body.insert(same[-1][0] + 1, plain)
    elif imports:
        gap = [cst.EmptyLine(indent=False)]
        body.insert(imports[-1][0] + 1, line.with_changes(leading_lines=gap))
    else:
        body.insert(_behind_docstring(body), plain)


def _package(code: str) -> str:
    return code.split()[1].partition(".")[0]


def _key(code: str) -> tuple[bool, str]:
    """Isort's order within a group: `import` before `from`, then by module."""
    words = code.split()
    return words[0] == "from", words[1]
