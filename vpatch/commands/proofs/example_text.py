"""The part of `vpatch test` that writes examples of patches that are there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from vpatch.commands.proofs.example_records import RecordedExample, record_examples
from vpatch.commands.proofs.output import TestOutput
from vpatch.console.output import style
from vpatch.console.result import CommandResult
from vpatch.errors import ExitCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vpatch.library.patch import Patch
    from vpatch.workspace.context import Context


def record(
    context: Context, patches: Sequence[Patch], releases: Sequence[str] | None, *, as_json: bool
) -> CommandResult | ExitCode:
    """Write examples of some patches, and say which could not be written."""
    recorded: list[RecordedExample] = []
    for one in record_examples(context, patches, releases):
        recorded.append(one)
        if not as_json:
            verdict = "wrote" if one.why_not is None else style("left out", fg="red")
            why = "" if one.why_not is None else f": {one.why_not}"
            click.echo(f"{verdict}  {one.patch.id}  {one.name}{why}")
    code = ExitCode.FINDINGS if any(one.why_not for one in recorded) else ExitCode.CLEAN
    return CommandResult(TestOutput.of_recorded_examples(recorded), code) if as_json else code
