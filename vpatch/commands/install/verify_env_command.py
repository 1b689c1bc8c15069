"""vpatch verify-env: what the vLLM of a Python is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from vpatch.commands.install.summary import summary_of
from vpatch.commands.install.verification import VerifiedVllm
from vpatch.commands.install.verify_env import verify_env
from vpatch.console.common_options import offline_option
from vpatch.console.options import (
    json_option,
    library_options,
)
from vpatch.console.result import CommandResult
from vpatch.errors import ExitCode
from vpatch.util.plural import shortened
from vpatch.util.visible import visible_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vpatch.commands.install.overlay import VerifiedOverlay
    from vpatch.commands.install.verification import FileDifference
    from vpatch.commands.install.verify_env import VerifiedEnvironment
    from vpatch.workspace.context import Context

_SHOWN = 20
_WHY = "the release's archive has no such file, or that of another build"


@click.command("verify-env")
@click.argument("python")
@library_options
@offline_option
@json_option
def command(context: Context, *, python: str, as_json: bool) -> CommandResult | ExitCode:
    """Report which files of an installed vLLM changed.

    It is a release, a wheel or an install by vpatch, or an overlay of `vpatch run`. vpatch compares
    every file with RECORD, those that the release's archive has with the archive, and the patched
    ones with what the patches of the library make of it. Of a build whose version no release has,
    it says so. The first line has the number of each.
    Whatever Python would import in place of a source is a difference, such as an extension module
    beside it, or bytecode of other code. Nothing of vLLM runs. If files were changed by hand,
    vpatch names them, and the patches of the library that are in them. Then it ends with 1, as for
    a lock that the library's patches do not prove.
    """
    done = verify_env(context, python)
    code = ExitCode.CLEAN if done.vllm.is_clean else ExitCode.FINDINGS
    if as_json:
        from vpatch.commands.install.output import VerifyEnvOutput  # noqa: PLC0415 - models load slowly

        return CommandResult(VerifyEnvOutput.model_validate(done), code)
    for line in _lines(done):
        click.echo(line)
    return code


def _lines(done: VerifiedEnvironment) -> list[str]:
    vllm = done.vllm
    what = (
        vllm.found
        if isinstance(vllm, VerifiedVllm)
        else f"vllm {vllm.release} in {vllm.package.parent}"
    )
    lines = [str(what), f"  {summary_of(vllm)}"]
    others = [_other(path, vllm) for path in vllm.other_files]
    lines += _shown([*vllm.doubts, *map(_difference, vllm.differences), *others], "  ")
    if vllm.only_record:
        lines.append(f"  compared with RECORD alone; {_WHY}:")
        lines += _shown(vllm.only_record, "    ")
    if done.starting:
        lines.append("  code that runs when this Python starts, which vpatch does not judge:")
        lines += _shown(done.starting, "    ")
    if done.patches:
        lines.append(f"  patches that are in these files: {', '.join(done.patches)}")
    return [visible_line(line) for line in lines]


def _shown(lines: Sequence[str], indent: str) -> list[str]:
    return [f"{indent}{line}" for line in shortened(lines, _SHOWN)]


def _other(path: str, vllm: VerifiedVllm | VerifiedOverlay) -> str:
    explained = vllm.explained if isinstance(vllm, VerifiedVllm) else {}
    by = f" (by {', '.join(explained[path])})" if path in explained else ""
    return f"{path}: not as in the release, and as RECORD names it{by}"


def _difference(one: FileDifference) -> str:
    concerned = f" ({', '.join(one.patches)})" if one.patches else ""
    return f"{one.path}: {one.what}{concerned}"
