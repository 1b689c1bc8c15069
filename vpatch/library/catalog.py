"""Where patches and recipes are found: a project's own first, then the library that comes along."""

from __future__ import annotations

import difflib
import os
import re
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from vpatch.declare.errors import DeclarationError
from vpatch.declare.settings import settings_file
from vpatch.errors import ManyErrors, UsageError, VpatchError, combine
from vpatch.library.kept import read_patch
from vpatch.library.patch import DECLARATION
from vpatch.library.recipe import Recipes
from vpatch.trust.decision import NOTHING, Trust
from vpatch.util.plural import listed
from vpatch.util.untrusted import LARGEST_BESIDE, read_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from vpatch.declare.recipe import RecipeDeclaration
    from vpatch.declare.yamlfile import Positions
    from vpatch.library.patch import Patch
    from vpatch.library.recipe import RecipeSelection


# The folder with backports of security fixes, in a folder of patches.
SECURITY = "security"
# How many names a message lists; more would hide the rest of it.
_LISTED = 8
_RELEASE = re.compile(r"\d+\.\d+(\.\d+)?")


@dataclass(frozen=True)
class Library:
    """All patches, recipes and targets at hand.

    `own` are the ids of a project's own patches, without copies of the library's. `security` are
    the ids of backports of security fixes, which somebody must ask for. `notes` say which patch
    hides another. `folder` is the project's, as seen from the current one. `homes` says for recipes
    that lie elsewhere for now, which file their relative paths are seen from. In `records` lies
    what earlier runs read of patches and recipes, if anywhere.
    """

    patches: Mapping[str, Path]
    recipes: Mapping[str, Path]
    targets: Mapping[str, Path]
    own: frozenset[str]
    notes: tuple[str, ...]
    folder: Path = Path()
    trust: Trust = NOTHING
    records: Path | None = None
    security: frozenset[str] = frozenset()
    homes: Mapping[Path, Path] = field(default_factory=dict)

    @property
    def usual(self) -> list[str]:
        """The ids of the patches that are not backports of security fixes, in order."""
        return sorted(self.patches.keys() - self.security)

    @cached_property
    def in_project(self) -> list[str]:
        """The ids of the patches that lie in the project, in order, if any of them is its own.

        vpatch's checkout has copies of the library's alone.
        """
        patches = sorted(self.patches.items()) if self.own else []
        return [name for name, folder in patches if not came_along("patches", folder)]

    @property
    def of_project(self) -> list[str]:
        """The same without backports of security fixes."""
        return [name for name in self.in_project if name not in self.security]

    @property
    def own_recipes(self) -> dict[str, Path]:
        """The recipes that did not come with vpatch."""
        recipes = self.recipes.items()
        return {name: path for name, path in recipes if not came_along("recipes", path)}

    @cached_property
    def _patches_read(self) -> dict[str, Patch]:
        return {}

    @cached_property
    def _recipes(self) -> Recipes:
        return Recipes(self.records)

    def read_recipe(self, path: Path) -> tuple[RecipeDeclaration, Positions]:
        """Read a recipe, once a run: all that is taken from it is from the same bytes.

        Raises:
            DeclarationError: it cannot be read, or is wrong.
        """
        return self._recipes.read(path)

    def recipe_selection(self, path: Path) -> RecipeSelection:
        """Return what of a recipe selects, from what was kept of it if that is at hand.

        Raises:
            DeclarationError: it cannot be read, or is wrong.
        """
        return self._recipes.selection(path)

    def patch(self, patch_id: str) -> Patch:
        """Load one patch, once a run: each question is about the same bytes.

        Raises:
            UsageError: there is no such patch, its declaration is wrong, or it requires or
                conflicts with a patch that is not there.
        """
        if patch_id not in self._patches_read:
            self._patches_read[patch_id] = self._read_patch(patch_id)
        return self._patches_read[patch_id]

    def _read_patch(self, patch_id: str) -> Patch:
        if patch_id not in self.patches:
            raise _unknown("patch", patch_id, self.patches)
        patch = self._load(self.patches[patch_id])
        relations = patch.relations
        errors: list[VpatchError] = [
            self._missing(patch, key, verb, other)
            for key, verb, others in (
                ("requires", "requires", relations.requires),
                ("conflicts", "conflicts with", relations.conflicts),
            )
            for other in others
            if other not in self.patches
        ]
        if errors:
            raise combine(errors)
        return patch

    def _load(self, folder: Path) -> Patch:
        if self.records is not None:
            return read_patch(folder, self.trust, self.records)
        from vpatch.library.loading import load_patch  # noqa: PLC0415 - takes 0.5 s to import

        return load_patch(folder, self.trust)

    def _missing(self, patch: Patch, key: str, verb: str, other: str) -> DeclarationError:
        from vpatch.library.loading import where_named  # noqa: PLC0415 - as above

        return DeclarationError(
            f"it {verb} {other!r}, and there is no such patch",
            where=where_named(patch, key, other),
            hint=_unknown("patch", other, self.patches).hint,
            code="library.unknown-name",
        )

    def nearest(self, patch_id: str) -> str | None:
        """Ask whether the patch with the most similar id was meant."""
        near = difflib.get_close_matches(patch_id, self.patches, n=1)
        return f"did you mean {near[0]!r}?" if near else None

    def load(self, ids: Iterable[str]) -> list[Patch]:
        """Load several patches, and report everything that is wrong with any of them."""
        patches: list[Patch] = []
        errors: list[VpatchError] = []
        for patch_id in ids:
            try:
                patches.append(self.patch(patch_id))
            except UsageError as error:
                errors.append(error)
            except ManyErrors as error:
                errors.extend(error.errors)
        if errors:
            raise combine(errors)
        return patches

    def load_all(self) -> list[Patch]:
        """Load every patch, in the order of the ids."""
        return self.load_named(())

    def load_named(self, ids: Sequence[str]) -> list[Patch]:
        """Load these patches, or every one, in the order of the ids, if none is named."""
        return self.load(ids or sorted(self.patches))

    def recipe(self, name: str) -> Path:
        """Find a recipe by its name, or by its path.

        Raises:
            UsageError: there is none.
        """
        if name in self.recipes:
            return self.recipes[name]
        path = Path(name)
        if path.suffix in {".yaml", ".yml"} and path.is_file():
            return path
        error = _unknown("recipe", name, self.recipes)
        if release := _RELEASE.search(name):
            error.hint = f"{error.hint} For the release without a recipe: --vllm {release[0]}"
        raise error

    @property
    def code(self) -> list[Path]:
        """What is not of the installed library: folders of patches, files of recipes, targets."""
        kinds = {"patches": self.patches, "recipes": self.recipes, "targets": self.targets}
        return [
            path
            for kind, paths in kinds.items()
            for path in paths.values()
            if not came_along(kind, path)
        ]

    def target(self, name: str) -> Path:
        """Find a target by its name.

        Raises:
            UsageError: there is none.
        """
        if name not in self.targets:
            raise _unknown("target", name, self.targets)
        return self.targets[name]


