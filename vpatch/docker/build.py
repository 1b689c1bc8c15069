"""What an engine is to build."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


@dataclass(frozen=True)
class Build:
    """What to build. `network` is as `docker build --network` takes it; None is the engine's own.

    `secrets` are as `docker build --secret` takes them, and need BuildKit.
    """

    context: Path
    dockerfile: Path
    arguments: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    network: str | None = None
    platform: str | None = None
    secrets: Sequence[str] = ()
    target: str | None = None
    no_cache: bool = False


class BuildListener(Protocol):
    """Hears what a build does while it runs."""

    def step(self, name: str) -> None:
        """Hear that a step of the Dockerfile begins; it may be told twice."""

    def line(self, text: str) -> None:
        """Hear a line of what a step says."""
