"""The result of `status`."""

from __future__ import annotations

from vpatch.console.document import OutputModel, Sorted
from vpatch.console.plans import TreeOutput


class StatusTreeOutput(TreeOutput):
    """The same, compared with the vLLM that the recipe pins."""

    changed: Sorted | None = None
    """The patches whose code upstream changed since the vLLM that the recipe pins; null without
    a recipe, and if its vLLM is this one or is not asked for. Only patches that both need count."""


class StatusOutput(OutputModel):
    """The result of `vpatch status`."""

    trees: list[StatusTreeOutput]
