"""What every edit of Python code is: a libcst transformer that also says which places it found."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import libcst as cst

from vpatch.codemods.extent import Extents
from vpatch.codemods.fill import CannotRewrite
from vpatch.codemods.flow import unreached
from vpatch.codemods.names import identifiers
from vpatch.codemods.nodes import STATEMENTS, kinds_of
from vpatch.codemods.reduced import Reading, unit_of
from vpatch.codemods.spelling import Spellings
from vpatch.util.words import has_word

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vpatch.codemods.held import Held
    from vpatch.codemods.match import Match
    from vpatch.codemods.pattern import Pattern
    from vpatch.codemods.scope import Scope


class Repeat(Enum):
    """How usual it is that the same code is in one block twice."""

    USUAL = "calls and other expressions"
    UNUSUAL = "an assignment, an import, a branch, a loop"


@dataclass(frozen=True)
class EditSite:
    """A place that an edit is about.

    `todo` is False where the code already is what the edit would make of it. `problem` says why a
    place that is meant cannot be edited. `recognised` is False where the new code is there, but
    nothing shows that it replaced the code that the edit searches. `repeat` says that the code to
    insert is already elsewhere in the block.
    """

    node: cst.CSTNode
    scope: str
    todo: bool
    bindings: Mapping[str, str] = field(default_factory=dict)
    problem: str | None = None
    recognised: bool = True
    repeat: Repeat | None = None


@dataclass(frozen=True)
class EditOutcome:
    """A module after one edit, and the places that were found in it before."""

    module: cst.Module
    sites: tuple[EditSite, ...]


class PythonEdit(Protocol):
    """One edit of the vocabulary, bound to its parameters.

    `needles` are alternatives: a file is parsed when it holds every byte string of one of them, and
    the names of `place`. `reading` is what of a file the edit looks at; None for all of it.
    `sought` is the pattern that the nearest candidates are looked for with, when nothing matches.
    """

    @property
    def needles(self) -> Sequence[frozenset[bytes]]: ...

    @property
    def place(self) -> Scope: ...

    @property
    def reading(self) -> Reading | None: ...

    @property
    def sought(self) -> Pattern | None: ...

    def apply(self, module: cst.Module, extents: Extents) -> EditOutcome: ...


@dataclass(frozen=True)
class PatternEdit:
    """What edits have in common that look at the code around each match of one pattern."""

    sought: Pattern
    place: Scope

    @property
    def needles(self) -> Sequence[frozenset[bytes]]:
        return (self.sought.needles,)

    @property
    def reading(self) -> Reading:
        return Reading([self.sought.names], unit_of(self.sought))


# Where nothing is ever looked for; libcst makes every node anew that it visits.
_TRIVIA = (cst.BaseParenthesizableWhitespace, cst.EmptyLine, cst.TrailingWhitespace, cst.Comma)
# Where no statement is.
_STATEMENT_PARTS = (
    cst.BaseExpression,
    cst.BaseSmallStatement,
    cst.Decorator,
    cst.Parameters,
    cst.Annotation,
    cst.Arg,
)


class SiteTransformer(cst.CSTTransformer):
    """Walks a module with the qualified name at hand and collects sites.

    A subclass overrides `edit`, and sets `kinds` to the nodes that it wants to see. Methods such as
    `leave_Call` are never called: libcst's look-up by name costs more than the work itself on files
    of vLLM's size.

    Among its `kinds`, cst.Name means names in expressions and as targets. The names of
    attributes, keywords, parameters, definitions and imports are hidden unless `sees_identifiers`.

    It passes over statements that are not within the place. It also passes over those that lack
    names of every alternative in `needles`: a place must have them by itself. In a function, it
    does not where the subclass `sees_functions`. Strings are no names, as there are many ways to
    spell one.
    """

    kinds: tuple[type[cst.CSTNode], ...] = ()
    sees_identifiers = False
    # Whether a place in a function is told by other statements of the function as well.
    sees_functions = False

    def __init__(self, place: Scope, needles: Sequence[frozenset[bytes]] = ()) -> None:
        super().__init__()
        self.place = place
        self.needles = needles
        self._extents = Extents()
        # How the module spells what it imports; a pattern compares by it.
        self.spellings = Spellings()
        # The statements that are never reached, and those of them that are being visited.
        self._unreached: set[int] = set()
        self._dead: list[cst.CSTNode] = []
        self._words: Sequence[Sequence[frozenset[bytes]]] = ()
        self.scope: list[str] = []
        self.sites: list[EditSite] = []
        within_statements = any(issubclass(kind, cst.BaseExpression) for kind in self.kinds)
        self._bodies: dict[int, str] = {}
        self._skips_identifiers = cst.Name in self.kinds and not self.sees_identifiers
        self._skipped: set[int] = set()
        self._closed = _TRIVIA if within_statements else _TRIVIA + _STATEMENT_PARTS

    def run(self, module: cst.Module, extents: Extents | None = None) -> EditOutcome:
        self._extents = extents or Extents()
        self.spellings = self._extents.spellings(module)
        self._words = [[self.spellings.words(word) for word in words] for words in self.needles]
        self.sites = []
        self._bodies.clear()
        self._skipped.clear()
        self._unreached.clear()
        self._dead.clear()
        return EditOutcome(module.visit(self), tuple(self.sites))

    @property
    def is_within(self) -> bool:
        """Whether the node at hand is where the edit may look: inside its `within`."""
        return self.place.admits(self.scope, None)

    def edit(self, original: cst.CSTNode, updated: cst.CSTNode) -> cst.CSTNode:
        """Return what replaces `updated`, or `updated` itself; called once for each of `kinds`.

        `original` is the node of the file, by which a place is reported with `add`. `updated` is
        the same node with the edits inside it made.
        """
        raise NotImplementedError

    def enter(self, node: cst.CSTNode) -> bool:
        """Whether to look for places inside `node`; for edits whose result holds its origin."""
        del node
        return True

    def add(
        self,
        node: cst.CSTNode,
        *,
        todo: bool,
        match: Match | None = None,
        problem: str | None = None,
        recognised: bool = True,
        repeat: Repeat | None = None,
    ) -> None:
        """Report a place: a node of the file that `edit` changes, or that already is so.

        With `problem`, the place is meant but cannot be edited, which makes the patch a conflict.
        A place without work that the program never reaches does not count: it cures nothing.
        """
        if not todo and self._dead:
            return
        texts = match.texts() if match else {}
        scope = ".".join(self.scope)
        self.sites.append(EditSite(node, scope, todo, texts, problem, recognised, repeat))

    def _looks_into(self, statement: cst.CSTNode) -> bool:
        """Whether a place may be in a statement. Then what is in it may be passed over in turn."""
        if self._passes_over(statement):
            return False
        if not (self.sees_functions and isinstance(statement, cst.FunctionDef)):
            self._extents.open(statement)
        return True

    def _passes_over(self, statement: cst.CSTNode) -> bool:
        if not self.needles:
            return False  # somebody's own: what it looks at is not known
        if not self.place.reaches(self.scope, statement):
            return True
        text = self._extents.of(statement)
        return text is not None and not any(
            all(any(has_word(word, text) for word in spelt) for spelt in words)
            for words in self._words
        )

    def on_visit(self, node: cst.CSTNode) -> bool:
        if isinstance(node, STATEMENTS) and not self._looks_into(node):
            return False
        if isinstance(node, (cst.Module, cst.IndentedBlock, cst.If)):
            self._unreached.update(map(id, unreached(node)))
        if id(node) in self._unreached:
            self._dead.append(node)
        if isinstance(node, (cst.ClassDef, cst.FunctionDef)):
            self._bodies[id(node.body)] = node.name.value
        elif id(node) in self._bodies:
            self.scope.append(self._bodies[id(node)])
        elif id(node) in self._skipped:
            return False
        elif isinstance(node, self._closed):
            # A small statement may be a place itself.
            if isinstance(node, self.kinds):
                self.enter(node)
            return False
        if self._skips_identifiers:
            self._skipped.update(map(id, identifiers(node)))
        return self.enter(node)

    def on_leave(  # type: ignore[override]
        self, original_node: cst.CSTNode, updated_node: cst.CSTNode
    ) -> cst.CSTNode:
        if isinstance(original_node, self.kinds) and id(original_node) not in self._skipped:
            try:
                updated_node = self.edit(original_node, updated_node)
            except CannotRewrite as error:
                self.add(original_node, todo=True, problem=str(error))
        if self._bodies.pop(id(original_node), None) is not None:
            self.scope.pop()
        if self._dead and self._dead[-1] is original_node:
            self._dead.pop()
        return updated_node


_Edit = TypeVar("_Edit", bound=PatternEdit)


class PatternTransformer(SiteTransformer, Generic[_Edit]):
    """Makes an edit at each match of its pattern. By default, `kinds` are what the pattern is."""

    def __init__(self, spec: _Edit) -> None:
        self.kinds = self.kinds or kinds_of(spec.sought.node)
        super().__init__(spec.place, (spec.sought.names,))
        self.spec = spec

    def edit(self, original: cst.CSTNode, updated: cst.CSTNode) -> cst.CSTNode:
        match = self.spec.sought.match(updated, self.spellings, held=self.held)
        if match is None or not self.place.admits(self.scope, match, updated):
            return updated
        return self.edit_match(original, updated, match)

    def held(self) -> Held:
        """The values of locals that the pattern sees through; none where it would lose them."""
        return {}

    def edit_match(self, original: cst.CSTNode, updated: cst.CSTNode, match: Match) -> cst.CSTNode:
        """Return what replaces a match, as `edit` does."""
        raise NotImplementedError
