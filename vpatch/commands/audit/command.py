"""vpatch audit: which security advisories concern a vLLM, read from its code."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vpatch.commands.audit.documents import FORMATS, document_of
from vpatch.commands.audit.table import print_audit
from vpatch.commands.audit.usecase import AuditRequest, audit
from vpatch.console.options import json_option, library_options, offline_option
from vpatch.console.result import CommandResult
from vpatch.errors import ConflictingOptionsError, ExitCode
from vpatch.library.advisories import SEVERITIES

if TYPE_CHECKING:
    from vpatch.workspace.context import Context


@click.command("audit")
@click.option("--vllm", metavar="VERSION", help="A release, several with commas, or a folder.")
@click.option("--all", "every", is_flag=True, help="Every release of vLLM from 0.20 on.")
@click.option("--recipe", metavar="NAME", help="What this recipe would build.")
@click.option(
    "--checkout",
    type=click.Path(path_type=Path),
    help="A checkout that `vpatch apply` wrote.",
)
@click.option("--python", metavar="PYTHON", help="The vLLM that this Python has.")
@click.option("--image", metavar="TAG", help="An image that vpatch built; it is verified first.")
@click.option(
    "--advisories",
    metavar="FILE|DIR|URL",
    help="Newer advisories in the OSV format: a file, a folder or a zip of files, or a URL.",
)
@click.option(
    "--fail-on",
    type=click.Choice(SEVERITIES),
    default=SEVERITIES[0],
    show_default=True,
    help="End with 1 only for advisories of at least this severity.",
)
@click.option(
    "--trust-untested",
    is_flag=True,
    help="Count a patch as a fix even if no behaviour test has run on this code.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", *FORMATS]),
    default="text",
    show_default=True,
    help="What to print.",
)
@offline_option
@library_options
@json_option
def command(
    context: Context,
    vllm: str | None,
    fail_on: str,
    form: str,
    *,
    as_json: bool,
    **options: Any,
) -> CommandResult | ExitCode:
    """List which security advisories concern a vLLM, and why.

    vpatch reads the answer from the code, not from the version. Each advisory that has a patch in
    `patches/security/`, or in your project, gets the state of this patch. The others are `unknown`
    if their range has the version.

    `fixed` needs proof: upstream's own code, or a behaviour test of the patch on exactly this code.
    Without proof, an advisory is `under investigation`.

    Ends with 1 if an advisory affects the vLLM and no patch cures it there.
    """
    if as_json and form != "text":
        raise ConflictingOptionsError(
            f"--json and --format {form} are two formats", hint="give one of the two"
        )
    versions = tuple(vllm.split(",")) if vllm else ()
    result = audit(context, AuditRequest(versions, **options))
    code = ExitCode.FINDINGS if result.has_open(fail_on) else ExitCode.CLEAN
    if as_json:
        from vpatch.commands.audit.output import AuditOutput  # noqa: PLC0415 - models load slowly

        return CommandResult(AuditOutput.model_validate(result), code)
    if form == "text":
        print_audit(result)
    else:
        click.echo(document_of(result, form), nl=False)
    return code
