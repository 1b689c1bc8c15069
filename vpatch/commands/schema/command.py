"""vpatch schema: JSON Schema of what people write, for editors, and of what `--json` prints."""

from __future__ import annotations

import json
from difflib import get_close_matches
from typing import TYPE_CHECKING

import click

from vpatch.declare.patch import PatchDeclaration
from vpatch.declare.recipe import RecipeDeclaration
from vpatch.declare.target import Target
from vpatch.errors import ExitCode, UsageError
from vpatch.registry import RESULTS, schema_of

if TYPE_CHECKING:
    from pydantic import BaseModel, JsonValue

_MODELS: dict[str, type[BaseModel]] = {
    "patch": PatchDeclaration,
    "recipe": RecipeDeclaration,
    "target": Target,
}
_OUTPUT = "output"


@click.command("schema")
@click.argument("kind", metavar="KIND", type=click.Choice([*sorted(_MODELS), _OUTPUT]))
@click.argument("words", nargs=-1, metavar="[COMMAND]...")
def command(kind: str, words: tuple[str, ...]) -> ExitCode:
    """Print a JSON Schema.

    It is that of patch.yaml, a recipe, a target, or of what --json prints. KIND is patch, recipe,
    target or output. For output, name the command, which may have two words: vpatch schema output
    evidence list. Without a command, the commands that have --json are listed.
    """
    if kind != _OUTPUT and words:
        raise UsageError(
            f"the schema of a {kind} is for no command",
            hint=f"write vpatch schema {kind}, or vpatch schema output {' '.join(words)}",
            code="cli.needless-command",
        )
    if kind != _OUTPUT:
        _print(_MODELS[kind].model_json_schema())
    elif words:
        _print(_schema_of(" ".join(words)))
    else:
        click.echo("\n".join(RESULTS))
    return ExitCode.CLEAN


def _schema_of(name: str) -> dict[str, JsonValue]:
    # As a file or a shell function may be called.
    known = {spelling: one for one in RESULTS for spelling in (one, one.replace(" ", "-"))}
    if name not in known:
        near = get_close_matches(name, known, n=1)
        see = "vpatch schema output lists all of them"
        raise UsageError(
            f"no command {name!r} has --json",
            hint=f"did you mean {known[near[0]]!r}? If not, {see}" if near else see,
            code="cli.command-without-json",
        )
    return schema_of(known[name])


def _print(schema: dict[str, JsonValue]) -> None:
    document = {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
    click.echo(json.dumps(document, indent=2))