def find_library(
    folder: Path,
    patches: Sequence[Path] = (),
    recipes: Sequence[Path] = (),
    trust: Trust = NOTHING,
    records: Path | None = None,
) -> Library:
    """Look in the folders given, then in those of the settings, `folder` itself, and the library.

    `trust` decides which code of what is found may run. In `records` lies what was read of patches.

    Raises:
        UsageError: a folder that was named is not there, or holds something that is not a patch.
    """
    settings = _settings(folder)
    notes: list[str] = []
    merged: dict[str, dict[str, Path]] = {}
    for kind, named in (("patches", patches), ("recipes", recipes), ("targets", ())):
        roots = _roots(folder, kind, [*named, *(folder / name for name in settings[kind])])
        scan = _patches_in if kind == "patches" else _files_in
        paths = merged[kind] = {}
        copied: list[str] = []
        for root, is_named in roots:
            for name, path in scan(root, is_named=is_named):
                if name not in paths:
                    paths[name] = path
                elif _content(paths[name]) == _content(path):
                    continue
                elif came_along(kind, path):
                    copied.append(name)
                else:
                    notes.append(f"{paths[name]} hides {path}")
        if copied:
            notes.append(f"used instead of the {kind} that came with vpatch: {listed(copied)}")
    theirs = installed("patches")
    own = frozenset(
        name
        for name, path in merged["patches"].items()
        if not path.is_relative_to(theirs)
        and not any(_is_copy(path, theirs / group / name) for group in ("", SECURITY))
    )
    return Library(
        merged["patches"],
        merged["recipes"],
        merged["targets"],
        own=own,
        notes=tuple(notes),
        folder=Path(os.path.relpath(folder)),
        trust=trust,
        records=records,
        security=frozenset(
            name for name, path in merged["patches"].items() if path.parent.name == SECURITY
        ),
    )


