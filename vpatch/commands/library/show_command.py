"""vpatch show: a patch's page."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import click

from vpatch.commands.library.effect import find_effects
from vpatch.commands.library.output import EffectOutput, ShowOutput
from vpatch.commands.library.provenance import provenance
from vpatch.console.common_options import offline_option
from vpatch.console.completion import PATCH_ID, RECIPE_NAME, RELEASE
from vpatch.console.options import json_option, library_options
from vpatch.console.output import echo_code, secho
from vpatch.console.result import CommandResult
from vpatch.declare.patch import describe_upstream
from vpatch.errors import (
    ConflictingOptionsError,
    ExitCode,
    MissingOptionError,
    UnusedOptionError,
    UsageError,
)
from vpatch.util.untrusted import LARGEST_BESIDE, read_file
from vpatch.util.wrapping import line_width, wrapped

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from vpatch.commands.library.effect import PatchEffect
    from vpatch.library.patch import Patch
    from vpatch.workspace.context import Context

_WIDTH = 88
# Beside patch.yaml; shown as it is.
NOTES = "NOTES.md"


@click.command("show")
@click.argument("patch_ids", type=PATCH_ID, metavar="PATCH...", nargs=-1)
@click.option(
    "--diff", "as_diff", is_flag=True, help="Show the diff that the patch makes of a vLLM instead."
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "markdown", "md"]),
    default="text",
    show_default=True,
    help="markdown or md: the provenance of one or more patches.",
)
@click.option(
    "--vllm",
    type=RELEASE,
    metavar="VERSION",
    help="With --diff or --format, the vLLM: a release, or a folder.",
)
@click.option(
    "--recipe",
    type=RECIPE_NAME,
    metavar="NAME",
    help="With --diff or --format, the vLLM and the patches of a recipe.",
)
@offline_option
@library_options
@json_option
def command(
    patch_ids: tuple[str, ...],
    form: str,
    vllm: str | None,
    recipe: str | None,
    context: Context,
    *,
    as_diff: bool,
    as_json: bool,
) -> CommandResult | ExitCode:
    """Show what a patch is for.

    Shows what fails without it, what it changes, and its upstream threads.

    With --diff, show what the patch changes in a vLLM, after the patches that it requires. With
    --recipe, these are the patches before it in the recipe. Ends with 1 if the patch cannot be
    applied there.

    With --format markdown, print a table of provenance for a pull request or a review of licences:
    reason, threads, origin, licence, files, digest and proof. It takes several patches, or --recipe
    for all patches of a recipe. Without --vllm and --recipe, the files are those on record.
    """
    if form != "text":
        if as_json or as_diff:
            other = "--json" if as_json else "--diff"
            raise ConflictingOptionsError(
                f"{other} and --format {form} are two formats", hint="give one of the two"
            )
        return _print_provenance(context, patch_ids, vllm=vllm, recipe=recipe)
    if len(patch_ids) != 1:
        raise MissingOptionError(
            "name one patch" if not patch_ids else "only --format markdown takes several patches",
            hint="give one PATCH: vpatch list shows all",
        )
    patch_id = patch_ids[0]
    patch = context.library.patch(patch_id)
    if not as_diff and (vllm or recipe):
        raise UnusedOptionError(
            f"--{'vllm' if vllm else 'recipe'} would have no effect without --diff",
            hint="give --diff as well",
        )
    if as_diff and not (vllm or recipe):
        raise MissingOptionError(
            "--diff needs a vLLM", hint="give --vllm VERSION, or --recipe NAME"
        )
    effects = find_effects(context, [patch_id], vllm=vllm, recipe=recipe) if as_diff else []
    code = _code_of(effects)
    if as_json:
        shown = [EffectOutput.model_validate(one) for one in effects]
        return CommandResult(ShowOutput.of(patch, shown), code)
    if as_diff:
        for one in effects:
            _print_effect(one)
        return code
    _print_page(patch)
    return ExitCode.CLEAN


def _code_of(effects: Iterable[PatchEffect]) -> ExitCode:
    stops = any(one.decision.state.stops for one in effects)
    return ExitCode.FINDINGS if stops else ExitCode.CLEAN


def _print_provenance(
    context: Context, patch_ids: Sequence[str], *, vllm: str | None, recipe: str | None
) -> ExitCode:
    """Print the tables; the patches of a recipe where none is named."""
    if not patch_ids and recipe is None:
        raise MissingOptionError(
            "no patch is named", hint="give one or more of PATCH, or --recipe NAME"
        )
    effects = find_effects(context, patch_ids, vllm=vllm, recipe=recipe) if vllm or recipe else []
    ids = dict.fromkeys([*patch_ids, *(one.decision.patch.id for one in effects)])
    patches = [context.library.patch(patch_id) for patch_id in ids]
    click.echo(provenance(patches, effects), nl=False)
    return _code_of(effects)


def _print_page(patch: Patch) -> None:
    declaration = patch.declaration
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
    _section("Licence", [declaration.license or ""])
    tested = [f"{p.test} inside vLLM {p.vllm} on {p.engine}" for p in declaration.proof]
    _section("Proof", tested or ["No behaviour test yet."], bullet=True)
    notes = patch.folder / NOTES
    if notes.is_file():
        secho("\nNotes", bold=True)
        # An encoding of another kind must not hide the rest of the page.
        click.echo(_read(notes).decode(errors="backslashreplace").rstrip())
    click.echo(f"\n{patch.digest}\n{patch.folder}")


def _print_effect(effect: PatchEffect) -> None:
    """Print the diff, below lines that `git apply` and `patch` skip."""
    decision, where = effect.decision, effect.pin.label
    if effect.recipe is not None:
        where = f"{where}, in the recipe {effect.recipe}"
    text = f"{decision.patch.id} is {decision.state} in {where}: {decision.reason}"
    for line in wrapped(text, line_width()):
        click.echo(line)
    for finding in decision.findings if decision.state.stops else ():
        click.echo(f"  {finding.where}: {finding.what}")
    if not effect.diff:
        click.echo("It changes nothing there.")
        return
    echo_code(effect.diff)


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
                min(line_width(), _WIDTH),
                initial_indent="  - " if bullet and number == 0 else rest,
                subsequent_indent=rest,
                break_long_words=False,
                break_on_hyphens=False,
            )
            click.echo(lines)
