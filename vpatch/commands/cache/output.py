"""The results of `cache list`, `cache clear` and `engine`."""

from __future__ import annotations

from pathlib import Path

from vpatch.console.document import OutputModel, read_from


class CachedTreeOutput(OutputModel):
    tree: str = read_from("label")
    """The name that `vpatch cache clear` takes."""
    digest: str
    bytes: int = read_from("size")


class CachedEngineOutput(OutputModel):
    engine: str
    """The name that `vpatch cache clear` takes."""
    bytes: int


class CachedOverlayOutput(OutputModel):
    overlay: str = read_from("name")
    """The name that `vpatch cache clear` takes."""
    bytes: int = read_from("size")
    kept: bool = read_from("is_kept")
    """Whether `vpatch run --print-env` printed its path: it goes only if it is named."""


class CachedKindOutput(OutputModel):
    kind: str
    """The name that `vpatch cache clear` takes."""
    bytes: int


class CacheListOutput(OutputModel):
    """The result of `vpatch cache list`. Sizes are in bytes, as the disk has them."""

    folder: Path
    trees: list[CachedTreeOutput]
    engines: list[CachedEngineOutput]
    overlays: list[CachedOverlayOutput]
    others: list[CachedKindOutput]
    """What else is kept, such as answers of GitHub."""


class CacheClearOutput(OutputModel):
    """The result of `vpatch cache clear`."""

    freed_bytes: int


class EngineOutput(OutputModel):
    """The result of `vpatch engine`."""

    python: Path
    """The Python in which vLLM is installed."""
    package: Path
    """The folder of the package vllm."""
    kind: str
    """`cpu` or `cuda`."""
    vllm: str = read_from("version")
    """The version of vLLM."""
