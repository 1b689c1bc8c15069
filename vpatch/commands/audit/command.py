"""vpatch audit: which security advisories concern a vLLM, read from its code."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vpatch.commands.audit.author import Author
from vpatch.commands.audit.documents import AUTHORED, FORMATS, VEX_REPOSITORY, document_of
from vpatch.commands.audit.table import print_audit, print_feed
from vpatch.commands.audit.usecase import AuditRequest, audit
from vpatch.commands.audit.usecase import update as take_advisories
from vpatch.console.common_options import offline_option
from vpatch.console.completion import RECIPE_NAME, RELEASES
from vpatch.console.options import (
    ALL_RELEASES,
    author_option,
    every_release_option,
    json_option,
    library_options,
)
from vpatch.console.renamed_options import renamed_option
from vpatch.console.result import CommandResult
from vpatch.errors import BadValueError, ConflictingOptionsError, ExitCode, UnusedOptionError
from vpatch.library.cvss import SEVERITIES
from vpatch.util.extras import require

if TYPE_CHECKING:
    from vpatch.workspace.context import Context


@click.command("audit")
@click.option(
    "--vllm",
    type=RELEASES,
    metavar="VERSION",
    help="A release, several with commas, all (from 0.20 on), or another source.",
)
@every_release_option
@click.option("--recipe", type=RECIPE_NAME, metavar="NAME", help="What this recipe would build.")
@click.option(
    "--checkout",
    type=click.Path(path_type=Path),
    help="A checkout that `vpatch apply` wrote.",
)
@click.option("--python", metavar="PYTHON", help="The vLLM that this Python has.")
@click.option("--image", metavar="TAG", help="An image; one that vpatch built is verified first.")
@click.option("--wheel", metavar="FILE|URL", help="A wheel of vLLM, whoever built it.")
@click.option(
    "--advisories",
    metavar="FILE|DIR|URL",
    help="Newer advisories in the OSV format: a file, a folder or a zip of files, or a URL.",
)
@click.option(
    "--update",
    is_flag=True,
    help="Take advisories into your folder first: those of --advisories, or osv.dev's.",
)
@click.option(
    "--fail-on",
    type=click.Choice(SEVERITIES),
    default=SEVERITIES[0],
    show_default=True,
    help="End with 1 only for advisories of at least this severity.",
)
@renamed_option(
    "--count-untested",
    "trust_untested",
    old="--trust-untested",
    is_flag=True,
    help="Count a patch as a fix even if no behaviour test has run on this code.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", *FORMATS, VEX_REPOSITORY]),
    default="text",
    show_default=True,
    help="What to print; vex-repository writes a folder for scanners to --output-dir.",
)
@click.option(
    "--output-dir",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Folder for vex-repository; what it says of other versions stays.",
)
@click.option("--url", help="Where you will publish --output-dir, for vex-repository.json in it.")
@author_option
@offline_option
@library_options
@json_option
def command(
    context: Context,
    vllm: str | None,
    fail_on: str,
    form: str,
    output_dir: Path | None,
    url: str | None,
    author: str | None,
    *,
    update: bool,
    every: bool,
    as_json: bool,
    **options: Any,
) -> CommandResult | ExitCode:
    """List which security advisories concern a vLLM.

    vpatch reads the answer from the code, not from the version. Each advisory that has a patch in
    `patches/security/`, or in your project, gets the state of this patch. The others are `unknown`
    if their range has the version.

    `fixed` needs proof: upstream's own code, or a behaviour test of the patch on exactly this code.
    Without proof, an advisory is `under investigation`.

    A project may accept advisories for a time, in `accepted-advisories.yaml`. The audit shows them,
    and they count again after their day.

    Ends with 1 if an advisory affects the vLLM, unless a patch cures it there or the project
    accepts it.
    """
    if as_json and form != "text":
        raise ConflictingOptionsError(
            f"--json and --format {form} are two formats", hint="give one of the two"
        )
    if author is not None and form not in AUTHORED:
        raise UnusedOptionError(
            "--author would have no effect here",
            hint=f"give --format {' or '.join(AUTHORED)}, or leave it out",
        )
    who = None if author is None else Author.parse(author)
    is_all = vllm == ALL_RELEASES
    versions = tuple(vllm.split(",")) if vllm and not is_all else ()
    _refuse_unused(form, output_dir, url)
    request = AuditRequest(
        versions,
        every=every or is_all,
        with_packages=form == "cyclonedx",
        for_feed=form == VEX_REPOSITORY,
        **options,
    )
    if form != "text" and update and not request.names_something:
        raise UnusedOptionError(
            f"--format {form} has no effect, since nothing is audited",
            hint="give --vllm, --recipe, --checkout, --python, --image or --wheel as well",
        )
    if update:
        result = take_advisories(context, request.advisories)
        request = replace(request, advisories=None)
    if request.names_something or not update:
        result = audit(context, request)
    code = ExitCode.FINDINGS if result.has_open(fail_on) else ExitCode.CLEAN
    if as_json:
        from vpatch.commands.audit.output import AuditOutput  # noqa: PLC0415 - models load slowly

        return CommandResult(AuditOutput.model_validate(result), code)
    if form == "text":
        print_audit(result)
    elif output_dir is not None:
        from vpatch.commands.audit.vex_repository import write_feed  # noqa: PLC0415 - an extra has its parts

        print_feed(write_feed(result, output_dir, url, who), output_dir)
    else:
        click.echo(document_of(result, form, author=who), nl=False)
    return code


def _refuse_unused(form: str, output_dir: Path | None, url: str | None) -> None:
    if form == VEX_REPOSITORY:
        require("audit", f"--format {form}")
        if output_dir is None:
            raise ConflictingOptionsError(
                f"--format {form} writes a folder", hint="name it with --output-dir DIR"
            )
        if url is not None and not url.startswith("https://"):
            raise BadValueError(
                f"--url {url} is not a URL that scanners read", hint="give one with https://"
            )
        return
    for option, value in (("--output-dir", output_dir), ("--url", url)):
        if value is not None:
            raise UnusedOptionError(
                f"{option} has an effect only with --format {VEX_REPOSITORY}",
                hint=f"add it, or leave out {option}",
            )
