"""vpatch checkpoint: inspect a checkpoint, and repair it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from vpatch.checkpoint import report
from vpatch.checkpoint.files import FolderFiles
from vpatch.checkpoint.findings import findings_of
from vpatch.checkpoint.graft import graft
from vpatch.checkpoint.ignore_fix import fix_lists
from vpatch.checkpoint.inspection import inspect as look_at
from vpatch.checkpoint.needs import needs_of
from vpatch.checkpoint.opening import open_files
from vpatch.checkpoint.platforms import NAMES
from vpatch.checkpoint.quantise import graft_quantised, quantise_mtp
from vpatch.checkpoint.tokenizer import Tokenizer, tokenizer_of
from vpatch.commands.checkpoint.output import (
    CheckpointFindingOutput,
    GraftOutput,
    IgnoreNamesOutput,
    InspectOutput,
    QuantiseOutput,
)
from vpatch.commands.checkpoint.quantise import open_quantiser
from vpatch.console.common_options import offline_option
from vpatch.console.completion import RELEASES
from vpatch.console.options import (
    json_option,
    library_options,
    open_context,
)
from vpatch.console.output import Group, secho, style
from vpatch.console.renamed_options import renamed_option
from vpatch.console.result import CommandResult
from vpatch.errors import ExitCode, UnusedOptionError, UsageError
from vpatch.runs.checkpoint_releases import needed_in, on_releases

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from vpatch.checkpoint.finding_model import CheckpointFinding
    from vpatch.workspace.context import Context

_folder = click.argument("folder", metavar="PATH", type=click.Path(path_type=Path))
_engine_option = click.option(
    "--engine",
    metavar="cpu|PYTHON",
    help="Quantise with the compressed-tensors of a cached cpu build of vLLM, or of this Python.",
)


@click.group("checkpoint", cls=Group)
def command() -> None:
    """Inspect a checkpoint, and repair its MTP layers.

    No tensor is loaded to inspect it. PATH is the folder with config.json and *.safetensors.
    `inspect` and `ignore-names` also take ORG/NAME or ORG/NAME@REVISION, and read the headers from
    the Hugging Face Hub.
    """


@command.command("inspect")
@_folder
@renamed_option(
    "--python",
    old="--engine",
    type=click.Path(path_type=Path),
    metavar="PYTHON",
    help="Ask transformers in this Python for the tokenizer's class.",
)
@renamed_option(
    "--accelerator",
    "platform",
    old="--platform",
    metavar="NAME",
    help=f"What it is to run on: {', '.join(NAMES)}.",
)
@click.option(
    "--vllm",
    type=RELEASES,
    metavar="VERSION",
    help="Say what this release of vLLM has for the checkpoint; `all` for every release.",
)
@offline_option
@library_options
@json_option
def inspect(
    folder: Path,
    python: Path | None,
    platform: str | None,
    vllm: str | None,
    context: Context,
    *,
    as_json: bool,
) -> CommandResult | ExitCode:
    """Report from headers alone what a checkpoint contains, and what it needs for MTP.

    vpatch reads no tensor, so this takes seconds at any size. Ends with 1 if something prevents
    loading the checkpoint or its MTP layers, or if no release that --vllm names has the model.
    """
    files = open_files(folder)
    inspection = look_at(files)
    tokenizer = tokenizer_of(files, python)
    findings = findings_of(inspection, tokenizer, platform)
    wanted = needs_of(inspection, platform)
    needs = [(need, needed_in(context, need)) for need in wanted]
    rows = on_releases(context, inspection, wanted, vllm) if vllm else []
    nowhere = bool(rows) and all(row.support.architecture is False for row in rows)
    code = ExitCode.FINDINGS if nowhere or any(f.fault for f in findings) else ExitCode.CLEAN
    if as_json:
        return CommandResult(InspectOutput.of(inspection, tokenizer, findings, needs, rows), code)
    _print(report.inspection_lines(inspection, tokenizer, needs))
    if rows:
        _print(report.release_lines(rows))
    _print_findings(findings)
    return code


@command.command("ignore-names")
@_folder
@renamed_option(
    "--write",
    "fix",
    old="--fix",
    is_flag=True,
    help="Write the better entries to the file of the list.",
)
@json_option
def ignore_names(folder: Path, *, fix: bool, as_json: bool) -> CommandResult | ExitCode:
    """Compare the lists of unquantised modules with vLLM's names for these modules.

    Such lists use the names on disk. vLLM fuses modules (q_proj, k_proj and v_proj become
    qkv_proj), renames others, and matches the new names. --write replaces an entry by one that
    matches both names, and keeps the old file as config.json.orig. Ends with 1 if an entry matches
    only the names on disk, and is not fixed.
    """
    files = open_files(folder)
    if fix and not isinstance(files, FolderFiles):
        raise UsageError(
            "a repository of the Hub is only read",
            where=str(folder),
            hint="download it, and name its folder",
            code="checkpoint.read-only",
        )
    before = look_at(files)
    if before.quantisation is not None and not before.quantisation.understood:
        raise UsageError(
            f"vpatch does not know how vLLM matches names for {before.quantisation.method}",
            where=str(folder / "config.json"),
            hint="compare its lists by hand",
            code="checkpoint.unknown-method",
        )
    backup = fix_lists(folder, before.judged) if fix else None
    after = look_at(files).judged if backup else before.judged
    clean = all(one.clean for one in after)
    code = ExitCode.CLEAN if clean else ExitCode.FINDINGS
    if as_json:
        output = IgnoreNamesOutput(
            lists=before.judged, fixed=backup is not None, backup=backup, clean=clean
        )
        return CommandResult(output, code)
    _print(report.list_lines(before))
    if backup:
        click.echo(f"{before.judged[0].ignored.file} is rewritten; {backup.name} is the old file")
        exception = "" if clean else ", except where a person must decide"
        click.echo(f"its lists now match in vLLM what they match on disk{exception}")
    elif fix:
        click.echo("config.json was not changed: no entry can be replaced by a better one")
    return code


@command.command("graft-mtp")
@_folder
@click.option(
    "--from",
    "source",
    required=True,
    type=click.Path(path_type=Path),
    help="The original checkpoint, or its part with config.json, the index and the MTP tensors.",
)
@renamed_option(
    "--tensor-format",
    "form",
    old="--as",
    type=click.Choice(["source", "trunk"]),
    default="source",
    show_default=True,
    help="Keep the tensors as they are (source), or convert them to the format of the main model "
    "(trunk): its floating-point dtype, or its quantisation.",
)
@_engine_option
@offline_option
@json_option
def graft_mtp(
    folder: Path, source: Path, form: str, engine: str | None, *, offline: bool, as_json: bool
) -> CommandResult | ExitCode:
    """Put back the MTP tensors that a conversion dropped, from the original checkpoint.

    Writes a new shard, the lost MTP entries of config.json, and the index. The old config.json is
    kept as config.json.orig. The checkpoint does not change until everything is written and read
    back. A second run finds nothing to do. If the trunk is quantised, `--tensor-format trunk`
    quantises the tensors too, as quantise-mtp does. Ends with 1 if something still prevents MTP.
    """
    context = open_context(offline=offline)
    quantised = form == "trunk" and look_at(FolderFiles(folder)).quantisation is not None
    if engine is not None and not quantised:
        raise UnusedOptionError(
            "--engine would have no effect: nothing is quantised",
            hint="leave it out; or give --tensor-format trunk, and a target that is quantised",
        )
    if not quantised:
        done = graft(folder, source, as_trunk=form == "trunk", progress=context.progress)
        output = GraftOutput.of(done, _remaining_findings(folder))
        return _end(output, report.graft_lines(done), as_json=as_json)
    if engine is None:
        raise UsageError(
            "its trunk is quantised, so `--tensor-format trunk` quantises what it grafts",
            where=str(folder),
            hint="give --engine as well: cpu, or the Python of your vLLM; or graft with "
            "--tensor-format source",
            code="checkpoint.no-engine",
        )
    with open_quantiser(context, engine) as quantiser:
        quantised_mtp = graft_quantised(folder, source, quantiser, context.progress)
    output = GraftOutput.of_quantised(quantised_mtp, _remaining_findings(folder))
    return _end(output, report.quantise_lines(quantised_mtp), as_json=as_json)


@command.command("quantise-mtp")
@_folder
@_engine_option
@offline_option
@json_option
def quantise(
    folder: Path, engine: str | None, *, offline: bool, as_json: bool
) -> CommandResult | ExitCode:
    """Quantise the MTP layers of a checkpoint in the format of its trunk.

    Rounds to the nearest, with the trunk's own parameters and with compressed-tensors. Chooses the
    modules by the trunk's config, and takes their names off its list of unquantised modules. The
    old config.json and shards are kept as NAME.orig. The checkpoint does not change until
    everything is written and read back. A second run finds nothing to do. Ends with 1 if something
    still prevents MTP.
    """
    context = open_context(offline=offline)
    if engine is None:
        raise UsageError(
            "compressed-tensors is a part of vLLM, so this needs a Python with a vLLM",
            hint="give --engine: cpu, or the Python of your vLLM",
            code="checkpoint.no-engine",
        )
    with open_quantiser(context, engine) as quantiser:
        done = quantise_mtp(folder, quantiser, context.progress)
    output = QuantiseOutput(quantised=done, findings=_remaining_findings(folder))
    return _end(output, report.quantise_lines(done), as_json=as_json)


def _remaining_findings(folder: Path) -> list[CheckpointFinding]:
    """Return what still prevents MTP."""
    findings = findings_of(look_at(FolderFiles(folder)), Tokenizer(None), None)
    return [one for one in findings if one.fault and one.kind.startswith("mtp-")]


def _end(
    output: GraftOutput | QuantiseOutput, lines: Iterable[report.Line], *, as_json: bool
) -> CommandResult | ExitCode:
    """Show what was done, and what still prevents MTP."""
    code = ExitCode.FINDINGS if output.findings else ExitCode.CLEAN
    if as_json:
        return CommandResult(output, code)
    _print(lines)
    _print_findings(output.findings)
    return code


def _print(lines: Iterable[report.Line]) -> None:
    for line in lines:
        is_title = line.kind == "title"
        secho(line.text, bold=is_title or None, fg="red" if line.kind == "fault" else None)


def _print_findings(findings: Sequence[CheckpointFinding | CheckpointFindingOutput]) -> None:
    for finding in findings:
        label, colour = ("finding", "red") if finding.fault else ("note", "yellow")
        click.echo(f"{style(f'{label}:', fg=colour)} {finding.what}")
        if finding.hint:
            click.echo(f"  next: {finding.hint}")
        for line in report.module_lines(finding.modules, finding.pattern):
            click.echo(line)
