"""vpatch verify-env: what the vLLM of a Python is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from vpatch.app.verify_env import verify_env
from vpatch.cli.options import json_option, library_options, offline_option
from vpatch.cli.result import CommandResult
from vpatch.errors import ExitCode
from vpatch.util.plural import counted
from vpatch.wheel.verifying import VerifiedVllm

if TYPE_CHECKING:
    from vpatch.app.context import Context
    from vpatch.app.verify_env import VerifiedEnvironment
    from vpatch.wheel.verifying import FileDifference

_SHOWN = 20
_INTERRUPTED = "an install was interrupted: run vpatch install or vpatch uninstall again"


@click.command("verify-env")
@click.argument("python")
@library_options
@offline_option
@json_option
def command(context: Context, *, python: str, as_json: bool) -> CommandResult | ExitCode:
    """Say what the vLLM of a Python is, and which files somebody changed.

    It is a release, a wheel or an install by vpatch, or an overlay of `vpatch run`. vpatch compares
    every file with RECORD, every Python file with the release, and the patched ones with the lock.
    Nothing of vLLM runs. If files were changed by hand, vpatch names them, and the patches of the
    library that are in them. Then it ends with 1.
    """
    done = verify_env(context, python)
    code = ExitCode.CLEAN if done.vllm.is_clean else ExitCode.FINDINGS
    if as_json:
        from vpatch.output.packages import VerifyEnvOutput  # noqa: PLC0415 - models load slowly

        return CommandResult(VerifyEnvOutput.of(done), code)
    for line in _lines(done):
        click.echo(line)
    return code


def _lines(done: VerifiedEnvironment) -> list[str]:
    vllm = done.vllm
    if isinstance(vllm, VerifiedVllm):
        lines = [f"{vllm.found}", f"  {_said(vllm)}"]
        others = [f"{path}: not as in the release" for path in vllm.other_files]
    else:
        lines = [f"vllm {vllm.release} in {vllm.package.parent}"]
        lines += [f"  an overlay of vpatch run with {counted(len(vllm.patches), 'patch')}"]
        others = []
    shown = [*map(_difference, vllm.differences), *others]
    lines += [f"  {line}" for line in shown[:_SHOWN]]
    if len(shown) > _SHOWN:
        lines.append(f"  and {len(shown) - _SHOWN} more")
    if done.patches:
        lines.append(f"  patches that are in these files: {', '.join(done.patches)}")
    return lines


def _difference(one: FileDifference) -> str:
    concerned = f" ({', '.join(one.patches)})" if one.patches else ""
    return f"{one.path}: {one.what}{concerned}"


def _said(vllm: VerifiedVllm) -> str:
    release = f"the release {vllm.found.release}"
    patches = "" if vllm.lock is None else counted(len(vllm.lock.patches), "patch")
    match vllm.state:
        case "release":
            return f"{release}, unchanged"
        case "build":
            files = counted(len(vllm.other_files), "file")
            kind = "a fork of it" if vllm.is_fork else "another build of it"
            return f"not {release} but {kind}: {files} not as in the release"
        case "wheel":
            return f"{release}, from a wheel by vpatch with {patches}"
        case "installed":
            return f"{release}, with {patches} by vpatch install"
        case "interrupted":
            return _INTERRUPTED
        case "changed":
            files = counted(len(vllm.differences), "file")
            return f"changed by hand: {files} not as in {release if not patches else 'the lock'}"
