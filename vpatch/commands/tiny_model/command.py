"""vpatch tiny-model: a tiny model in a folder, and how vLLM is started on it."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import click

from vpatch.commands.tiny_model.kinds import DRAFTS, KINDS
from vpatch.commands.tiny_model.output import TinyModelFileOutput, TinyModelOutput
from vpatch.commands.tiny_model.writer import write_model
from vpatch.console.common_options import FOLDER
from vpatch.console.options import json_option
from vpatch.console.result import CommandResult
from vpatch.errors import ExitCode, UnusedOptionError
from vpatch.util.digest import digest_of, short_digest

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_DEFAULT = "all"
# The others are plain arithmetic, which needs no package.
_WITH_TORCH = "deepseek-v4"


@click.command("tiny-model")
@click.argument("folder", metavar="DIR", type=FOLDER)
@click.option(
    "--kind",
    type=click.Choice(list(KINDS)),
    default=_DEFAULT,
    show_default=True,
    help="; ".join(f"{name}: {kind.description}" for name, kind in KINDS.items()) + ".",
)
@click.option(
    "--python",
    metavar="PYTHON",
    help=f"With --kind {_WITH_TORCH}, the Python that has torch and safetensors.",
)
@json_option
def command(
    folder: Path, kind: str, python: str | None, *, as_json: bool
) -> CommandResult | ExitCode:
    """Write a tiny model, for a server or a script.

    DIR is a new or an empty folder. These are the models of behaviour tests, and of plans with
    `synthetic`: 26 MB, or 141 MB for deepseek-v4. The next token follows from the last one alone,
    so you know the whole output. Each model has a tokenizer and an MTP head. The bytes are always
    the same; those of deepseek-v4 are the same for one torch and one type of CPU.
    """
    if python is not None and kind != _WITH_TORCH:
        raise UnusedOptionError(
            f"--python would have no effect with --kind {kind}",
            hint="leave it out: this kind needs no package",
        )
    folder = folder.resolve()
    paths = write_model(folder, kind, python)
    chosen = KINDS[kind]
    output = TinyModelOutput(
        kind=kind,
        folder=folder,
        files=[_file(path) for path in paths],
        server=chosen.server(folder),
        drafts=list(DRAFTS),
        call=chosen.call(folder),
        environment=dict(chosen.environment),
        needs=chosen.needs,
    )
    if as_json:
        return CommandResult(output)
    _print(output, chosen.prefix)
    return ExitCode.CLEAN


def _file(path: Path) -> TinyModelFileOutput:
    content = path.read_bytes()
    return TinyModelFileOutput(name=path.name, digest=digest_of(content), bytes=len(content))


def _print(output: TinyModelOutput, prefix: Sequence[str]) -> None:
    click.echo(f"wrote {output.folder}, kind {output.kind}")
    for file in output.files:
        click.echo(f"  {file.name:<21} {file.bytes:>11,} bytes  {short_digest(file.digest)}")
    if output.needs:
        click.echo(f"it needs {output.needs}")
    click.echo(f"serve it:\n  {shlex.join(output.server)}")
    starts = f" that `{shlex.join([*prefix, 'python', 'SCRIPT'])}` starts" if prefix else ""
    click.echo(f"load it in a script{starts}:\n  {output.call}")
    click.echo(f"for drafts, add this to the command:\n  {shlex.join(output.drafts)}")
    if output.environment:
        words = " ".join(f"{name}={shlex.quote(v)}" for name, v in output.environment.items())
        click.echo(f"on a CPU, set {words};\n  some releases need the library's patches to draft")
