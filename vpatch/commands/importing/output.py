"""The results of `import` and `new`."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

from vpatch.console.document import OutputModel
from vpatch.planning.state import State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vpatch.commands.importing.lift import LiftedEdit
    from vpatch.commands.importing.lift_usecase import LiftedPatch
    from vpatch.commands.importing.request import ImportedPatch


class TextualEditOutput(OutputModel):
    """An edit that goes by text, as none by meaning gives the same."""

    path: str
    line: int
    """The first line that it changes in the file before, from 1."""
    kind: Literal["text", "diff"]
    why: str
    """A sentence for people."""


class AsideOutput(OutputModel):
    """A file of the source that is not in the patch."""

    path: str
    hunks: int
    why: str
    """A sentence for people."""
    lost: bool
    """Whether it may matter, so that the command ends with 1."""


class LeftOutChangeOutput(OutputModel):
    """A change of comments alone, which the patch does not make."""

    path: str
    line: int
    """Its first line in the file before, from 1."""
    why: str
    """A sentence for people."""


class OnReleaseOutput(OutputModel):
    """What the patch means for another release, beside git."""

    version: str
    state: State
    reason: str
    """A sentence for people."""
    git: Literal["applies", "conflicts", "no such file"]
    """What `git apply -3` makes of the original diff."""


class ImportedPatchOutput(OutputModel):
    """A patch that was imported."""

    id: str
    folder: Path
    where: str
    """The place in the source."""
    gives: Literal["exact", "layout", "code"]
    """What it makes of the release: the bytes of the source, its code and comments in another
    layout, or its code alone."""
    python_hunks: int
    hunks_by_meaning: int
    """Of the hunks of Python files, those that edits by meaning say."""
    other_hunks: int
    edits: dict[str, int]
    """How many edits of each kind there are."""
    as_text: list[TextualEditOutput]
    left_out: list[LeftOutChangeOutput]
    aside: list[AsideOutput]
    requires: list[str]
    upstreamed_in: str | None
    """The release of `--vllm`, if it has the change already."""
    doubts: list[str]
    """Places where the source says two things, so that the command ends with 1."""
    notes: list[str]
    """Sentences for people."""
    printed: list[str]
    """With `--run`, the last lines that the script printed."""
    releases: list[OnReleaseOutput]

    @classmethod
    def of(cls, one: ImportedPatch) -> Self:
        draft = one.draft
        return cls(
            id=one.id,
            folder=one.folder,
            where=draft.change.where,
            gives=one.proof.gives,
            python_hunks=draft.counts.python,
            hunks_by_meaning=draft.counts.by_meaning,
            other_hunks=draft.counts.others,
            edits=dict(draft.counts.kinds),
            as_text=[
                TextualEditOutput.model_validate(
                    {"path": e.path, "line": e.lines[0], "kind": e.kind, "why": e.why}
                )
                for e in draft.derived
                if e.why is not None
            ],
            left_out=[
                LeftOutChangeOutput(path=e.path, line=e.lines[0], why=str(e.why))
                for e in draft.left_out
            ],
            aside=[AsideOutput.model_validate(left) for left in draft.change.aside],
            requires=list(one.requires),
            upstreamed_in=one.upstreamed_in,
            doubts=list(draft.change.doubts),
            notes=[*draft.change.notes, *one.notes],
            printed=list(draft.change.printed),
            releases=[OnReleaseOutput.model_validate(release) for release in one.releases],
        )


class LiftedEditOutput(OutputModel):
    """An edit by text, and what `--lift` made of it."""

    path: str
    line: int
    """The first line that it changes, from 1."""
    kind: Literal["text", "diff"]
    becomes: dict[str, int]
    """How many edits of each kind are in its place; none if it stays."""
    why: list[str]
    """Why it stays, or a part of it is still text: sentences for people."""

    @classmethod
    def of(cls, edit: LiftedEdit) -> Self:
        lifted = edit.assembled is not None
        kinds = Counter(each.kind for each in edit.derived) if lifted else {}
        reasons = [each.why for each in edit.derived if each.why is not None] if lifted else []
        return cls.model_validate(
            {
                "path": edit.path,
                "line": edit.line,
                "kind": edit.kind,
                "becomes": dict(kinds),
                "why": reasons if lifted else [str(edit.why)],
            }
        )


class LiftedPatchOutput(OutputModel):
    """What `--lift` made of a patch."""

    id: str
    folder: Path
    version: str
    """The release by which it was lifted and proven."""
    edits: list[LiftedEditOutput]
    removed: list[str]
    """Files beside the patch that no edit uses any more."""

    @classmethod
    def of(cls, one: LiftedPatch) -> Self:
        return cls(
            id=one.id,
            folder=one.folder,
            version=one.version,
            edits=[LiftedEditOutput.of(edit) for edit in one.edits],
            removed=list(one.removed),
        )


class ImportOutput(OutputModel):
    """The result of `vpatch import`."""

    patches: list[ImportedPatchOutput]
    lifted: LiftedPatchOutput | None = None
    """With `--lift` alone; then nothing is imported."""

    @classmethod
    def of(cls, made: Sequence[ImportedPatch]) -> Self:
        return cls(patches=[ImportedPatchOutput.of(one) for one in made])


class NewOutput(OutputModel):
    """The result of `vpatch new`."""

    id: str
    folder: Path
