"""How an image is built."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vpatch.image.context import EPOCH

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from vpatch.source.pip_settings import PipSettings


@dataclass(frozen=True)
class BuildSettings:
    """How to build. `certificates` are PEM files that pip is to trust in a cpu build.

    `network` is as `docker build --network` takes it; the overlay itself needs none. `arguments`
    are for vLLM's own Dockerfile, or for the one with its CPU build. `epoch` is the time of all
    files that a build writes. `labels` are those of the image beside what its lock says.
    """

    pip: PipSettings
    network: str | None = None
    platform: str | None = None
    secrets: Sequence[str] = ()
    certificates: Sequence[Path] = ()
    arguments: Mapping[str, str] = field(default_factory=dict)
    no_cache: bool = False
    epoch: int = EPOCH
    labels: Mapping[str, str] = field(default_factory=dict)
