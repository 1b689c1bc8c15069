"""vpatch schema: JSON Schema of what people write, for editors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from vpatch.cli import render
from vpatch.declare.patch import PatchDeclaration
from vpatch.declare.recipe import RecipeDeclaration
from vpatch.declare.target import Target
from vpatch.errors import ExitCode

if TYPE_CHECKING:
    from pydantic import BaseModel

_MODELS: dict[str, type[BaseModel]] = {
    "patch": PatchDeclaration,
    "recipe": RecipeDeclaration,
    "target": Target,
}


@click.command("schema")
@click.argument("kind", type=click.Choice(sorted(_MODELS)))
def command(kind: str) -> ExitCode:
    """Print the JSON Schema of patch.yaml, of a recipe or of a target."""
    schema = _MODELS[kind].model_json_schema()
    render.print_json({"$schema": "https://json-schema.org/draft/2020-12/schema"} | schema)
    return ExitCode.CLEAN
