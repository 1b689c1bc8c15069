"""Candidates are run, and kept if they give the bytes that the source gives."""

from __future__ import annotations

import ast
import hashlib
import itertools
import json
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Literal

from pydantic import TypeAdapter, ValidationError

from vpatch.changes.paths import glob_of, glob_of_texts
from vpatch.changes.time_limit import check_time
from vpatch.codemods.base import Repeat
from vpatch.codemods.bind import bind
from vpatch.declare.edits import Edit
from vpatch.deriving.code import comments_of
from vpatch.deriving.defining_files import files_defining, files_with_root
from vpatch.deriving.source_code import is_docstring, parsed
from vpatch.errors import UsageError
from vpatch.planning.editing import run_edit
from vpatch.planning.view import View
from vpatch.source.memory import MemoryTree
from vpatch.trust.decision import NOTHING
from vpatch.util.scratch import scratch_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from vpatch.codemods.bind import BoundEdit
    from vpatch.deriving.candidate import Candidate, Declared
    from vpatch.deriving.other_releases import ByteChange, OtherFiles, Survival
    from vpatch.deriving.passage import Passage
    from vpatch.source.tree import Tree

    _Form = tuple[Candidate, Sequence[BoundEdit], Survival]

# What a candidate gives: the bytes of the source, the same code and comments in another layout, or
# the same code alone.
Verdict = Literal["exact", "layout", "code"]
_MOST_NAMESAKES = 8
# So many forms of an edit are tried on other releases.
_MOST_FORMS = 8
_EDIT: TypeAdapter[Edit] = TypeAdapter(Edit)


@dataclass(frozen=True)
class Trial:
    """Runs candidates on one file of a tree: on that file alone, and then on all of the tree."""

    tree: Tree
    path: str
    final: bytes
    others: OtherFiles

    @cached_property
    def _alone(self) -> View:
        return View(MemoryTree(self.tree.pin, {self.path: b""}))

    @cached_property
    def glob(self) -> str:
        return glob_of(self.path, self.tree)

    def glob_of_text(self, candidate: Candidate) -> str:
        """A glob for the file of an edit by text; a diff has the path in itself."""
        texts = [text for pair in candidate.texts for text in pair]
        return glob_of_texts(self.path, self.tree, texts)

    def bound(self, candidate: Candidate) -> Sequence[BoundEdit] | None:
        """The edits of a candidate on this file alone; None if the vocabulary does not take one."""
        return bound_edits(self._placed(candidate), candidate.files)

    def verdict(self, bound: Sequence[BoundEdit], passage: Passage) -> Verdict | None:
        """Say whether a candidate makes what is wanted of what the file is now.

        It must also find its places in the final file, and leave them alone there.
        """
        after = self._made_of(bound, passage)
        if after is None or after == passage.wanted:
            return None if after is None else "exact"
        return likeness(after, passage.wanted)

    def is_exact(self, bound: Sequence[BoundEdit], passage: Passage) -> bool:
        """Whether the verdict is `exact`; the others take longer to tell."""
        return self._made_of(bound, passage) == passage.wanted

    def _made_of(self, bound: Sequence[BoundEdit], passage: Passage) -> bytes | None:
        check_time()
        after = _run(bound, self._alone.over({self.path: passage.now}), self.path)
        is_idle = after is not None and _is_idle(
            bound, self._alone.over({self.path: passage.final})
        )
        return after if is_idle else None

    def most_lasting(
        self,
        candidates: Iterable[Candidate],
        change: ByteChange,
        scope: Sequence[str] | None,
        *,
        fits: Callable[[Candidate], bool] = lambda _: True,
    ) -> Candidate | None:
        """The candidate that does the same in most of the other releases; the first of several.

        The other releases get what it makes of them, for the next difference. `scope` is the name
        of the definition that all candidates edit; None where they may edit any. `fits` is asked
        of the best one first, as it may take long.
        """
        if not self.others.files:
            return next(filter(fits, candidates), None)
        candidates = iter(candidates)
        are_fit = False
        while forms := self._survivals(candidates, change, scope):
            for candidate, bound, survival in sorted(forms, key=_rank, reverse=True):
                if not are_fit and not fits(candidate):
                    continue
                self.others.files = survival.same
                if scope == () and candidate.kind != "add-import":
                    # Without the name of a definition, the places in all functions count.
                    (whole,) = self.others.survivals([bound], self._alone, change, None)
                    self.others.files = whole.same
                return candidate
            # To try many on other releases takes longer: from here on, only those that fit.
            candidates, are_fit = filter(fits, candidates), True
        return None

    def _survivals(
        self, candidates: Iterator[Candidate], change: ByteChange, scope: Sequence[str] | None
    ) -> list[_Form]:
        """The next candidates with what they make of other releases, up to one that fits all."""
        tried: list[tuple[Candidate, Sequence[BoundEdit]]] = []

        def bound_forms() -> Iterator[Sequence[BoundEdit]]:
            for candidate in itertools.islice(candidates, _MOST_FORMS):
                bound = self.bound(candidate)
                if bound is not None:
                    tried.append((candidate, bound))
                    self.others.tried += 1
                    yield bound

        forms: list[_Form] = []
        for survival in self.others.survivals(bound_forms(), self._alone, change, scope):
            forms.append((*tried[-1], survival))
            if survival.releases == self.others.releases:
                break
        return forms

    def _placed(self, candidate: Candidate) -> list[Declared]:
        """The edits on this file alone; a text of any file stays where it is."""
        placed = [
            {**edit, "files": self.path}
            for edit in candidate.edits
            if edit.keys().isdisjoint(("text", "diff", "add-file"))
        ]
        return placed if len(placed) == len(candidate.edits) else list(candidate.edits)

    def everywhere(self, candidate: Candidate) -> bool:
        """Whether a candidate does the same without `files`: no other file has such a place.

        A name that many files define is given up: to look at all of them takes long, and says
        little of a later release.
        """
        others = self._others_defining(candidate)
        if not others or len(others) > _MOST_NAMESAKES:
            return not others
        bound = bound_edits(candidate.edits, candidate.files)
        elsewhere = View(MemoryTree(self.tree.pin, {p: self.tree.read(p) for p in others}))
        return bound is not None and not any(run_edit(edit, elsewhere).sites for edit in bound)

    def _others_defining(self, candidate: Candidate) -> frozenset[str]:
        """The other files that define what the edits are limited to by name."""
        others: set[str] = set()
        for edit in candidate.edits:
            if "beside" in edit:
                others |= files_defining(str(edit["beside"]), self.tree)
                continue
            owner, _, name = str(edit.get("within") or edit["of"]).partition(".")
            if "within" in edit or name:
                others |= files_with_root(owner, self.tree)
            else:
                others |= files_defining(f"{owner} = ", self.tree)
        return frozenset(others - {self.path})


