"""The result of `status`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from vpatch.console.document import OutputModel
from vpatch.console.plans import TreeOutput

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vpatch.commands.status.usecase import StatusRow


class StatusTreeOutput(TreeOutput):
    """The same, compared with the vLLM that the recipe pins."""

    changed: list[str] | None = None
    """The patches whose code upstream changed since the vLLM that the recipe pins; null without
    a recipe, and if its vLLM is this one or is not asked for. Only patches that both need count."""

    @classmethod
    def of_row(cls, row: StatusRow) -> Self:
        changed = None if row.changed is None else sorted(row.changed)
        return cls.of(row.plan, row.recipe).model_copy(update={"changed": changed})


class StatusOutput(OutputModel):
    """The result of `vpatch status`."""

    trees: list[StatusTreeOutput]

    @classmethod
    def of(cls, rows: Iterable[StatusRow]) -> Self:
        return cls(trees=[StatusTreeOutput.of_row(row) for row in rows])
