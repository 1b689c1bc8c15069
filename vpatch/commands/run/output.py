"""The result of `run`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Self

from vpatch.console.document import OutputModel

if TYPE_CHECKING:
    from vpatch.commands.run.usecase import PatchedRun


class RunPatchOutput(OutputModel):
    patch: str
    state: str
    """What the patch means for this release; `needed` patches are in the overlay."""


class RunOutput(OutputModel):
    """The result of `vpatch run --check` and `vpatch run --print-env`."""

    command: list[str]
    """The program's path and its arguments; empty if no command was given."""
    python: Path
    """The Python whose vLLM is the base."""
    vllm: str
    """The version of the installed vLLM, with its local part."""
    package: Path
    """The folder of the installed package."""
    recipe: str | None
    patches: list[RunPatchOutput]
    files: list[str]
    """The files that the overlay replaces or adds, by their paths in the tree."""
    overlay: str
    """The name that `vpatch cache clear` takes."""
    overlay_is_made: bool
    environment: dict[str, str]
    """What the command is given beside your own environment."""

    @classmethod
    def of(cls, found: PatchedRun) -> Self:
        record, command = found.record, found.command
        words = [] if command is None else [str(command.program), *command.words[1:]]
        return cls(
            command=words,
            python=found.python,
            vllm=record.version,
            package=record.package,
            recipe=record.recipe,
            patches=[RunPatchOutput(patch=patch, state=state) for patch, state in record.states],
            files=found.files,
            overlay=record.overlay,
            overlay_is_made=found.is_made,
            environment=dict(found.variables),
        )
