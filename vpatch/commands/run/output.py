"""The result of `run`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import BeforeValidator

from vpatch.console.document import OutputModel, read_from

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vpatch.engine.command import FoundCommand


class RunPatchOutput(OutputModel):
    patch: str
    state: str
    """What the patch means for this release; `needed` patches are in the overlay."""


def _words(command: FoundCommand | None) -> list[str]:
    return [] if command is None else [str(command.program), *command.words[1:]]


def _patches(states: Iterable[tuple[str, str]]) -> list[RunPatchOutput]:
    return [RunPatchOutput(patch=patch, state=state) for patch, state in states]


class RunOutput(OutputModel):
    """The result of `vpatch run --dry-run` and `vpatch run --print-env`."""

    command: Annotated[list[str], BeforeValidator(_words)]
    """The program's path and its arguments; empty if no command was given."""
    python: Path
    """The Python whose vLLM is the base."""
    vllm: str = read_from("record.version")
    """The version of the installed vLLM, with its local part."""
    package: Path = read_from("record.package")
    """The folder of the installed package."""
    recipe: str | None = read_from("record.recipe")
    patches: Annotated[list[RunPatchOutput], BeforeValidator(_patches)] = read_from("record.states")
    files: list[str]
    """The files that the overlay replaces or adds, by their paths in the tree."""
    overlay: str = read_from("record.overlay")
    """The name that `vpatch cache clear` takes."""
    overlay_is_made: bool = read_from("is_made")
    environment: dict[str, str] = read_from("variables")
    """What the command is given beside your own environment."""
