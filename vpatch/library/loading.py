"""Read a patch from disk, and check all of it. None of its code runs."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from vpatch.codemods.bind import BoundEdit, bind, inside_tree
from vpatch.codemods.pattern import parse_pattern
from vpatch.codemods.snippet import beside
from vpatch.declare.errors import DeclarationError
from vpatch.declare.patch import PatchDeclaration
from vpatch.declare.yamlfile import Positions, read_yaml
from vpatch.errors import UsageError, VpatchError, combine
from vpatch.library.patch import DECLARATION, BoundVariant, Patch
from vpatch.library.shapes import read_shapes
from vpatch.util.digest import digest_of_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from vpatch.declare.edits import Predicate
    from vpatch.declare.yamlfile import Declared
    from vpatch.trust.decision import Trust

_T = TypeVar("_T")
# What describes a patch, and does not change its effect.
_TALK = {"proof", "proposal", "upstream", "not_for_upstream", "resolves", "license"}


def where_named(patch: Patch, key: str, other: str) -> str:
    """The line that names another patch under a key; for an error, so it is read anew."""
    _, positions = read_yaml(patch.folder / DECLARATION, PatchDeclaration)
    return positions.where([key, getattr(patch.declaration, key).index(other)])


def load_patch(folder: Path, trust: Trust) -> Patch:
    """Read and check one patch; none of its code runs.

    Raises:
        UsageError: the declaration or something that it names is wrong; `ManyErrors` for several.
    """
    declaration, positions = read_yaml(folder / DECLARATION, PatchDeclaration)
    if declaration.id != folder.name:
        raise DeclarationError(
            f"the id {declaration.id!r} is not the folder's name {folder.name!r}",
            where=positions.where(["id"]),
            hint="rename one of the two",
            code="library.wrong-id",
        )
    trial = _Trial(positions)
    variants = tuple(_bind_variants(declaration, folder, trust, trial))
    for location, predicate in _predicates(declaration):
        trial.run(location, partial(_check_predicate, predicate))
    for index, proof in enumerate(declaration.proof):
        trial.run(("proof", index, "test"), partial(beside, folder, proof.test))
        for tree, place in proof.trees.items():
            trial.run(("proof", index, "trees", tree), partial(_folder_beside, folder, place))
    if trial.errors:
        raise combine(trial.errors)
    digest = _digest(declaration, folder, variants)
    return Patch(declaration, folder, variants, digest, read_shapes(folder))


@dataclass(frozen=True)
class _Trial:
    """Tries what a declaration names, and keeps each error with the line that it is about."""

    positions: Positions
    errors: list[VpatchError] = field(default_factory=list)

    def run(self, location: Sequence[int | str], action: Callable[[], _T]) -> _T | None:
        try:
            return action()
        except UsageError as error:
            where = self.positions.where(location)
            what = f"{error.where}: {error.what}" if error.where else error.what
            declared = DeclarationError(what, where=where, hint=error.hint, code=error.code)
            self.errors.append(declared)
            return None


def _bind_variants(
    declaration: PatchDeclaration, folder: Path, trust: Trust, trial: _Trial
) -> Iterator[BoundVariant]:
    groups: list[tuple[tuple[int | str, ...], str | None, Predicate | None, Sequence[Declared]]] = [
        (("variants", index, "edits"), variant.name, variant.when, variant.edits)
        for index, variant in enumerate(declaration.variants)
    ]
    for location, name, when, edits in groups or [(("edits",), None, None, declaration.edits)]:
        bound: list[BoundEdit] = []
        for index, edit in enumerate(edits):
            bound += trial.run((*location, index), partial(bind, edit, folder, trust)) or []
        yield BoundVariant(name, when, tuple(bound))


def _predicates(
    declaration: PatchDeclaration,
) -> Iterator[tuple[tuple[int | str, ...], Predicate]]:
    yield ("concerns",), declaration.concerns
    if declaration.effect is not None:
        yield ("effect",), declaration.effect
    for index, variant in enumerate(declaration.variants):
        if variant.when is not None:
            yield ("variants", index, "when"), variant.when


def _folder_beside(folder: Path, place: str) -> Path:
    path = folder / place
    if not path.is_dir() or not path.resolve().is_relative_to(folder.resolve()):
        raise UsageError(
            f"there is no folder {place!r} beside the patch",
            hint="correct the name, or add the folder",
            code="library.no-such-folder",
        )
    return path


def _check_predicate(predicate: Predicate) -> None:
    if predicate.find is not None:
        parse_pattern(predicate.find)
    for pattern in predicate.unless or ():
        parse_pattern(pattern)
    for path in predicate.files or ():
        inside_tree(path)
    for inner in (*(predicate.all_ or ()), *(predicate.any_ or ()), *(predicate.none or ())):
        _check_predicate(inner)


def _digest(declaration: PatchDeclaration, folder: Path, variants: Sequence[BoundVariant]) -> str:
    declared = declaration.model_dump(mode="json", exclude_defaults=True, exclude=_TALK)
    used = {path for variant in variants for edit in variant.edits for path in edit.uses}
    parts = {path.relative_to(folder).as_posix(): path.read_bytes() for path in used}
    parts[DECLARATION] = json.dumps(declared, sort_keys=True).encode()
    return digest_of_files(parts)