def _rank(form: _Form) -> tuple[int, int]:
    return form[2].rank


def bound_edits(edits: Sequence[Declared], files: Mapping[str, bytes]) -> list[BoundEdit] | None:
    """Bind edits with files beside the patch; None if the vocabulary does not take them."""
    with scratch_folder() as folder:
        for name, content in files.items():
            (folder / name).write_bytes(content)
        try:
            declared = [_EDIT.validate_json(json.dumps(edit)) for edit in edits]
            return [each for edit in declared for each in bind(edit, folder, NOTHING)]
        except (UsageError, ValidationError):
            return None


def _run(bound: Sequence[BoundEdit], view: View, path: str) -> bytes | None:
    """What the edits make of a file; None if one does not fit, or changes another file.

    Nor does an insert fit whose code is elsewhere in the block: a patch that has no `effect` would
    be a conflict there.
    """
    before = view
    for edit in bound:
        result = run_edit(edit, view)
        if result.mismatch is not None or not result.todo:
            return None
        if any(site.repeat is Repeat.UNUSUAL for site in result.sites):
            return None
        view = result.view
    changed = [name for name in view.files if view.files[name] != before.read(name)]
    return view.read(path) if changed == [path] else None


def _is_idle(bound: Sequence[BoundEdit], view: View) -> bool:
    """Whether edits have nothing left to do in files that have the change, and say so."""
    results = [run_edit(edit, view, carried=True) for edit in bound]
    return not any(result.mismatch or result.todo for result in results)


def likeness(one: bytes, other: bytes, *, docstrings: bool = True) -> Verdict | None:
    """Say how far two files of Python are the same; None if their code is not.

    Without `docstrings`, these may differ as comments may.
    """
    if one == other:
        return "exact"
    codes = [_code_digest(side, docstrings=docstrings) for side in (one, other)]
    if codes[0] is None or codes[0] != codes[1]:
        return None
    comments = [[text for _, text in comments_of(side.decode())] for side in (one, other)]
    same = docstrings and comments[0] == comments[1]
    return "layout" if same else "code"


# Many candidates are compared with the same file.
@lru_cache(maxsize=8)
def _code_digest(content: bytes, *, docstrings: bool) -> bytes | None:
    """A digest of the code of a file, whatever its layout; None of what is not Python."""
    try:
        tree = parsed(content)
        if not docstrings:
            _take_docstrings(tree)
        return hashlib.sha256(ast.dump(tree).encode()).digest()
    except (SyntaxError, ValueError, RecursionError):
        return None


def _take_docstrings(tree: ast.Module) -> None:
    """Take strings that are statements out of all blocks; a block of nothing else gets none."""
    for node in ast.walk(tree):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list):
                block[:] = [one for one in block if not is_docstring(one)]


def same_code(one: bytes, other: bytes) -> bool:
    """Whether two files have the same code, whatever their layout and comments."""
    return likeness(one, other) is not None
