"""vpatch verify-env: what the vLLM of a Python is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from vpatch.app.verify_env import verify_env
from vpatch.cli.options import json_option, library_options, offline_option
from vpatch.cli.result import CommandResult
from vpatch.errors import ExitCode
from vpatch.util.plural import counted
from vpatch.wheel.names import is_patched
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
    every file with RECORD, every Python file with the release, and the patched ones with what the
    patches of the library make of it. Whatever Python would import in place of a source is a
    difference, such as an extension module beside it, or bytecode of other code. Nothing of vLLM
    runs. If files were changed by hand, vpatch names them, and the patches of the library that are
    in them. Then it ends with 1, as for a lock that the library's patches do not prove.
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
        only_record = vllm.only_record
    else:
        patches = counted(len(vllm.patches), "patch")
        doubt = " as its overlay.json says; not proven" if vllm.doubts else ""
        lines = [f"vllm {vllm.release} in {vllm.package.parent}"]
        lines += [f"  an overlay of vpatch run with {patches}{doubt}"]
        others, only_record = [], ()
    shown = [*vllm.doubts, *map(_difference, vllm.differences), *others]
    lines += [f"  {line}" for line in shown[:_SHOWN]]
    if len(shown) > _SHOWN:
        lines.append(f"  and {len(shown) - _SHOWN} more")
    if only_record:
        names = counted(len(only_record), "file")
        lines.append(f"  compared with RECORD alone, as the release's archive has no such: {names}")
    if done.starting:
        lines.append("  code that runs when this Python starts, which vpatch does not judge:")
        lines += [f"    {path}" for path in done.starting[:_SHOWN]]
    if done.patches:
        lines.append(f"  patches that are in these files: {', '.join(done.patches)}")
    # The name of a file may have lines in it.
    return [line.replace("\n", "\\n") for line in lines]


def _difference(one: FileDifference) -> str:
    concerned = f" ({', '.join(one.patches)})" if one.patches else ""
    return f"{one.path}: {one.what}{concerned}"


def _said(vllm: VerifiedVllm) -> str:
    release = f"the release {vllm.found.release}"
    patches = "" if vllm.lock is None else counted(len(vllm.lock.patches), "patch")
    is_wheel = is_patched(vllm.found.version)
    by_vpatch = (
        f"{release}, from a wheel by vpatch with {patches}"
        if is_wheel
        else f"{release}, with {patches} by vpatch install"
    )
    files = counted(len(vllm.other_files), "file")
    kind = "a fork of it" if vllm.is_fork else "another build of it"
    changed = counted(len(vllm.differences), "file")
    said = {
        "release": f"{release}, unchanged",
        "build": f"not {release} but {kind}: {files} not as in the release, as RECORD has them",
        "wheel": by_vpatch,
        "installed": by_vpatch,
        "unproven": f"{by_vpatch}, as its lock says; not proven",
        "interrupted": _INTERRUPTED,
        "changed": f"changed by hand: {changed} not as in {'the lock' if patches else release}",
    }
    return said[vllm.state]