def _settings(folder: Path) -> Mapping[str, Sequence[str]]:
    if settings_file(folder) is None:
        return dict.fromkeys(("patches", "recipes", "targets"), ())
    from vpatch.declare.project_settings import read_settings  # noqa: PLC0415 - needs pydantic

    return read_settings(folder).model_dump()


def _is_copy(path: Path, original: Path) -> bool:
    """In a checkout of vpatch itself, its patches are at hand twice."""
    return original.is_dir() and _content(path) == _content(original)


def _content(path: Path) -> dict[str, bytes | None]:
    """What a patch's folder or a recipe's file holds, to tell a copy from something else."""
    files = [p for p in path.rglob("*") if p.is_file()] if path.is_dir() else [path]
    return {str(p.relative_to(path)): _bytes(p) for p in files if p.suffix != ".pyc"}


def _bytes(path: Path) -> bytes | None:
    try:
        return read_file(path, LARGEST_BESIDE)
    except OSError:
        return None  # whatever it is, it is not a copy


def installed(kind: str) -> Path:
    """Return the library's own folder: inside the package in a wheel, beside it in a checkout."""
    package = Path(__file__).resolve().parents[1]
    inside = package / "data" / kind
    return inside if inside.is_dir() else package.parent / kind


def came_along(kind: str, path: Path) -> bool:
    """Whether something lies in the library's own folder, and not in a project."""
    return path.is_relative_to(installed(kind))


def root_of(folder: Path) -> Path:
    """Return the folder of patches that a patch's folder lies in."""
    root = folder.parent
    return root.parent if root.name == SECURITY else root


def is_installed(folder: Path) -> bool:
    """Whether something came with the installed package: then an update of vpatch replaces it."""
    return folder.resolve().is_relative_to(Path(__file__).resolve().parents[1])


def _roots(folder: Path, kind: str, named: Sequence[Path]) -> Iterator[tuple[Path, bool]]:
    library = installed(kind)
    seen: set[Path] = set()
    for path, is_named in [(p, True) for p in named] + [(folder / kind, False), (library, True)]:
        if path.resolve() == library and path != library:
            continue  # the current folder is vpatch's own checkout
        if path.resolve() in seen:
            continue
        seen.add(path.resolve())
        if path.is_dir():
            yield path, is_named
        elif is_named:
            raise UsageError(
                f"there is no folder {path}",
                hint=f"correct the folder of {kind}",
                code="library.no-such-folder",
            )


def _patches_in(root: Path, *, is_named: bool) -> Iterator[tuple[str, Path]]:
    folders = _folders(root)
    if root / SECURITY in folders and not (root / SECURITY / DECLARATION).exists():
        folders.remove(root / SECURITY)
        folders += _folders(root / SECURITY)
    declared = [folder for folder in folders if (folder / DECLARATION).is_file()]
    # Other tools keep folders called patches, too; one with any patch.yaml is ours.
    if is_named or declared:
        for folder in folders:
            if folder not in declared:
                raise UsageError(
                    f"has no {DECLARATION}, so it is not a patch",
                    where=str(folder),
                    hint=f"declare it in {DECLARATION}, or move it elsewhere",
                    code="library.wrong-file",
                )
    for folder in declared:
        yield folder.name, folder


def _folders(root: Path) -> list[Path]:
    return sorted(p for p in root.iterdir() if p.is_dir() and not p.name.startswith((".", "_")))


def _files_in(root: Path, *, is_named: bool) -> Iterator[tuple[str, Path]]:
    for path in sorted(root.iterdir()):
        if path.suffix == ".yaml":
            yield path.stem, path
        elif path.suffix == ".yml" and is_named:
            raise UsageError(
                "the name of a declaration ends in .yaml",
                where=str(path),
                hint="rename it",
                code="library.wrong-file",
            )


def _unknown(kind: str, name: str, known: Iterable[str]) -> UsageError:
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1)
    if near:
        hint = f"did you mean {near[0]!r}?"
    elif len(names) > _LISTED:
        hint = f"nothing has a similar name; vpatch list shows every {kind}"
    else:
        hint = f"there are: {', '.join(names) or 'none'}"
    return UsageError(f"there is no {kind} {name!r}", hint=hint, code="library.unknown-name")
