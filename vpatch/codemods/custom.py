"""An edit written in libcst itself: a `codemod.py` beside the patch, under the same promises."""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from types import ModuleType
from typing import TYPE_CHECKING

import libcst as cst

from vpatch.codemods.base import EditOutcome, SiteTransformer
from vpatch.codemods.inputs import Inputs, compiled, fresh, inputs_of
from vpatch.codemods.plain import plain_kinds, run_plain
from vpatch.errors import UsageError, VpatchError
from vpatch.trust.decision import UntrustedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from vpatch.codemods.extent import Extents
    from vpatch.codemods.pattern import Pattern
    from vpatch.codemods.scope import Scope
    from vpatch.trust.decision import Trust


class CodemodError(UsageError):
    """A codemod.py that fails, or that breaks a promise of codemods."""

    code = "codemods.broken-codemod"


@dataclass(frozen=True)
class Custom:
    """Run the codemod of a Python file: a `SiteTransformer`, or a plain one of libcst.

    A `SiteTransformer` reports each place with `self.add(node, todo=...)`; of a plain codemod, each
    statement that it changes is a place. The count, the second run that changes nothing and the
    post-condition are then checked as for every other edit. The file is executed when the edit runs
    and not before: to list patches must not run their code. It is not executed unless `trust`
    allows it. It is executed anew for each file, and so are the modules that it imports, as far as
    they are its own. So it cannot carry anything from one file to the next.
    """

    source: bytes
    path: Path
    contains: frozenset[bytes]
    place: Scope
    folder: Path
    trust: Trust

    @property
    def needles(self) -> tuple[frozenset[bytes], ...]:
        return (self.contains,)

    @property
    def reading(self) -> None:
        """Not known: it may look at all of a file."""

    @property
    def sought(self) -> Pattern | None:
        return None

    @cached_property
    def inputs(self) -> Inputs:
        """All that decides what it does, and why that may not be known. Nothing of it runs."""
        return inputs_of(self.source, self.path)

    @cached_property
    def refusal(self) -> VpatchError | None:
        """Why the code may not run, or None. Once refused, this edit stays refused."""
        try:
            self.trust.runnable(self.folder, self.path, self.source)
        except VpatchError as error:
            return error
        return None

    @property
    def remembered_as(self) -> str | None:
        """A digest of all that decides what it does to a file, besides the file and its `place`.

        None if it may read more, or if the user has not trusted the code. Then nothing that it once
        found may be used again. vpatch's code and the versions of Python and libcst are not in it.
        """
        return self.inputs.digest if self.refusal is None else None

    @property
    def kind(self) -> type:
        """The codemod of the file, which is executed for it.

        Raises:
            UntrustedError: the user has not trusted the patch's folder.
        """
        refusal = self.__dict__.get("refusal")
        if isinstance(refusal, UntrustedError):
            # What was decided by this answer, such as a name in the cache, must stay true.
            raise refusal
        runs_as = self.trust.runnable(self.folder, self.path, self.source)
        return load_codemod(self.source, self.path, runs_as)

    @property
    def knows_done_places(self) -> bool:
        """Whether it reports places that already are as it makes them."""
        with fresh(self.inputs.modules):
            return issubclass(self.kind, SiteTransformer)

    def apply(self, module: cst.Module, extents: Extents) -> EditOutcome:
        with fresh(self.inputs.modules):
            return self._apply(module, extents)

    def _apply(self, module: cst.Module, extents: Extents) -> EditOutcome:
        kind = self.kind
        if not issubclass(kind, SiteTransformer) and self.place.where:
            hint = "leave it out, or derive the codemod from SiteTransformer"
            raise _broken(self.path, "`where` has no effect on a plain libcst codemod", hint)
        try:
            if issubclass(kind, SiteTransformer):
                outcome = kind(self.place).run(module, extents)
                self._check(outcome, module)
            else:
                outcome = run_plain(kind, module, self.place)
        except VpatchError:
            raise
        except (Exception, SystemExit) as error:  # whatever its author's code may raise
            raise CodemodError(
                f"the codemod fails: {type(error).__name__}: {error}",
                where=self._line_of(error),
                hint="correct the codemod; it gets every file that has all the words of `contains`",
            ) from error
        return outcome

    def _check(self, outcome: EditOutcome, module: cst.Module) -> None:
        """Check that a `SiteTransformer` reports what it does.

        Raises:
            CodemodError: it reports something else.
        """
        for site in outcome.sites:
            if not self.place.admits(site.scope.split(".") if site.scope else (), None):
                there = f"{site.scope or 'the module'}, which is not within {self.place.within}"
                what = f"the codemod reports a place in {there}"
                raise _broken(self.path, what, "skip nodes where self.is_within is False")
        todo = any(site.todo for site in outcome.sites)
        changed = outcome.module.code != module.code
        if changed and not todo:
            # It would be dropped, as the files to write are those with a place to edit.
            hint = "call self.add(node, todo=True) where it changes something"
            raise _broken(self.path, "the codemod changes code without reporting the place", hint)
        if todo and not changed and not any(site.problem for site in outcome.sites):
            what = "the codemod reports a place to change, but changes nothing"
            hint = "return the changed node from edit(), or call self.add(node, todo=False)"
            raise _broken(self.path, what, hint)

    def _line_of(self, error: BaseException) -> str:
        """The last line of the file that an error came through."""
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == str(self.path)]
        return f"{self.path}:{lines[-1]}" if lines else str(self.path)


