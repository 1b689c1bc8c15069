"""The results of `cache list`, `cache clear` and `engine`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Self

from vpatch.console.document import OutputModel

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from vpatch.engine.environment import Engine
    from vpatch.engine.overlay_cache import OverlayEntry
    from vpatch.source.cache import CacheEntry


class CachedTreeOutput(OutputModel):
    tree: str
    """The name that `vpatch cache clear` takes."""
    digest: str
    bytes: int


class CachedEngineOutput(OutputModel):
    engine: str
    """The name that `vpatch cache clear` takes."""
    bytes: int


class CachedOverlayOutput(OutputModel):
    overlay: str
    """The name that `vpatch cache clear` takes."""
    bytes: int
    kept: bool
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

    @classmethod
    def of(
        cls,
        folder: Path,
        trees: Iterable[CacheEntry],
        engines: Mapping[str, int],
        overlays: Iterable[OverlayEntry],
        kinds: Mapping[str, int],
    ) -> Self:
        return cls(
            folder=folder,
            trees=[CachedTreeOutput(tree=e.label, digest=e.digest, bytes=e.size) for e in trees],
            engines=[CachedEngineOutput(engine=name, bytes=n) for name, n in engines.items()],
            overlays=[
                CachedOverlayOutput(overlay=one.name, bytes=one.size, kept=one.is_kept)
                for one in overlays
            ],
            others=[CachedKindOutput(kind=kind, bytes=n) for kind, n in kinds.items()],
        )


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
    vllm: str
    """The version of vLLM."""

    @classmethod
    def of(cls, engine: Engine) -> Self:
        return cls(
            python=engine.python, package=engine.package, kind=engine.kind, vllm=engine.version
        )
