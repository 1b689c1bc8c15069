"""The results of `import` and `new`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

from pydantic import AliasPath, Field

from vpatch.commands.edit.output import RefreshedPatchOutput
from vpatch.console.document import OutputModel, read_from
from vpatch.planning.state import State

if TYPE_CHECKING:
    from vpatch.commands.importing.update.usecase import UpdatedPatch


class TextualEditOutput(OutputModel):
    """An edit that goes by text, as none by meaning gives the same."""

    path: str
    line: int = Field(validation_alias=AliasPath("lines", 0))
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
    line: int = Field(validation_alias=AliasPath("lines", 0))
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
    where: str = read_from("draft.change.where")
    """The place in the source."""
    gives: Literal["exact", "layout", "code"] = read_from("proof.gives")
    """What it makes of the release: the bytes of the source, its code and comments in another
    layout, or its code alone."""
    python_hunks: int = read_from("draft.counts.python")
    hunks_by_meaning: int = read_from("draft.counts.by_meaning")
    """Of the hunks of Python files, those that edits by meaning say."""
    other_hunks: int = read_from("draft.counts.others")
    edits: dict[str, int] = read_from("draft.counts.kinds")
    """How many edits of each kind there are."""
    as_text: list[TextualEditOutput] = read_from("draft.by_text")
    left_out: list[LeftOutChangeOutput] = read_from("draft.left_out")
    aside: list[AsideOutput] = read_from("draft.change.aside")
    requires: list[str]
    upstreamed_in: str | None
    """The release of `--vllm`, if it has the change already."""
    doubts: list[str] = read_from("draft.change.doubts")
    """Places where the source says two things, so that the command ends with 1."""
    notes: list[str]
    """Sentences for people."""
    printed: list[str] = read_from("draft.change.printed")
    """With `--from-script`, the last lines that the script printed."""
    releases: list[OnReleaseOutput]


class LiftedEditOutput(OutputModel):
    """An edit by text, and what `--lift` made of it."""

    path: str
    line: int
    """The first line that it changes, from 1."""
    kind: Literal["text", "diff"]
    becomes: dict[str, int]
    """How many edits of each kind are in its place; none if it stays."""
    why: list[str] = read_from("reasons")
    """Why it stays, or a part of it is still text: sentences for people."""


class LiftedPatchOutput(OutputModel):
    """What `--lift` made of a patch."""

    id: str
    folder: Path
    version: str
    """The release by which it was lifted and proven."""
    edits: list[LiftedEditOutput]
    removed: list[str]
    """Files beside the patch that no edit uses any more."""


class UpdatedPatchOutput(RefreshedPatchOutput):
    """What `--update` made of a patch, as `vpatch refresh` says it."""

    new: str
    """A diff: what the patch makes of the release now, beside what it made before."""
    imported: ImportedPatchOutput
    """What an import of the source alone would be. Nothing of it is written."""


class ImportOutput(OutputModel):
    """The result of `vpatch import`."""

    patches: list[ImportedPatchOutput]
    lifted: LiftedPatchOutput | None = None
    """With `--lift` alone; then nothing is imported."""
    updated: UpdatedPatchOutput | None = None
    """With `--update` alone."""

    @classmethod
    def of_updated(cls, updated: UpdatedPatch) -> Self:
        """What `--update` did: models of `vpatch refresh`, with what is new in the source."""
        diff, new = (
            b"".join(lines).decode(errors="replace") for lines in (updated.patch.diff, updated.new)
        )
        shown = {**vars(updated.patch), "diff": diff, "new": new, "imported": updated.imported}
        return cls(patches=[], updated=UpdatedPatchOutput.model_validate(shown))


class NewOutput(OutputModel):
    """The result of `vpatch new`."""

    id: str
    folder: Path
    test: Path | None
    """The behaviour test to fill in; null without `--test`."""
