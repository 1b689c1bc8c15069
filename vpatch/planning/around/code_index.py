"""What the definitions of files bind and name, by the content of each file.

It is read from the syntax once for a content, so that a search through many files needs no parser.
"""

from __future__ import annotations

import ast
import hashlib
from functools import partial
from typing import TYPE_CHECKING, Literal

from vpatch.codemods.trees import STRANGE_LINES, import_of
from vpatch.planning.around.code_entries import SELF, entry_of, read_entries, row_of
from vpatch.planning.around.name_patterns import may_use
from vpatch.planning.around.semantics import digest_of_text, meaning_around, meaning_of
from vpatch.planning.outline import is_python

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from vpatch.planning.around.code_entries import CodeEntry
    from vpatch.planning.around.name_patterns import NameUse
    from vpatch.planning.view import View

PlaceKind = Literal["uses", "ways", "calls"]


class CodeIndex:
    """The entries of the files of a pristine tree."""

    def __init__(self, view: View) -> None:
        self.view = view
        self._entries: dict[bytes, Sequence[CodeEntry]] = {}
        self._holders: dict[frozenset[bytes], Sequence[str]] = {}
        self._with_use: dict[tuple[str, tuple[NameUse, ...]], Sequence[str]] = {}

    def entries(self, path: str) -> Sequence[CodeEntry]:
        """The entries of a file; none where there is no such file, or it is not Python."""
        text = self.view.pristine(path)
        return () if text is None else self.entries_of(path, text)

    def entries_of(self, path: str, text: bytes) -> Sequence[CodeEntry]:
        """The entries of some content of a file."""
        if not is_python(path):
            return ()
        # A relative import depends on the folder.
        folder = path.rpartition("/")[0]
        digest = hashlib.sha256(text).digest()
        key = digest + folder.encode()
        if key not in self._entries:
            rows = self.view.answers.ask(
                f"entries in {folder}",
                [digest],
                lambda: [
                    row_of(entry) for entry in read_entries(path, self.view.outline_of(path, text))
                ],
            )
            self._entries[key] = [entry_of(row) for row in rows]
        return self._entries[key]

    def files_with(self, *words: str) -> Sequence[str]:
        """The package's Python files that have all of some words."""
        needle = frozenset(word.encode() for word in words)
        if needle not in self._holders:
            self._holders[needle] = list(filter(is_python, self.view.holding([needle], None)))
        return self._holders[needle]

    def files_with_use(self, name: str, *uses: NameUse) -> Sequence[str]:
        """Of the files that have a name, those whose text may do one of some things with it."""
        key = (name, uses)
        if key not in self._with_use:
            self._with_use[key] = self.with_use(self.files_with(name), name, *uses)
        return self._with_use[key]

    def with_use(self, files: Iterable[str], name: str, *uses: NameUse) -> Sequence[str]:
        """Of some files, those whose text may do one of some things with a name."""
        return [path for path in files if may_use(self.view.pristine(path) or b"", name, uses)]

    def meaning(self, path: str, key: str) -> str:
        """A digest of what the definitions with a key mean; see `meaning_of`."""
        digest: str = self.view.ask_pristine(
            f"meaning of {key}",
            path,
            # An `if` may have one in each branch.
            lambda: digest_of_text(
                "".join(meaning_of(node) for _, node in self._nodes(path, {key}))
            ),
        )
        return digest

    def places(self, kind: PlaceKind, name: str, path: str) -> dict[str, str]:
        """Digests of what leads to each place with a name in a file, by the definition's key.

        Places are all uses of the name or its calls. For `ways`, only the conditions of uses count.
        """
        is_place, whole = (_is_called if kind == "calls" else _is_named), kind != "ways"
        digests: dict[str, str] = self.view.ask_pristine(
            f"{kind} of {name}",
            path,
            lambda: self._places(
                path,
                {entry.key for entry in self.entries(path) if entry.has_name(name)},
                partial(is_place, name),
                whole=whole,
            ),
        )
        return digests

    def stores(self, owner: str, name: str, path: str) -> dict[str, str]:
        """Digests of what leads to where methods give `self.NAME` a value, by the method's key."""
        digests: dict[str, str] = self.view.ask_pristine(
            f"stores of {name} by {owner}",
            path,
            lambda: self._places(
                path,
                {e.key for e in self.entries(path) if e.owner == owner and name in e.stored},
                partial(_is_stored, name),
            ),
        )
        return digests

    def _places(
        self,
        path: str,
        keys: Collection[str],
        is_place: Callable[[ast.AST], bool],
        *,
        whole: bool = True,
    ) -> dict[str, str]:
        digests: dict[str, str] = {}
        for key, node in self._nodes(path, keys):
            digest = meaning_around(node, is_place, whole=whole)
            if digest is not None:
                # Several definitions may have one name, as in the branches of an `if`.
                digests[key] = digest_of_text(digests.get(key, "") + digest)
        return digests

    def _nodes(self, path: str, keys: Collection[str]) -> Sequence[tuple[str, ast.AST]]:
        """The syntax of definitions. Where it can be, only their own lines are parsed."""
        text = self.view.pristine(path) or b""
        entries = [entry for entry in self.entries(path) if entry.key in keys]
        nodes = [] if STRANGE_LINES.search(text) else [_parsed(entry, text) for entry in entries]
        if len(nodes) == len(entries) and None not in nodes:
            pairs = zip(entries, nodes, strict=True)
            return [(entry.key, node) for entry, node in pairs if node is not None]
        outline = self.view.outline(path)
        return [(one.key, one.node) for one in outline if one.node is not None and one.key in keys]


def _parsed(entry: CodeEntry, text: bytes) -> ast.AST | None:
    """The syntax of a definition by its lines alone; None if that is not all of it, or less."""
    if entry.kind == "class" or entry.is_statement:
        return None  # its node is not all of its lines
    lines = text.split(b"\n")[entry.first - 1 : entry.last]
    # What is indented needs a block.
    above = [b"if 1:"] if lines[0][:1].isspace() else []
    try:
        body = ast.parse(b"\n".join([*above, *lines])).body
    except SyntaxError:
        return None
    if above and isinstance(body[0], ast.If):
        body = body[0].body
    node, *others = body
    if others:
        return None
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return next(
            import_of(node, alias)
            for alias in node.names
            if entry.name.rpartition(".")[2] == (alias.asname or alias.name.partition(".")[0])
        )
    return node


def _is_named(name: str, node: ast.AST) -> bool:
    match node:
        case ast.Name(id=own) | ast.Attribute(attr=own) | ast.keyword(arg=own):
            return own == name
        case ast.Constant(value=str(own)):
            return own == name or own.endswith(f".{name}")
        case _:
            return False


def _is_called(name: str, node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Name(id=own) | ast.Attribute(attr=own)):
            return own == name
        case _:
            return False


def _is_stored(name: str, node: ast.AST) -> bool:
    match node:
        case ast.Attribute(value=ast.Name(id=owner), attr=own, ctx=ast.Store()):
            return own == name and owner in SELF
        case _:
            return False
