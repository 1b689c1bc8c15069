"""What of a recipe selects a source and patches, kept from one run to the next.

To parse a recipe and to check it takes 20 ms, and what that needs takes 0.3 s to import.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from vpatch.trust.decision import changed_while_read
from vpatch.util.own_code import code_digest
from vpatch.util.record_store import RecordStore
from vpatch.util.untrusted import LARGEST_BESIDE, read_file

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from vpatch.declare.recipe import PinDeclaration, RecipeDeclaration, UnsettledDeclaration
    from vpatch.declare.yamlfile import Positions


@dataclass(frozen=True)
class RecipePin:
    """A `PinDeclaration`; see there."""

    source: str
    sha256: str | None


@dataclass(frozen=True)
class UnsettledPatches:
    """An `UnsettledDeclaration`; see there."""

    release: str
    patches: tuple[str, ...]


@dataclass(frozen=True)
class RecipeSelection:
    """The keys of a `RecipeDeclaration` that say what is patched, and with what; see there."""

    vllm: RecipePin
    trees: Mapping[str, RecipePin]
    patches: tuple[str, ...]
    strict: bool
    security: str | None
    unsettled: UnsettledPatches | None


class Recipes:
    """Recipes, each read once a run.

    In `records` lies what earlier runs read of them, if anywhere.
    """

    def __init__(self, records: Path | None) -> None:
        self._store = None if records is None else RecordStore(records)
        self._read: dict[Path, tuple[RecipeDeclaration, Positions]] = {}
        # With the bytes that they are of.
        self._selected: dict[Path, tuple[RecipeSelection, bytes]] = {}

    def read(self, path: Path) -> tuple[RecipeDeclaration, Positions]:
        """Read all of a recipe.

        Raises:
            DeclarationError: it cannot be read, or is wrong.
            UntrustedError: it was changed since its selection was taken.
        """
        from vpatch.declare.recipe import RecipeDeclaration  # noqa: PLC0415 - see above
        from vpatch.declare.yamlfile import read_yaml  # noqa: PLC0415

        if path not in self._read:
            declaration, positions = read_yaml(path, RecipeDeclaration)
            if path in self._selected and self._selected[path][1] != positions.content:
                raise changed_while_read(path)
            self._read[path] = declaration, positions
        return self._read[path]

    def selection(self, path: Path) -> RecipeSelection:
        """Return what of a recipe selects.

        Raises:
            DeclarationError: it cannot be read, or is wrong.
        """
        if path not in self._selected:
            self._selected[path] = self._recall(path) or self._select(path)
        return self._selected[path][0]

    def _recall(self, path: Path) -> tuple[RecipeSelection, bytes] | None:
        if self._store is None or path in self._read:
            return None
        with suppress(OSError):
            content = read_file(path, LARGEST_BESIDE)
            selection = self._store.get(_key(content), _selection)
            if selection is not None:
                return selection, content
        return None

    def _select(self, path: Path) -> tuple[RecipeSelection, bytes]:
        declaration, positions = self.read(path)
        trees = {name: _pin_of(pin) for name, pin in declaration.trees.items()}
        selection = RecipeSelection(
            _pin_of(declaration.vllm),
            trees,
            declaration.patches,
            declaration.strict,
            declaration.security,
            _unsettled_of(declaration.unsettled),
        )
        if self._store is not None:
            self._store.put(_key(positions.content), asdict(selection))
        return selection, positions.content


def _pin_of(pin: PinDeclaration) -> RecipePin:
    return RecipePin(pin.source, pin.sha256)


def _unsettled_of(declared: UnsettledDeclaration | None) -> UnsettledPatches | None:
    return None if declared is None else UnsettledPatches(declared.release, declared.patches)


def _key(content: bytes) -> str:
    """By its bytes alone: nothing else decides what they mean to this code."""
    return hashlib.sha256(f"{code_digest()} recipe\n".encode() + content).hexdigest()[:32]


def _selection(record: Mapping[str, Any]) -> RecipeSelection:
    unsettled = record["unsettled"]
    return RecipeSelection(
        RecipePin(**record["vllm"]),
        {name: RecipePin(**pin) for name, pin in record["trees"].items()},
        tuple(record["patches"]),
        record["strict"],
        record["security"],
        unsettled and UnsettledPatches(unsettled["release"], tuple(unsettled["patches"])),
    )