def load_codemod(source: bytes, path: Path, runs_as: Path) -> type:
    """Execute `source` and return its codemod: the class `Codemod`, or the only public one.

    `path` is where its author has it, and `runs_as` where the files beside it are found.

    Not imported by its path: bytecode that was kept for a file of the same size and time would run
    under a digest that is not its own.

    Raises:
        CodemodError: there is no such class, or the code fails.
    """
    module = ModuleType(f"vpatch_codemod_{path.parent.name}")
    module.__file__ = str(runs_as)
    try:
        exec(compiled(source, path), module.__dict__)  # noqa: S102
    except (Exception, SystemExit) as error:  # whatever its author's code may raise
        what = f"cannot be imported: {type(error).__name__}: {error}"
        hint = "correct the codemod; the Python that runs vpatch executes it"
        raise _broken(path, what, hint) from error
    codemod = _codemod_of(module, path)
    for problem, hint in _problems(codemod):
        raise _broken(path, f"{codemod.__name__} {problem}", hint)
    return codemod


def _broken(path: Path, what: str, hint: str) -> CodemodError:
    return CodemodError(what, where=str(path), hint=hint)


def _codemod_of(module: ModuleType, path: Path) -> type:
    kinds = (SiteTransformer, *plain_kinds())
    own = {
        name: value
        for name, value in vars(module).items()
        if isinstance(value, type)
        and issubclass(value, kinds)
        and value.__module__ == module.__name__
    }
    if "Codemod" in own:
        return own["Codemod"]
    public = [name for name in own if not name.startswith("_")]
    if len(public) == 1:
        return own[public[0]]
    if public:
        what = f"defines several codemods: {', '.join(public)}"
        raise _broken(path, what, "call the one to run Codemod")
    raise _broken(
        path,
        "defines no class Codemod(SiteTransformer)",
        "derive it from vpatch.codemods.SiteTransformer, or from a codemod or transformer of "
        "libcst",
    )


def _problems(kind: type) -> Iterator[tuple[str, str]]:
    """What a codemod defines in vain."""
    hooks = [
        name
        for name in dir(kind)
        if name.startswith(("visit_", "leave_"))
        and getattr(kind, name) is not getattr(cst.CSTTransformer, name, None)
        and not vars(getattr(kind, name))  # a matcher's decorator makes any name a hook
    ]
    if not issubclass(kind, SiteTransformer):
        known = [name for name in dir(cst.CSTTransformer) if name.startswith(("visit_", "leave_"))]
        for name in hooks:
            if issubclass(kind, cst.CSTTransformer) and name not in known:
                near = get_close_matches(name, known, 1)
                yield f"defines {name}, which libcst never calls", f"write {(near or known)[0]}"
        return
    for name in hooks:
        yield (
            f"defines {name}, which is never called",
            "do it in edit(), or derive the class from libcst.codemod.VisitorBasedCodemodCommand",
        )
    if kind.edit is SiteTransformer.edit:
        yield (
            "does not define edit(), so it changes nothing",
            "define edit(self, original, updated)",
        )
    if not _are_nodes(kind.kinds):
        yield (
            "has no `kinds`, so edit() is never called",
            "name the libcst nodes that edit() is to see, as in kinds = (cst.Call,)",
        )


def _are_nodes(kinds: Sequence[type]) -> bool:
    return (
        isinstance(kinds, tuple)
        and bool(kinds)
        and all(isinstance(kind, type) and issubclass(kind, cst.CSTNode) for kind in kinds)
    )
