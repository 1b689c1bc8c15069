"""vpatch import: what people already carry becomes declared patches."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from vpatch.commands.importing.draft_text import imported_lines
from vpatch.commands.importing.lift.text import lifted_lines
from vpatch.commands.importing.lift.usecase import lift_patch
from vpatch.commands.importing.output import ImportOutput
from vpatch.commands.importing.request import ImportRequest, release_named, source_named
from vpatch.commands.importing.sources.script import DEFAULT_PLACE
from vpatch.commands.importing.usecase import import_patches
from vpatch.console.common_options import offline_option
from vpatch.console.completion import PATCH_ID, RELEASE
from vpatch.console.options import (
    json_option,
    open_context,
    written_in_project,
)
from vpatch.console.output import echo_code
from vpatch.console.renamed_options import renamed_option
from vpatch.console.result import CommandResult
from vpatch.errors import ConflictingOptionsError, ExitCode, UnusedOptionError
from vpatch.util.plural import counted

if TYPE_CHECKING:
    from vpatch.workspace.context import Context


@click.command("import")
@click.argument("source", required=False, metavar="[DIFF|FOLDER|PULL]")
@click.option(
    "--vllm",
    type=RELEASE,
    metavar="VERSION",
    help="The vLLM that the source is for, or the first release that has it already. A checkout of "
    "`vpatch source` knows it.",
)
@click.option(
    "--tree",
    "other",
    metavar="NAME==VERSION",
    help="The same for a plugin or a library: NAME==VERSION, NAME=PATH or NAME=URL@REF.",
)
@click.option(
    "--upstreamed",
    is_flag=True,
    help="The release has the change already  [default: find out].",
)
@click.option(
    "--fuzz",
    is_flag=True,
    help="Lay in a diff that git does not take with GNU patch, and show each hunk that it moves.",
)
@click.option(
    "--git-range",
    "commits",
    metavar="A..B",
    help="Import these commits of the repository in FOLDER  [default: the current folder]",
)
@click.option(
    "--from-tree",
    "tree",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="Import what this tree, or site-packages, has otherwise than the release.",
)
@click.option(
    "--from-module",
    "module",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Import what this module assigns to classes and modules of vLLM when it is imported.",
)
@click.option(
    "--only",
    "only",
    multiple=True,
    metavar="NAME",
    help="Of --from-module, import only what is assigned to NAME, as Class.method; repeatable.",
)
@renamed_option(
    "--from-script",
    "script",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="SCRIPT",
    old="--run",
    help="Run this script on a copy of the release in a sandbox, and import what it changes.",
)
@renamed_option(
    "--sandbox-path",
    "seen_at",
    old="--at",
    type=click.Path(path_type=Path),
    help=f"Where the script of --from-script sees the copy  [default: {DEFAULT_PLACE}]",
)
@click.option(
    "--lift",
    type=PATCH_ID,
    metavar="ID",
    help="Turn the edits by text of this patch into edits by meaning, where these give the same.",
)
@click.option(
    "--update",
    is_flag=True,
    help="Make the patch of this id give the source, a newer form of its own.",
)
@click.option("--id", "patch_id", metavar="ID", help="The id of the patch, if there is one.")
@click.option(
    "--output-dir",
    type=click.Path(path_type=Path),
    default=written_in_project("patches", "--output-dir"),
    help="Folder for the patches  [default: patches in the project]",
)
@click.option(
    "--exact",
    is_flag=True,
    help="Give every byte of the source, comments and docstrings too, with text where needed.",
)
@click.option("--text", is_flag=True, help="Use edits of text only, and none by meaning.")
@click.option(
    "--examples",
    is_flag=True,
    help="Write the changed files, before and after, as an example for `vpatch test`.",
)
@click.option(
    "--releases",
    metavar="VERSION",
    help="Releases to compare with git: several with commas, all, or none  "
    "[default: those in the cache]",
)
@offline_option
@json_option
def command(
    source: str | None,
    vllm: str | None,
    other: str | None,
    commits: str | None,
    tree: Path | None,
    module: Path | None,
    script: Path | None,
    lift: str | None,
    output_dir: Path,
    *,
    update: bool,
    offline: bool,
    as_json: bool,
    **options: Any,
) -> CommandResult | ExitCode:
    """Convert diffs, commits or a tree to patches.

    vpatch checks that the patches do the same. The source is a folder of `vpatch source` that you
    edited: vpatch knows its release, and all changes become one patch. Or it is a unified diff, a
    mailbox, or a folder with *.patch and *.diff files, which apply one after the other. Each
    becomes a patch. With --git-range, each commit does. Or the source is a pull request, such as
    vllm-project/vllm#44821. A script of --from-script can change nothing but the copy. It has no
    network and no files of yours, and 60 s of time.

    If the release has the change already, as of a merged pull request, vpatch takes the change out
    of it, and makes a patch for the releases before.

    vpatch writes a change as edits by meaning where they give the same, and as text elsewhere.
    With --update, the source is a newer form of what the patch of --id was made of. All changes
    become this patch. It keeps its id, its claims, its comments, and the edits that still give
    their part. vpatch shows what is new.

    Each patch is applied to the release twice before anything is written. Then its state on other
    releases is shown, beside what `git apply -3` makes of the original.
    """
    context = open_context(offline=offline)
    if lift is not None:
        _refuse_beside_lift()
        lifted = lift_patch(context, lift, release_named(vllm, other))
        if as_json:
            return CommandResult(ImportOutput(patches=[], lifted=lifted))
        for line in lifted_lines(lifted):
            click.echo(line)
        return ExitCode.CLEAN
    where, kind = source_named(source, commits, tree=tree, module=module, script=script)
    request = ImportRequest(where, vllm, other, kind, commits, **options)
    if update:
        return _update(context, request, as_json=as_json)
    imported = import_patches(context, request, output_dir)
    code = ExitCode.FINDINGS if any(p.needs_a_person for p in imported) else ExitCode.CLEAN
    if as_json:
        return CommandResult(ImportOutput(patches=imported), code)
    for patch in imported:
        for line in imported_lines(patch):
            click.echo(line)
    click.echo(f"{counted(len(imported), 'patch')} written to {output_dir}")
    return code


def _update(context: Context, request: ImportRequest, *, as_json: bool) -> CommandResult | ExitCode:
    # They load the commands `edit` and `refresh`.
    from vpatch.commands.importing.update.text import updated_lines  # noqa: PLC0415
    from vpatch.commands.importing.update.usecase import update_patch  # noqa: PLC0415

    _refuse_beside_update()
    updated = update_patch(context, request)
    code = ExitCode.FINDINGS if updated.needs_a_person else ExitCode.CLEAN
    if as_json:
        return CommandResult(ImportOutput.of_updated(updated), code)
    for title, diff in (("the source", updated.new), ("the patch", updated.patch.diff)):
        if diff:
            click.echo(f"what is new in {title}:")
            echo_code(b"".join(diff))
    for line in updated_lines(updated):
        click.echo(line)
    return code


def _refuse_beside_update() -> None:
    """Refuse options that would have no effect on a patch that is there."""
    context = click.get_current_context()
    for name in ("output_dir", "examples", "text"):
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise UnusedOptionError(
                f"--{name.replace('_', '-')} would have no effect with --update",
                hint="leave it out",
            )


def _refuse_beside_lift() -> None:
    """Refuse what is on the command line beside --lift, but for what it takes."""
    context = click.get_current_context()
    options = [
        param.opts[0] if isinstance(param, click.Option) else "a source"
        for param in context.command.params
        if param.expose_value
        and context.get_parameter_source(str(param.name)) is ParameterSource.COMMANDLINE
    ]
    taken = {"--lift", "--vllm", "--tree", "--offline", "--json"}
    if others := [option for option in options if option not in taken]:
        raise ConflictingOptionsError(
            f"--lift changes a patch that is there, and does not take {', '.join(others)}",
            hint="write vpatch import --lift ID --vllm VERSION",
        )
