"""The result of `source`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from vpatch.console.document import OutputModel, read_from


class SourceOutput(OutputModel):
    """The result of `vpatch source`."""

    folder: Path
    outcome: Literal["created", "unchanged"]
    tree: str = read_from("pin.tree")
    """The tree that it is a checkout of, such as vllm."""
    version: str | None = read_from("pin.version")
    ref: str | None = read_from("pin.ref")
    """Of a commit, the tag or the commit that was asked for."""
    origin: str = read_from("pin.origin")
    """The archive, the repository or the folder that it was made from."""
    digest: str = read_from("pin.digest")
    base: str
    """The commit of the tree as it was published."""
