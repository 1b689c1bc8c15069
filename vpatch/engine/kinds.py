"""The kinds of engines that vpatch can make."""

from __future__ import annotations

from typing import Literal

Kind = Literal["cpu", "cuda"]


KINDS: dict[str, Kind] = {"cpu": "cpu", "cuda": "cuda"}
