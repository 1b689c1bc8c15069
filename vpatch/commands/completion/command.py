"""`vpatch completion`: the script by which a shell completes command lines."""

from __future__ import annotations

import click
from click.shell_completion import BashComplete, FishComplete, ZshComplete

from vpatch.errors import ExitCode

_SHELLS = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}
_VARIABLE = "_VPATCH_COMPLETE"


@click.command("completion")
@click.argument("shell", type=click.Choice([*_SHELLS]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> ExitCode:
    """Print a script for completion in a shell.

    The shell then completes commands, options, ids of patches, names of recipes, and releases of
    vLLM. It asks for no network, so releases are those of the last list that vpatch fetched.

    In bash or zsh, write eval "$(vpatch completion bash)" into ~/.bashrc, or the same with zsh into
    ~/.zshrc. In fish, write vpatch completion fish | source into config.fish.
    """
    click.echo(_SHELLS[shell](ctx.find_root().command, {}, "vpatch", _VARIABLE).source())
    return ExitCode.CLEAN
