"""vpatch bump: what a new release means for the patches of recipes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from vpatch.commands.bump.text import (
    print_report,
    print_settled,
    print_unsettled,
    print_written,
)
from vpatch.commands.bump.usecase import BumpOptions, bump
from vpatch.console.common_options import offline_option
from vpatch.console.completion import RECIPE_NAME, RELEASE
from vpatch.console.options import json_option, library_options
from vpatch.console.result import CommandResult
from vpatch.errors import ExitCode, MissingOptionError, UnusedOptionError
from vpatch.workspace.upstream_history import CommitsFrom

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vpatch.commands.bump.conflict.abort import AbortedBump
    from vpatch.commands.bump.conflict.settle import SettledBump
    from vpatch.workspace.context import Context


@click.command("bump")
@click.argument("recipes", nargs=-1, type=RECIPE_NAME, metavar="[RECIPE]...")
@click.option(
    "--to",
    type=RELEASE,
    metavar="VERSION",
    help="The new vLLM: a release (0.33, 0.33.0, latest), a folder, URL@REF or PATH@REF.",
)
@click.option("--diff", is_flag=True, help="Show the code that changed, as diffs.")
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the whole report to FILE.md or FILE.html as well.",
)
@click.option(
    "--clone",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="PATH",
    help="Name the upstream commits that changed the code, from this clone of vLLM.",
)
@click.option("--github", is_flag=True, help="Name these commits as GitHub knows them.")
@click.option("--write", is_flag=True, help="Write the change to a new branch of the project.")
@click.option(
    "--branch", metavar="NAME", help="The branch of --write  [default: vpatch/bump-VERSION]"
)
@click.option("--prune", is_flag=True, help="With --write, remove folders of retired patches.")
@click.option(
    "--engine",
    metavar="cpu|cuda|PYTHON",
    help="The vLLM to test with  [default: one of the new release in the cache, if any]",
)
@click.option("--no-proof", is_flag=True, help="With --write or --continue, test nothing.")
@click.option(
    "--continue", "go_on", is_flag=True, help="Commit what fits now, and settle the recipes."
)
@click.option("--abort", is_flag=True, help="Remove the unsettled branch, and go back.")
@click.option(
    "--pr",
    "pull",
    is_flag=True,
    help="With --write or --continue, push the branch to origin and open a pull request there.",
)
@click.option(
    "--repository",
    metavar="OWNER/NAME",
    help="The repository of the pull request  [default: that of origin]",
)
@offline_option
@library_options
@json_option
def command(
    recipes: tuple[str, ...],
    to: str | None,
    output: Path | None,
    clone: Path | None,
    branch: str | None,
    engine: str | None,
    repository: str | None,
    context: Context,
    *,
    diff: bool,
    github: bool,
    write: bool,
    prune: bool,
    no_proof: bool,
    pull: bool,
    go_on: bool,
    abort: bool,
    as_json: bool,
) -> CommandResult | ExitCode:
    """Show what a new vLLM means for each patch.

    Without RECIPE, these are all recipes of the project. Each patch gets a verdict:

    keep: nothing changed for the patch. retire: upstream has the change. not needed: the code that
    the patch is about is gone. look again: upstream changed code that the patch edits or reads, or
    the patch has a record and the record does not have this code. needs a person: the patch does
    not fit the new release.

    With --diff or --output, the report shows the code of each definition that changed: as it was,
    as the patch makes it, and as it is in the new release.

    With --write, vpatch makes a branch in the git repository of the project. It has the new pins,
    the recipes without retired patches, proposed changes of patches, and new locks where locks are
    committed. No file of the work tree changes. Before, vpatch tests what changed, as vpatch test
    and vpatch smoke do. If a test fails, nothing is written.

    If a patch needs a person, its recipes on the branch are unsettled: no command makes anything
    of them. Check out the branch, and make the patch fit with vpatch edit and vpatch refresh. Then
    --continue commits it, and settles the recipes. --abort goes back to the branch that you had.

    With --pr, vpatch then pushes the branch to origin and opens a pull request with the report.
    Before it writes, it asks for a token and for the repository on GitHub.

    Ends with 1 if a patch needs a person or another look.
    """
    if go_on or abort:
        beside: dict[str, object] = {"--to": to, "--diff": diff, "--output": output}
        beside |= {"--clone": clone, "--github": github, "--write": write, "--branch": branch}
        beside |= {"--prune": prune, "RECIPE": recipes}
        if go_on:
            beside |= {"--abort": abort}
            _refuse_beside("--continue", beside)
            asked = BumpOptions(proof=not no_proof, engine=engine, pull=pull, repository=repository)
            return _continue(context, asked, as_json=as_json)
        beside |= {"--pr": pull, "--repository": repository}
        _refuse_beside("--abort", beside | {"--engine": engine, "--no-proof": no_proof})
        return _abort(context, as_json=as_json)
    if to is None:
        raise MissingOptionError(
            "missing option '--to'", hint="add --to VERSION, such as --to latest"
        )
    if not write:
        _refuse_without_write(
            {
                "--branch": branch,
                "--prune": prune,
                "--engine": engine,
                "--no-proof": no_proof,
                "--pr": pull,
                "--repository": repository,
            }
        )
    options = BumpOptions(branch, prune, not no_proof, engine, pull, repository)
    commits = CommitsFrom(clone, github)
    result = bump(context, recipes, to, commits, output=output, write=options if write else None)
    report, written = result.report, result.written
    if as_json:
        from vpatch.commands.bump.output import BumpOutput  # noqa: PLC0415 - models load slowly

        shown = BumpOutput(
            recipes=report.recipes,
            idle=report.idle,
            written=written,
            pull=result.sent,
            settled=None,
            aborted=None,
        )
        return CommandResult(shown, report.exit_code)
    print_report(report, with_diffs=diff)
    if written is not None and written.unsettled:
        print_unsettled(written)
        if pull:
            click.echo("--pr opens no pull request while a recipe is unsettled")
    elif written is not None:
        from vpatch.commands.bump.pull import intended  # noqa: PLC0415 - it needs git

        print_written(
            written, result.sent.said if result.sent else intended(context, written.branch)
        )
    return report.exit_code


def _refuse_without_write(others: Mapping[str, object]) -> None:
    for option, value in others.items():
        if value:
            what = f"{option} would have no effect without --write"
            raise UnusedOptionError(what, hint="add --write")


def _refuse_beside(option: str, others: Mapping[str, object]) -> None:
    for name, value in others.items():
        if value:
            raise UnusedOptionError(
                f"{name} would have no effect with {option}", hint="leave one of the two out"
            )


def _continue(context: Context, options: BumpOptions, *, as_json: bool) -> CommandResult | ExitCode:
    # These need git, and the harness of tests.
    from vpatch.commands.bump.conflict.settle import settle_bump  # noqa: PLC0415

    settled = settle_bump(context, options)
    if as_json:
        return _ended(settled=settled)
    print_settled(settled)
    return ExitCode.CLEAN


def _abort(context: Context, *, as_json: bool) -> CommandResult | ExitCode:
    from vpatch.commands.bump.conflict.abort import abort_bump  # noqa: PLC0415 - it needs git

    aborted = abort_bump(context)
    if as_json:
        return _ended(aborted=aborted)
    where = aborted.checked_out or "the commit that was checked out before"
    click.echo(f"branch {aborted.branch} is removed; it was at {aborted.commit[:12]}")
    click.echo(f"checked out: {where}")
    return ExitCode.CLEAN


def _ended(
    *, settled: SettledBump | None = None, aborted: AbortedBump | None = None
) -> CommandResult:
    from vpatch.commands.bump.output import (  # noqa: PLC0415 - models load slowly
        AbortedBumpOutput,
        BumpOutput,
        SettledBumpOutput,
    )

    shown = BumpOutput(
        recipes=[],
        idle=[],
        written=None,
        pull=settled and settled.sent,
        settled=settled and SettledBumpOutput.model_validate(settled),
        aborted=aborted and AbortedBumpOutput.model_validate(aborted),
    )
    return CommandResult(shown)
