"""shapes.json: the code that a patch is known on, and how it was proven there.

`vpatch test --record` writes it beside the patch. Nobody edits it by hand.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Literal

from packaging.version import Version
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from vpatch.errors import UsageError
from vpatch.util.files import replace_file
from vpatch.util.untrusted import MEGABYTE, read_file
from vpatch.util.validation import first_of
from vpatch.util.versions import read_version

if TYPE_CHECKING:
    from pathlib import Path

SHAPES = "shapes.json"
_LARGEST = 16 * MEGABYTE


class ShapesError(UsageError):
    """A patch's shapes.json is damaged, or a later vpatch wrote it."""

    code = "library.damaged-shapes"


class _Recorded(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


def _release(name: str) -> str:
    if read_version(name) is None:
        raise ValueError("is not a version")
    return name


_Release = Annotated[str, AfterValidator(_release)]
_Key = Annotated[str, Field(pattern="::")]


class KnownShape(_Recorded):
    """The definitions that a patch reads and edits in some releases, and what it means there."""

    releases: Annotated[tuple[_Release, ...], Field(min_length=1)]
    """The releases that have exactly these definitions, in order."""
    state: str
    variant: str | None
    definitions: dict[_Key, str]
    """`PATH::QUALIFIED.NAME` of each definition, and the digest of its syntax."""
    patched: dict[_Key, str] = {}
    """The same for the tree that the patch makes; empty unless the patch is needed there."""
    examples: tuple[str, ...] = ()
    """The patch's examples that have the same code at the places that the patch edits."""


class Surrounding(_Recorded):
    """Where code around what a patch reads means the same. Releases have spaces between them."""

    releases: str = ""
    patched: str = ""
    """The releases that have it once the patch is applied."""

    def has(self, release: str, *, patched: bool) -> bool:
        return release in (self.patched if patched else self.releases).split()


class BehaviourOnRelease(_Recorded):
    """What one behaviour test showed in an engine with one release."""

    test: str
    """The name of the test's file."""
    engine: Literal["cpu", "cuda"]
    outcome: Literal["holds", "contradicts", "not asked"]
    reason: str | None = None
    """Why it was not asked, or what contradicts the state."""
    state: str
    """The state of the patch in this release when the test ran."""
    patch_digest: str
    test_digest: str
    change_digest: str | None = None
    """What the patch makes of the release: a result counts for each edition that makes the same."""


class BehaviourInRecipe(_Recorded):
    """What one behaviour test showed on what a recipe makes, where others change the same code."""

    recipe: str
    test: str | None = None
    """The name of the test's file; None where the patch is absent, so that nothing can run."""
    engine: Literal["cpu", "cuda"] | None = None
    outcome: Literal["holds", "contradicts", "not asked"]
    reason: str | None = None
    state: str
    """The state of the patch in what the recipe makes."""
    code: str
    """A digest of the definitions that the patch reads there."""
    around: str | None = None
    """A digest of the definitions around these; None where none was recorded."""
    patch_digest: str
    test_digest: str | None = None


class Shapes(_Recorded):
    """All that is recorded of one patch, by the name of the tree, such as `vllm`."""

    schema_version: Literal[1] = 1
    patch_digest: str
    """The digest of the patch that the shapes were read with."""
    shapes: dict[str, tuple[KnownShape, ...]] = {}
    archives: dict[str, dict[_Release, str]] = {}
    """The digests of the archives that were read, by release."""
    surroundings: dict[str, dict[_Key, dict[str, Surrounding]]] = {}
    """`PATH::QUALIFIED.NAME` of each definition around these, and a digest of what it means."""
    behaviour: dict[str, dict[_Release, tuple[BehaviourOnRelease, ...]]] = {}
    """By release, then one entry for each behaviour test."""
    in_recipes: dict[str, dict[_Release, tuple[BehaviourInRecipe, ...]]] = {}
    """The same for what recipes make of releases, where the code is not that of the patch alone."""

    def releases(self, tree: str) -> list[str]:
        """Return the releases that have a known shape, in order."""
        return sorted(
            {release for known in self.shapes.get(tree, ()) for release in known.releases},
            key=Version,
        )

    def surroundings_in(
        self, tree: str, release: str, *, patched: bool = False
    ) -> dict[str, str] | None:
        """Return the definitions around what the patch reads in a release, with digests.

        With `patched`, those in what the patch makes of the release. None where none are recorded.
        """
        if release not in self.archives.get(tree, {}):
            return None
        return {
            key: digest
            for key, digests in self.surroundings.get(tree, {}).items()
            for digest, surrounding in digests.items()
            if surrounding.has(release, patched=patched)
        }


def read_shapes(folder: Path) -> Shapes | None:
    """Read what is recorded beside a patch; None where nothing is.

    Raises:
        ShapesError: the file is damaged, or cannot be read.
    """
    path = folder / SHAPES
    try:
        return Shapes.model_validate_json(read_file(path, _LARGEST))
    except FileNotFoundError:
        return None
    except ValidationError as error:
        raise ShapesError(
            f"is not a record of shapes: {first_of(error)}",
            where=str(path),
            hint=f"remove it, and run vpatch test {folder.name} --record",
        ) from error
    except OSError as error:
        raise ShapesError(
            f"cannot be read: {error.strerror}",
            where=str(path),
            hint=f"correct it, or remove it and run vpatch test {folder.name} --record",
        ) from error


def write_shapes(folder: Path, shapes: Shapes) -> None:
    """Write what is recorded beside a patch, all of it or nothing."""
    # A later vpatch must know what it reads, so the version is always there.
    written = {
        "schema_version": shapes.schema_version,
        **shapes.model_dump(mode="json", exclude_defaults=True),
    }
    text = json.dumps(written, indent=1, ensure_ascii=False)
    replace_file(folder / SHAPES, f"{text}\n")
