"""The result of `tiny-model`."""

from __future__ import annotations

from pathlib import Path

from vpatch.console.document import OutputModel


class TinyModelFileOutput(OutputModel):
    name: str
    digest: str
    bytes: int


class TinyModelOutput(OutputModel):
    """The result of `vpatch tiny-model`."""

    kind: str
    folder: Path
    """The absolute path."""
    files: list[TinyModelFileOutput]
    server: list[str]
    """The words of a command that serves the model."""
    drafts: list[str]
    """The words to add to it for drafts of the MTP head."""
    call: str
    """The call that loads the model in a script."""
    environment: dict[str, str]
    """The environment variables to set on a CPU."""
    needs: str | None
    """What the model needs to run, if not every vLLM runs it."""
