"""The part of `vpatch test` that records the code that patches are known on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from vpatch.commands.proofs.output import TestOutput
from vpatch.commands.proofs.releases_to_record import VLLM
from vpatch.commands.proofs.shape_records import record_shapes
from vpatch.console.output import style
from vpatch.console.result import CommandResult
from vpatch.errors import ExitCode
from vpatch.util.plural import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vpatch.commands.proofs.shape_records import RecordedShapes
    from vpatch.library.patch import Patch
    from vpatch.workspace.context import Context


def record(
    context: Context, patches: Sequence[Patch], vllm: str | None, *, as_json: bool
) -> CommandResult | ExitCode:
    """Record the shapes of some patches, and say which releases have none."""
    recorded: list[RecordedShapes] = []
    for one in record_shapes(context, patches, vllm):
        recorded.append(one)
        if not as_json:
            _print(one)
    code = ExitCode.FINDINGS if any(one.left_out for one in recorded) else ExitCode.CLEAN
    return CommandResult(TestOutput.of_shapes(recorded), code) if as_json else code


def _print(one: RecordedShapes) -> None:
    for tree, shapes in one.shapes.shapes.items():
        releases = sum(len(shape.releases) for shape in shapes)
        named = f"{counted(len(shapes), 'shape')} in {counted(releases, 'release')}"
        click.echo(f"recorded  {one.patch.id}  {named}{'' if tree == VLLM else f' of {tree}'}")
    for conflicting in one.left_out:
        verdict = style("left out", fg="red")
        state, reason = conflicting.decision.state, conflicting.decision.reason.partition("\n")[0]
        name = "vLLM" if conflicting.tree == VLLM else conflicting.tree
        place = f"{one.patch.id}  {name} {conflicting.release}"
        click.echo(f"{verdict}  {place}: {state}: {reason}")
