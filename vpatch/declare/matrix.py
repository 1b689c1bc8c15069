"""The matrix of a recipe: what multiplies the cells of its plans."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from vpatch.declare.patch import PatchId
from vpatch.declare.smoke import ModelName, Needs
from vpatch.declare.yamlfile import Declared

MatrixName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]*$")]
Release = Annotated[str, Field(pattern=r"^\d+\.\d+(\.\d+)?(\.post\d+)?$")]


class MatrixDeclaration(Declared):
    """Releases x sets of patches x models x hardware. What is left out is as in the recipe."""

    vllm: tuple[Release, ...] | None = Field(
        None, description="releases, each in place of the recipe's vllm"
    )
    patches: dict[MatrixName, tuple[PatchId, ...]] | None = Field(
        None, description="sets of the recipe's patches by name; [] is pristine"
    )
    models: tuple[ModelName, ...] | None = Field(
        None, description="models of the plan; each row of cells runs with each"
    )
    hardware: dict[MatrixName, Needs] | None = Field(
        None, description="kinds of machines by name, and what they have"
    )

    @model_validator(mode="after")
    def _multiplies_something(self) -> MatrixDeclaration:
        if not self.model_fields_set:
            raise ValueError("a matrix has vllm, patches, models or hardware")
        # Not by a least length: if all values are wrong, the list is empty too.
        for name in self.model_fields_set:
            values = getattr(self, name)
            if not values:
                raise ValueError(f"{name} is empty")
            if len(set(values)) < len(values):
                raise ValueError(f"{name} has a value twice")
        return self
