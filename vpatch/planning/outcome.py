"""What an edit or a predicate finds in a file, and what an edit makes of it.

Both depend on nothing but the content of the file, so what was found once is known for every
release that has a file of the same content.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypedDict

import libcst as cst

from vpatch.codemods.base import Repeat
from vpatch.codemods.find_code import FindCode
from vpatch.codemods.line_length import laid_out
from vpatch.codemods.nodes import DEFINITIONS, all_nodes
from vpatch.planning.difference import difference, with_difference
from vpatch.planning.outline import outline
from vpatch.planning.view import UnparsableFile, lines_of, written

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vpatch.codemods.base import EditSite, PythonEdit
    from vpatch.codemods.extent import Extents
    from vpatch.planning.view import View


@dataclass(frozen=True)
class FoundSite:
    """A place in a file, with the fields of an `EditSite`.

    `definition` is the name of the function or class that the place is. `defined` are the keys of
    what the statement of a module or a class defines that the place is a part of. `line` is the
    line in `text`, from 1, where lines were asked for or the file is not Python.
    """

    path: str
    todo: bool
    scope: str = ""
    problem: str | None = None
    recognised: bool = True
    repeat: Repeat | None = None
    bindings: Mapping[str, str] | None = None
    definition: str | None = None
    defined: tuple[str, ...] | None = None
    line: int | None = None
    text: bytes | None = None


@dataclass(frozen=True)
class FileOutcome:
    """The places in a file, and the file after the edit; None where nothing is to do."""

    sites: tuple[FoundSite, ...]
    after: bytes | None


def outcome(
    codemod: PythonEdit, question: str | None, path: str, view: View, *, located: bool
) -> FileOutcome:
    """Run an edit, or a predicate, on a file of Python, or recall what it found.

    Args:
        codemod: what to run.
        question: all that decides what it does; None if that is not known, and nothing is recalled.
        path: the file.
        view: what has the file.
        located: whether the places need lines, which are not kept.

    Raises:
        UnparsableFile: libcst cannot parse it, or cannot write it back.
    """
    if located or question is None:
        return _run(codemod, path, view, located=located)
    known = view.answers.ask(
        question,
        [view.digest(path)],
        lambda: _row(_run(codemod, path, view, located=False), view.read(path) or b""),
    )
    return _of_row(known, path, view)


def _run(codemod: PythonEdit, path: str, view: View, *, located: bool) -> FileOutcome:
    if isinstance(codemod, FindCode) and not view.may_have(path, codemod.sought):
        return FileOutcome((), None)
    text = view.read(path) or b""
    if not located and codemod.reading is not None:
        reduced = view.reduced(path, (codemod.reading, codemod.place))
        if reduced is not None:
            part, module, extents = reduced
            result = _run_on(codemod, path, text, module, extents, part.text)
            restored = None if result.after is None else part.restored(result.after)
            if result.after is None or restored is not None:
                return FileOutcome(result.sites, restored)
    module, extents = view.parsed(path)
    return _run_on(codemod, path, text, module, extents, text, located=located)


def _run_on(
    codemod: PythonEdit,
    path: str,
    text: bytes,
    module: cst.Module,
    extents: Extents,
    source: bytes,
    *,
    located: bool = False,
) -> FileOutcome:
    """Run an edit on the module that `source` is: all of a file's text, or a part of it.

    Raises:
        UnparsableFile: libcst does not write the module as it was.
    """
    edited = codemod.apply(module, extents)
    lines = lines_of(module) if located and edited.sites else {}
    statements = _Statements(module, source, extents)
    sites = tuple(
        _site(path, site, statements, lines.get(site.node), text if located else None)
        for site in edited.sites
    )
    if not any(site.todo for site in sites):
        return FileOutcome(sites, None)
    if not extents.is_faithful(module, source):
        raise UnparsableFile(
            "libcst cannot write it back byte for byte (a form feed, a bare CR, or an indented "
            "comment at its end?)",
            where=path,
        )
    new_text = written(path, edited.module)
    if b"\r\n" in text and text.count(b"\r\n") == text.count(b"\n"):
        # The new code may have strings of several lines.
        new_text = new_text.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
    return FileOutcome(sites, laid_out(text, new_text))


def _site(
    path: str, site: EditSite, statements: _Statements, line: int | None, text: bytes | None
) -> FoundSite:
    node = site.node
    return FoundSite(
        path,
        site.todo,
        site.scope,
        site.problem,
        site.recognised,
        site.repeat,
        site.bindings,
        node.name.value if isinstance(node, DEFINITIONS) else None,
        tuple(statements.defined(site)),
        line,
        text,
    )


# --- what is kept ------------------------------------------------------------------------------


class _Row(TypedDict):
    sites: list[list[Any]]
    after: tuple[int, int, str] | None


def _row(result: FileOutcome, before: bytes) -> _Row:
    sites = [
        [
            site.todo,
            site.scope,
            site.problem,
            site.recognised,
            site.repeat and site.repeat.name,
            site.bindings,
            site.definition,
            site.defined,
        ]
        for site in result.sites
    ]
    after = None if result.after is None else difference(before, result.after)
    return {"sites": sites, "after": after}


def _of_row(row: _Row, path: str, view: View) -> FileOutcome:
    sites = tuple(
        FoundSite(
            path,
            todo,
            scope,
            problem,
            recognised,
            repeat and Repeat[repeat],
            bindings,
            definition,
            tuple(defined),
        )
        for todo, scope, problem, recognised, repeat, bindings, definition, defined in row["sites"]
    )
    if row["after"] is None:
        return FileOutcome(sites, None)
    after = with_difference(view.read(path) or b"", row["after"])
    return FileOutcome(sites, after)


# --- what the place is a part of ---------------------------------------------------------------


class _Statements:
    """The statements of a module that define no function or class, by the nodes in them."""

    def __init__(self, module: cst.Module, source: bytes, extents: Extents) -> None:
        self._module = module
        self._source = source
        self._extents = extents
        # How often the source has a class of a name, or a text that looks like one.
        self._classes: dict[str, int] = {}
        self._by_node: dict[int, dict[int, cst.CSTNode]] = {}
        self._in_class: dict[int, set[int]] = {}

    def defined(self, site: EditSite) -> list[str]:
        """The keys of what a statement defines, in a module or a class, that has a place."""
        body: Sequence[cst.CSTNode] = self._module.body
        own = [site.node.name.value] if isinstance(site.node, DEFINITIONS) else []
        parts = [*(site.scope.split(".") if site.scope else ()), *own]
        for name in parts:
            named = [s for s in body if isinstance(s, cst.ClassDef) and s.name.value == name]
            # A statement above, such as `if`, may have another class of that name.
            is_sure = len(named) == 1 and self._is_only(name)
            inner = next((s for s in named if is_sure or self._has(s, site.node)), None)
            if inner is None:
                break
            body = inner.body.body
        statement = self._nodes_in(body).get(id(site.node))
        if statement is None:
            return []
        prefix = ".".join(parts)
        code = self._code_of(statement, indented=bool(parts)).strip() + "\n"
        return [
            replace(one, name=f"{prefix}.{one.name}" if prefix else one.name).key
            for one in outline(code.encode())
        ]

    def _code_of(self, statement: cst.CSTNode, *, indented: bool) -> str:
        known = self._extents.of(statement)
        if known is not None and not indented:
            # To write a long statement takes as long as the edit itself.
            return known.decode(self._module.encoding)
        # A statement of a class is written without its first line's indentation.
        return cst.Module([]).code_for_node(statement)

    def _is_only(self, name: str) -> bool:
        """Whether no other class of the module has a name."""
        if name not in self._classes:
            classes = rf"\bclass\s+{re.escape(name)}\b".encode()
            self._classes[name] = len(re.findall(classes, self._source))
        return self._classes[name] == 1

    def _has(self, parent: cst.ClassDef, node: cst.CSTNode) -> bool:
        if id(parent) not in self._in_class:
            self._in_class[id(parent)] = {id(one) for one in all_nodes(parent)}
        return id(node) in self._in_class[id(parent)]

    def _nodes_in(self, body: Sequence[cst.CSTNode]) -> dict[int, cst.CSTNode]:
        if id(body) not in self._by_node:
            self._by_node[id(body)] = {
                id(node): statement
                for statement in body
                if not isinstance(statement, DEFINITIONS)
                for node in all_nodes(statement)
            }
        return self._by_node[id(body)]
