"""vpatch show: a patch's page."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import click

from vpatch.commands.library.output import ShowOutput
from vpatch.console.options import json_option, library_options
from vpatch.console.output import secho
from vpatch.console.result import CommandResult
from vpatch.declare.patch import describe_upstream
from vpatch.errors import ExitCode, UsageError
from vpatch.util.untrusted import LARGEST_BESIDE, read_file

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from vpatch.workspace.context import Context

_WIDTH = 88
# Beside patch.yaml; shown as it is.
NOTES = "NOTES.md"


@click.command("show")
@click.argument("patch_id", metavar="PATCH")
@library_options
@json_option
def command(patch_id: str, context: Context, *, as_json: bool) -> CommandResult | ExitCode:
    """Show a patch: what fails without it, what it changes, and its upstream threads."""
    patch = context.library.patch(patch_id)
    declaration = patch.declaration
    if as_json:
        return CommandResult(ShowOutput.of(patch))
    secho(declaration.id, bold=True)
    click.echo(declaration.title)
    _section("Why", [declaration.why])
    _section("Symptoms", declaration.symptoms, bullet=True)
    for variant in patch.variants:
        name = f"Edits of the variant {variant.name}" if variant.name else "Edits"
        _section(name, [edit.name for edit in variant.edits], bullet=True)
    _section("Risks", [declaration.risks or "No risk is known."])
    claims = [f"{tree} {claim}" for tree, claim in declaration.needed_in.items()]
    _section("Needed in, as declared", claims, bullet=True)
    _section("Taken on request only", [declaration.on_request or ""])
    _section("Requires", declaration.requires, bullet=True)
    _section("Excludes", declaration.conflicts, bullet=True)
    threads = [describe_upstream(thread) for thread in declaration.upstream]
    _section("Upstream", threads or ["No thread is known."], bullet=True)
    _section("Remove when", [declaration.remove_when])
    tested = [f"{p.test} inside vLLM {p.vllm} on {p.engine}" for p in declaration.proof]
    _section("Proof", tested or ["No behaviour test yet."], bullet=True)
    notes = patch.folder / NOTES
    if notes.is_file():
        secho("\nNotes", bold=True)
        # An encoding of another kind must not hide the rest of the page.
        click.echo(_read(notes).decode(errors="backslashreplace").rstrip())
    click.echo(f"\n{patch.digest}\n{patch.folder}")
    return ExitCode.CLEAN


def _read(notes: Path) -> bytes:
    try:
        return read_file(notes, LARGEST_BESIDE)
    except OSError as error:
        raise UsageError(
            f"the notes cannot be read: {error.strerror}",
            where=str(notes),
            hint="correct or remove it",
            code="library.unreadable-notes",
        ) from error


def _section(title: str, texts: Sequence[str], *, bullet: bool = False) -> None:
    if not any(texts):
        return
    secho(f"\n{title}", bold=True)
    for text in texts:
        for number, paragraph in enumerate(text.strip().split("\n\n")):
            rest = "    " if bullet else "  "
            if number:
                click.echo()
            lines = textwrap.fill(
                " ".join(paragraph.split()),
                _WIDTH,
                initial_indent="  - " if bullet and number == 0 else rest,
                subsequent_indent=rest,
                break_long_words=False,
                break_on_hyphens=False,
            )
            click.echo(lines)
