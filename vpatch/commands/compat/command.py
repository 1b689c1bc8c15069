"""vpatch compat: which of what code outside vLLM takes from it holds in which release."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vpatch.commands.compat.report.text import (
    LISTED,
    difference_lines,
    proposal_lines,
    result_lines,
)
from vpatch.commands.compat.target import read_target
from vpatch.commands.compat.usecase import CompatRequest, compare, compat
from vpatch.console.common_options import offline_option
from vpatch.console.completion import RELEASE, RELEASES
from vpatch.console.options import ALL_RELEASES, every_release_option, json_option, open_context
from vpatch.console.result import CommandResult
from vpatch.errors import ConflictingOptionsError, ExitCode, MissingOptionError, UnusedOptionError
from vpatch.util.extras import require
from vpatch.util.wrapping import line_width
from vpatch.workspace.upstream_history import CommitsFrom

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vpatch.commands.compat.difference import DefinitionDifference
    from vpatch.commands.compat.judgement.verdict import State
    from vpatch.commands.compat.result import CompatResult


@click.command("compat")
@click.argument("target", metavar="TARGET")
@click.option(
    "--vllm",
    type=RELEASES,
    metavar="VERSION",
    help="A release, several with commas, all (from 0.20 on), or another vLLM as `status` takes it"
    "  [default: what TARGET declares, and the latest]",
)
@every_release_option
@click.option(
    "--from", "before", type=RELEASE, metavar="VERSION", help="With --to, the release to leave."
)
@click.option(
    "--to",
    "after",
    type=RELEASE,
    metavar="VERSION",
    help="Show what is new in this release against --from, with vLLM's diff of each definition.",
)
@click.option(
    "--clone",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="PATH",
    help="Name the upstream commits that changed the code, from this clone of vLLM.",
)
@click.option("--github", is_flag=True, help="Name these commits as GitHub knows them.")
@click.option(
    "--supports",
    metavar="RANGE",
    help="What TARGET must fit, such as '>=0.22,<0.25'  [default: its Requires-Dist]",
)
@click.option(
    "--base",
    metavar="VERSION",
    help="The release that TARGET is written for: others are compared with it  "
    "[default: the first one that it declares]",
)
@click.option(
    "--only-breaks",
    is_flag=True,
    help="List what is gone or changed, and not what to look at again.",
)
@click.option(
    "--propose",
    "proposals_to",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write patches of TARGET there, for fields and moved names that a release lacks.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "md", "html", "sarif"]),
    default="text",
    show_default=True,
    help="What to print.",
)
@offline_option
@json_option
def command(  # noqa: C901, PLR0912 - it refuses what has no effect
    target: str,
    vllm: str | None,
    before: str | None,
    after: str | None,
    clone: Path | None,
    supports: str | None,
    base: str | None,
    proposals_to: Path | None,
    form: str,
    *,
    github: bool,
    every: bool,
    only_breaks: bool,
    offline: bool,
    as_json: bool,
) -> CommandResult | ExitCode:
    """Show whether code outside vLLM fits each release.

    TARGET is a folder, a wheel, a Python file, NAME==VERSION of the package index, or
    NAME=env:PYTHON. vpatch parses it, and runs and imports nothing of it.

    Each use of vLLM gets a state in each release. It `holds`, or is `gone` or `changed`, which
    breaks TARGET. `look again` means that the code changed that TARGET replaces or calls.
    `unknown` is what the code does not tell. `not run` is a branch for other releases.

    Ends with 1 if something breaks in a release that TARGET declares.
    """
    if (before is None) != (after is None):
        raise MissingOptionError("--from and --to belong together", hint="give both")
    if before is not None and (vllm or every or base):
        raise UnusedOptionError(
            "--vllm, --all and --base would have no effect with --from and --to",
            hint="leave them out",
        )
    if (clone or github) and before is None:
        raise UnusedOptionError(
            "--clone and --github have no effect without --from and --to", hint="add both"
        )
    if every and vllm:
        raise ConflictingOptionsError(
            "--all and --vllm both name releases", hint="give one of the two"
        )
    if as_json and form != "text":
        raise ConflictingOptionsError(
            f"--json and --format {form} are two formats", hint="give one of the two"
        )
    if form == "sarif" and (only_breaks or before is not None):
        raise UnusedOptionError(
            "--only-breaks, --from and --to have no effect on SARIF", hint="leave them out"
        )
    if proposals_to is not None and (before is not None or form != "text"):
        raise UnusedOptionError(
            "--propose goes with no --from, and with no --format but text", hint="leave them out"
        )
    if form == "html":
        require("bump", "a report in HTML")
    is_all = every or vllm == ALL_RELEASES
    versions = tuple(vllm.split(",")) if vllm and not is_all else ()
    context = open_context(offline=offline)
    own = read_target(context, target)
    differences: Sequence[DefinitionDifference] | None = None
    if before is not None and after is not None:
        commits = CommitsFrom(clone, github)
        commits.refuse(context)
        result, differences = compare(context, own, supports, (before, after), commits)
    else:
        request = CompatRequest(target, versions, is_all, supports, base)
        result = compat(context, own, request)
    proposals = None
    if proposals_to is not None:
        # This needs what applies patches.
        from vpatch.commands.compat.proposals.write import write_proposals  # noqa: PLC0415

        proposals = write_proposals(context, own, result, proposals_to)
    code = ExitCode.FINDINGS if result.has_findings else ExitCode.CLEAN
    if as_json:
        from vpatch.commands.compat.output import compat_output  # noqa: PLC0415 - models load slowly

        return CommandResult(compat_output(result, differences, proposals), code)
    states: tuple[State, ...] = ("gone", "changed") if only_breaks else LISTED
    _print(result, differences, states, form)
    for line in proposal_lines(proposals or ()):
        click.echo(line)
    return code


def _print(
    result: CompatResult,
    differences: Sequence[DefinitionDifference] | None,
    states: Sequence[State],
    form: str,
) -> None:
    if form == "sarif":
        from vpatch.commands.compat.report.sarif import sarif  # noqa: PLC0415 - only this format

        click.echo(sarif(result), nl=False)
    elif form == "html":
        from vpatch.commands.compat.report.page import page  # noqa: PLC0415 - only this format

        click.echo(page(result, states, differences, datetime.now(UTC)), nl=False)
    elif form == "md":
        from vpatch.commands.compat.report.markdown import markdown  # noqa: PLC0415 - only this format

        click.echo(markdown(result, states, differences), nl=False)
    elif differences is not None:
        shown = [
            one
            for one in differences
            if one.item.verdicts[result.releases[-1].label].state in states
        ]
        for line in difference_lines(result, shown, line_width()):
            click.echo(line)
    else:
        for line in result_lines(result, states, line_width()):
            click.echo(line)
