"""vpatch checkpoint: what a checkpoint is, what stands in its way, and putting that right."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vpatch.checkpoint.findings import findings_of
from vpatch.checkpoint.graft import graft
from vpatch.checkpoint.ignore_fix import fix_lists
from vpatch.checkpoint.inspection import inspect as look_at
from vpatch.checkpoint.needs import needs_of
from vpatch.checkpoint.platforms import NAMES
from vpatch.checkpoint.tokenizer import Tokenizer, tokenizer_of
from vpatch.cli import render
from vpatch.cli.checkpoint_text import print_findings, print_grafted, print_inspection, print_lists
from vpatch.cli.options import json_option, library_options, open_context
from vpatch.cli.output import Group
from vpatch.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vpatch.app.context import Context
    from vpatch.checkpoint.findings import CheckpointFinding
    from vpatch.checkpoint.graft import Grafted
    from vpatch.checkpoint.ignore import JudgedList
    from vpatch.checkpoint.inspection import Inspection
    from vpatch.checkpoint.needs import Need

_folder = click.argument("folder", metavar="PATH", type=click.Path(path_type=Path))


@click.group("checkpoint", cls=Group)
def command() -> None:
    """Inspect a checkpoint without loading it, and repair its MTP layers.

    PATH is the folder with config.json and *.safetensors.
    """


@command.command("inspect")
@_folder
@click.option(
    "--engine",
    "python",
    type=click.Path(path_type=Path),
    metavar="PYTHON",
    help="Ask transformers in this Python for the tokenizer's class.",
)
@click.option("--platform", metavar="NAME", help=f"Platform to run it on: {', '.join(NAMES)}.")
@library_options
@json_option
def inspect(
    folder: Path,
    python: Path | None,
    platform: str | None,
    patches_dirs: tuple[Path, ...],
    recipes_dirs: tuple[Path, ...],
    *,
    as_json: bool,
) -> ExitCode:
    """Report from headers alone what a checkpoint contains, and what it needs for MTP.

    vpatch reads no tensor, so this takes seconds at any size. Ends with 1 if something prevents
    loading the checkpoint or its MTP layers.
    """
    found = look_at(folder)
    tokenizer = tokenizer_of(folder, python)
    findings = findings_of(found, tokenizer, platform)
    context = open_context(patches_dirs, recipes_dirs)
    needs = [(need, _needed_in(context, need)) for need in needs_of(found, platform)]
    if as_json:
        render.print_json(_as_json(found, tokenizer, findings, needs))
    else:
        print_inspection(found, tokenizer, needs)
        print_findings(findings)
    return ExitCode.FINDINGS if any(f.fault for f in findings) else ExitCode.CLEAN


@command.command("ignore-names")
@_folder
@click.option("--fix", is_flag=True, help="Write the better entries to config.json.")
@json_option
def ignore_names(folder: Path, *, fix: bool, as_json: bool) -> ExitCode:
    """Compare the lists of unquantised modules with vLLM's names for these modules.

    Such lists use the names on disk. vLLM fuses modules (q_proj, k_proj and v_proj become
    qkv_proj), renames others, and matches the new names. --fix replaces an entry by one that
    matches both names, and keeps the old file as config.json.orig. Ends with 1 if an entry matches
    only the names on disk, and is not fixed.
    """
    before = look_at(folder)
    if before.quantisation is not None and not before.quantisation.understood:
        raise UsageError(
            f"how vLLM matches names for {before.quantisation.method} is not known here",
            where=str(folder / "config.json"),
            hint="compare its lists by hand",
        )
    backup = fix_lists(folder, before.judged) if fix else None
    after = look_at(folder).judged if backup else before.judged
    clean = all(one.clean for one in after)
    if as_json:
        document = {
            "lists": [_list_as_json(one) for one in before.judged],
            "fixed": backup is not None,
            "backup": str(backup) if backup else None,
            "clean": clean,
        }
        render.print_json(document)
    else:
        print_lists(before)
        if backup:
            click.echo(f"config.json is written anew; {backup.name} is what it was")
            left = "" if clean else ", but for what a person must decide"
            click.echo(f"its lists now hit in vLLM what they hit on disk{left}")
    return ExitCode.CLEAN if clean else ExitCode.FINDINGS


@command.command("graft-mtp")
@_folder
@click.option(
    "--from",
    "source",
    required=True,
    type=click.Path(path_type=Path),
    help="The original checkpoint, or its part with config.json, the index and the MTP tensors.",
)
@click.option(
    "--as",
    "form",
    type=click.Choice(["source", "trunk"]),
    default="source",
    show_default=True,
    help="Keep the tensors as they are (source), or convert them to the main model's "
    "floating-point dtype (trunk).",
)
@json_option
def graft_mtp(folder: Path, source: Path, form: str, *, as_json: bool) -> ExitCode:
    """Put back the MTP tensors that a conversion dropped, from the original checkpoint.

    Writes a new shard, the lost MTP entries of config.json, and the index. The old config.json is
    kept as config.json.orig. The checkpoint does not change until everything is written and read
    back. A second run finds nothing to do. Ends with 1 if something still prevents MTP.
    """
    done = graft(folder, source, as_trunk=form == "trunk", progress=open_context().progress)
    after = [
        f
        for f in findings_of(look_at(folder), Tokenizer(None), None)
        if f.fault and f.kind.startswith("mtp-")
    ]
    if as_json:
        render.print_json(_grafted_as_json(done, after))
    else:
        print_grafted(done)
        print_findings(after)
    return ExitCode.FINDINGS if after else ExitCode.CLEAN


def _needed_in(context: Context, need: Need) -> str | None:
    """Return the releases that a patch says it is for; None where the library has no such patch."""
    try:
        return context.library.patch(need.patch).declaration.needed_in.get("vllm")
    except UsageError:
        return None


def _as_json(
    found: Inspection,
    tokenizer: Tokenizer,
    findings: Sequence[CheckpointFinding],
    needs: Sequence[tuple[Need, str | None]],
) -> dict[str, Any]:
    checkpoint, mtp, quantised = found.checkpoint, found.mtp, found.quantisation
    return {
        "folder": str(checkpoint.folder),
        "architecture": checkpoint.architecture,
        "layers": checkpoint.layers,
        "shards": {
            "present": [shard.path.name for shard in checkpoint.shards],
            "missing": {name: len(names) for name, names in checkpoint.missing.items()},
            "unlisted": list(checkpoint.unlisted),
        },
        "dtypes": {
            dtype: {"tensors": amount.tensors, "bytes": amount.size}
            for dtype, amount in found.by_dtype.items()
        },
        "quantisation": None
        if quantised is None
        else {
            "where": ".".join(quantised.way),
            "method": quantised.method,
            "bits": list(quantised.bits),
            "lists": [_list_as_json(one) for one in found.judged],
        },
        "formats": {
            part: {kind: amount.tensors for kind, amount in found.formats(mtp=inside).items()}
            for part, inside in (("trunk", False), ("mtp", True))
        },
        "mtp": {
            "declared": {one.key: one.count for one in mtp.declared},
            "names": mtp.scheme.name if mtp.scheme else None,
            "layers": {str(number): len(names) for number, names in mtp.layers.items()},
            "tensors": len(mtp.names),
            "missing": list(mtp.missing),
            "without-scale": list(mtp.lacking),
        },
        "tokenizer": {
            "class": tokenizer.name,
            "own-code": tokenizer.own_code,
            "transformers": tokenizer.transformers,
            "known": tokenizer.known,
        },
        "needs": {
            "vllm": f">={mtp.family.since}" if mtp.family else None,
            "patches": [
                {"patch": need.patch, "reason": need.reason, "vllm": releases}
                for need, releases in needs
            ],
        },
        "findings": [
            {"kind": f.kind, "what": f.what, "next": f.hint, "fault": f.fault} for f in findings
        ],
    }


def _list_as_json(judged: JudgedList) -> dict[str, Any]:
    return {
        "where": judged.ignored.where,
        "matching": judged.ignored.matching.value,
        "split": list(judged.split),
        "entries": [
            {
                "entry": one.entry,
                "disk": list(one.disk),
                "vllm": list(one.run),
                "missed": list(one.missed),
                "missed-before": one.until,
                "better": list(one.better),
                "fault": one.fault,
            }
            for one in judged.entries
        ],
    }


def _grafted_as_json(done: Grafted, after: Sequence[CheckpointFinding]) -> dict[str, Any]:
    return {
        "written": list(done.written),
        "already-there": list(done.there),
        "bytes": done.size,
        "shard": str(done.shard) if done.shard else None,
        "converted": [
            {"from": old, "to": new, "tensors": count}
            for (old, new), count in done.converted.items()
        ],
        "config": list(done.keys),
        "backup": str(done.backup) if done.backup else None,
        "index": done.index,
        "findings": [{"kind": f.kind, "what": f.what, "next": f.hint} for f in after],
    }
