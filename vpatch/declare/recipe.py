"""recipe.yaml: what to build."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from vpatch.declare.bench import Bench
from vpatch.declare.edits import Text
from vpatch.declare.matrix import MatrixDeclaration
from vpatch.declare.patch import PatchId, TreeName
from vpatch.declare.smoke import Smoke
from vpatch.declare.yamlfile import Declared


class PinDeclaration(Declared):
    """A source: a release's version, or a folder or repository as `--vllm` takes them."""

    source: Text = Field(description="0.23.0, PATH, PATH@ref or URL@ref")
    sha256: str | None = Field(
        None, pattern=r"^[0-9a-f]{64}$", description="of the release's source archive"
    )


Pinned = Annotated[
    PinDeclaration,
    BeforeValidator(
        lambda v: {"source": v} if isinstance(v, str) else v,
        json_schema_input_type=PinDeclaration | Text,
    ),
]


def _runs_nothing(text: str) -> str:
    # A recipe may be of a project that nobody trusts, and `env:PYTHON` runs that Python.
    if "env:" in text:
        raise ValueError("name a folder, a wheel, a Python file or NAME==VERSION, and no env:")
    return text


Plugin = Annotated[Text, AfterValidator(_runs_nothing)]


class ImageDeclaration(Declared):
    base: Text


class UnsettledDeclaration(Declared):
    release: Text = Field(description="the release that the recipe goes to")
    patches: tuple[PatchId, ...] = Field(min_length=1, description="those that do not fit it yet")


class RecipeDeclaration(Declared):
    why: str | None = None
    vllm: Pinned
    trees: dict[TreeName, Pinned] = Field(default_factory=dict)
    patches: tuple[PatchId, ...] = ()
    plugins: tuple[Plugin, ...] = Field(
        (), description="code outside vLLM that uses it: `vpatch bump` says what a release breaks"
    )
    unsettled: UnsettledDeclaration | None = Field(
        None,
        description="what `vpatch bump --write` leaves to a person; `--continue` takes it out",
    )
    security: Literal["all"] | None = Field(
        None, description="take every backport of a security fix that the code needs, as well"
    )
    strict: bool = Field(
        default=False,
        description="stop at a patch whose code differs from every release that it is recorded for",
    )
    image: ImageDeclaration | None = None
    smoke: Smoke | None = None
    bench: Bench | None = None
    matrix: MatrixDeclaration | None = None

    @model_validator(mode="after")
    def _some_patches(self) -> RecipeDeclaration:
        if not self.patches and self.security is None:
            raise ValueError("give at least one patch, or security: all")
        return self
