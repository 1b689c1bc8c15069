"""A request of the user, or a recipe, becomes selections: a source, and the patches for it."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vpatch.declare.errors import DeclarationError
from vpatch.errors import ConflictingOptionsError, MissingOptionError, UsageError
from vpatch.source.index import parse_version
from vpatch.source.spec import ENVIRONMENT, parse_tree, parse_vllm
from vpatch.util.plural import listed
from vpatch.workspace.unsettled_recipe import refuse_unsettled

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    from vpatch.library.catalog import Library
    from vpatch.library.patch import Patch
    from vpatch.library.recipe import RecipePin, RecipeSelection
    from vpatch.source.spec import TreeSpec
    from vpatch.workspace.context import Context


@dataclass(frozen=True)
class Request:
    """What the command line asks for; `patches` narrows the choice, empty means all.

    A `strict` request stops at new shapes, as a recipe may declare. `security` is `all` to take
    every backport of a security fix that the code needs, beside the other patches. `library` asks
    for the library's patches beside those of a project that has its own.
    """

    vllm: str | None = None
    recipe: str | None = None
    trees: tuple[str, ...] = ()
    patches: tuple[str, ...] = ()
    strict: bool = False
    security: str | None = None
    library: bool = False

    @property
    def names_vllm(self) -> bool:
        """Whether it says which vLLM the patches are for."""
        return self.vllm is not None or self.recipe is not None

    def or_what_is_there(self, source: str) -> Request:
        """Return the same request, for a source as `--vllm` names it unless it names a vLLM."""
        return self if self.names_vllm else replace(self, vllm=source)


@dataclass(frozen=True)
class Selection:
    """One tree to patch. `recipe` is None where the whole library was looked through.

    `left_out` are those patches of the library that are only taken on request; `chosen` are the ids
    that somebody named, none where nobody did. `strict` says that a new shape stops the run.
    `security` says that somebody asked for all backports of security fixes. `own_only` says that
    nobody named patches, and that those of the project were taken without the library's.
    """

    spec: TreeSpec
    patches: tuple[Patch, ...]
    recipe: str | None = None
    expected_digest: str | None = None
    left_out: tuple[Patch, ...] = ()
    chosen: tuple[str, ...] = ()
    strict: bool = False
    security: str | None = None
    own_only: bool = False

    @property
    def asked_for(self) -> bool:
        """Whether somebody named the patches, or a recipe did."""
        return bool(self.recipe or self.chosen)

    @property
    def alone(self) -> frozenset[str]:
        """What nobody asked for: what it would mean is told, and no other patch meets it."""
        ids = (p.id for p in self.patches if p.relations.on_request is not None)
        return frozenset() if self.asked_for else frozenset(ids)


def resolve(
    request: Request, library: Library, *, whole_library: bool = False, unsettled: bool = False
) -> list[Selection]:
    """Turn a request into selections. With `whole_library`, a version does not mean its recipe.

    Nor does it where patches are named: then it is these, and those that they require. Without
    either, patches that are there on request are left out. With `whole_library`, a recipe and a
    version together ask the recipe's patches against that version instead of the recipe's own.

    In a project with patches of its own, a version means the project's recipe for it, or else all
    patches of the project. The library's recipe and patches are for who names them.

    With `unsettled`, the recipe may be so: nothing is made of it.

    Raises:
        UnsettledRecipeError: the recipe is unsettled.
        UsageError: it asks for nothing, for things that do not exist, or for patches that concern
            none of its trees.
    """
    if request.vllm and request.recipe and not whole_library:
        raise ConflictingOptionsError(
            "--vllm and --recipe both name a vLLM",
            hint="give one of the two; vpatch status takes both, and shows the recipe's patches "
            "for that vLLM",
        )
    _refuse_library_beside(request)
    own_only = bool(library.of_project) and not request.library
    name = request.recipe
    if request.vllm and not (whole_library or request.patches or request.library):
        name = _recipe_for(request.vllm, library, own_only=own_only)
    root = library.folder
    trees: list[tuple[TreeSpec, RecipePin | None]] = []
    extra = [(parse_tree(text, root), None) for text in request.trees]
    left_out: list[Patch] = []
    recipe: RecipeSelection | None = None
    if name:
        instead = parse_vllm(request.vllm, root) if request.vllm and request.recipe else None
        path = library.recipe(name)
        recipe = read_recipe(path, library)
        if not unsettled:
            refuse_unsettled(path, library)
        narrowed = _narrowed(recipe, path.stem, request.patches)
        patches = with_security(narrowed, request.security or recipe.security, library)
        pins = [*([] if instead else [("vllm", recipe.vllm)]), *recipe.trees.items()]
        home = library.homes.get(path, path)
        trees += [(instead, None)] if instead else []
        trees += [(spec_of(tree, pin, home, root), pin) for tree, pin in pins]
    elif request.vllm or extra:
        trees += [(parse_vllm(request.vllm, root), None)] if request.vllm else []
        ids = request.patches or (library.of_project if own_only else library.usual)
        patches = with_required([*ids, *_security_ids(request.security, library)], library)
        if not request.patches and not whole_library:
            left_out = on_request(patches)
            ids_left_out = {patch.id for patch in left_out}
            patches = [patch for patch in patches if patch.id not in ids_left_out]
    else:
        own = sorted(library.own_recipes)
        raise MissingOptionError(
            "no option says which vLLM to use",
            hint=(
                "give --vllm VERSION, --tree NAME==VERSION or --recipe NAME "
                f"({f'there is: {listed(own)}' if own else 'vpatch list shows every recipe'})"
            ),
        )
    jobs = [
        Selection(
            spec,
            _concerning(patches, spec),
            recipe=path.stem if recipe else None,
            expected_digest=f"sha256:{pin.sha256}" if pin is not None and pin.sha256 else None,
            left_out=_concerning(left_out, spec),
            chosen=tuple(dict.fromkeys(request.patches)),
            strict=request.strict or bool(recipe and recipe.strict),
            security=request.security,
            own_only=own_only and not (recipe or request.patches),
        )
        for spec, pin in [*trees, *extra]
    ]
    if recipe is not None:
        _refuse_unused(recipe, path, jobs, library)
    if not whole_library:
        _refuse_twice(jobs)
    _refuse_idle(request.patches, jobs, library)
    return jobs


def _refuse_library_beside(request: Request) -> None:
    for option, is_there in (("--recipe", request.recipe), ("--patch", request.patches)):
        if request.library and is_there:
            raise ConflictingOptionsError(
                f"--library and {option} both say which patches to use", hint="give one of the two"
            )


def one_tree(vllm: str | None, tree: str | None, root: Path, command: str) -> TreeSpec:
    """Return the one tree that `--vllm` or `--tree` names; `root` is as in `parse_vllm`.

    Raises:
        UsageError: none is named, both are, or it is not a tree.
    """
    if vllm is not None and tree is not None:
        raise ConflictingOptionsError(
            "--vllm and --tree both name a tree", hint=f"give one: vpatch {command} takes one tree"
        )
    if tree is not None:
        return parse_tree(tree, root)
    if vllm is None:
        raise MissingOptionError(
            "missing option '--vllm'",
            hint=f"add --vllm VERSION; see vpatch {command} --help",
        )
    return parse_vllm(vllm, root)


def note_library(context: Context, selections: Sequence[Selection]) -> None:
    """Say that the patches of the library were left out, if nobody asked for any."""
    if selections[0].own_only:
        library = context.library
        taken = {patch.id for one in selections for patch in one.patches}
        note_left_out(context, {*library.usual} - {*library.of_project} - taken)


def note_left_out(context: Context, ids: Collection[str]) -> None:
    """Say how many patches of the library are left out in favour of the project's own."""
    if ids:
        context.note_once(
            f"these are the project's own patches; --library adds {len(ids)} of the library"
        )


def _refuse_twice(jobs: Sequence[Selection]) -> None:
    trees = [job.spec.tree for job in jobs]
    twice = next((tree for tree in trees if trees.count(tree) > 1), None)
    if twice is not None:
        raise ConflictingOptionsError(
            f"the tree {twice} is named twice",
            hint="leave one out: a recipe names its own trees, and --vllm names vllm",
        )


def _security_ids(asked: str | None, library: Library) -> list[str]:
    if asked is None:
        return []
    if not library.security:
        raise UsageError(
            "there are no backports of security fixes",
            hint="put them into patches/security/, or leave out --security and security:",
            code="library.no-security-patches",
        )
    return sorted(library.security)


def with_required(ids: Sequence[str], library: Library) -> list[Patch]:
    """Load patches, and those that they require."""
    patches = library.load(ids)
    known = {patch.id for patch in patches}
    for patch in patches:  # grows while it is walked
        missing = [r for r in patch.relations.requires if r not in known]
        patches += library.load(missing)
        known.update(missing)
    return patches


def with_security(ids: Sequence[str], security: str | None, library: Library) -> list[Patch]:
    """Load the patches of a recipe, then the backports of security fixes that it asks for.

    Raises:
        UsageError: a patch is wrong, or there are no backports.
    """
    more = with_required(_security_ids(security, library), library)
    return [*library.load(ids), *(patch for patch in more if patch.id not in ids)]


def on_request(patches: Sequence[Patch]) -> list[Patch]:
    """The patches that are only taken on request, and those that require one of them."""
    special = [patch for patch in patches if patch.relations.on_request is not None]
    for taken in special:  # grows while it is walked
        ids = {patch.id for patch in special}
        special += [p for p in patches if p.id not in ids and taken.id in p.relations.requires]
    return special


def _recipe_for(version: str, library: Library, *, own_only: bool) -> str | None:
    """The recipe called after a version, or after the series of a version that it pins."""
    recipes = library.own_recipes if own_only else library.recipes
    version = parse_version(version) or version
    if f"vllm-{version}" in recipes:
        return f"vllm-{version}"
    series = ".".join(version.split(".")[:2])
    name = f"vllm-{series}"
    if parse_version(version) and name in recipes:
        recipe = library.recipe_selection(recipes[name])
        if recipe.vllm.source == version:
            return name
    return None


def _narrowed(recipe: RecipeSelection, name: str, asked: Sequence[str]) -> list[str]:
    """The patches of a recipe, or those of them that somebody asked for."""
    not_listed = next((patch_id for patch_id in asked if patch_id not in recipe.patches), None)
    if not_listed is not None:
        raise UsageError(
            f"the recipe {name} does not list {not_listed}",
            hint=f"choose among: {', '.join(recipe.patches)}",
            code="library.not-in-recipe",
        )
    return [patch_id for patch_id in recipe.patches if patch_id in asked or not asked]


def _refuse_unused(
    recipe: RecipeSelection, path: Path, jobs: Sequence[Selection], library: Library
) -> None:
    used = {patch.id for job in jobs for patch in job.patches}
    for index, patch_id in enumerate(recipe.patches):
        if patch_id not in used and patch_id in (jobs[0].chosen or recipe.patches):
            raise DeclarationError(
                f"{patch_id} is not for any of the recipe's trees",
                where=library.read_recipe(path)[1].where(["patches", index]),
                hint="remove it from the recipe, or add its tree",
                code="library.wrong-tree",
            )


def read_recipe(path: Path, library: Library) -> RecipeSelection:
    """Read what a recipe selects; its patches must all be there.

    Raises:
        UsageError: it is wrong, or lists a patch that is not there.
    """
    recipe = library.recipe_selection(path)
    unknown = [p for p in recipe.patches if p not in library.patches]
    if unknown:
        _, positions = library.read_recipe(path)
        raise DeclarationError(
            f"there is no patch {unknown[0]!r}",
            where=positions.where(["patches", recipe.patches.index(unknown[0])]),
            hint=library.nearest(unknown[0])
            or "correct the id, or name its folder with --patches-dir",
            code="library.no-such-patch",
        )
    return recipe


def spec_of(tree: str, pin: RecipePin, recipe: Path, root: Path) -> TreeSpec:
    """The source of a tree as a recipe pins it."""
    place = _located(recipe, pin.source, root)
    if tree == "vllm":
        return parse_vllm(place, root)
    equals = "==" if parse_version(pin.source) else "="
    return parse_tree(f"{tree}{equals}{place}", root)


def _located(recipe: Path, source: str, root: Path) -> str:
    """A source as a recipe names it, with a relative path taken from the recipe's folder."""
    if source.startswith(ENVIRONMENT) and "/" in source:
        return ENVIRONMENT + _located(recipe, source.removeprefix(ENVIRONMENT), root)
    if parse_version(source) or ":" in source or "==" in source:
        return source
    path = os.path.normpath(recipe.parent.absolute() / source)
    if os.path.relpath(path, root).startswith(".."):
        return path
    # In the project, as it would be named by hand: the lock repeats it.
    below = os.path.relpath(path)
    return below if below.startswith("..") else f"./{below}"


def _concerning(patches: Sequence[Patch], spec: TreeSpec) -> tuple[Patch, ...]:
    return tuple(p for p in patches if spec.tree in p.relations.needed_in)


def _refuse_idle(asked: Sequence[str], jobs: Sequence[Selection], library: Library) -> None:
    used = {patch.id for job in jobs for patch in job.patches}
    for patch_id in asked:
        if patch_id not in used:
            trees = ", ".join(job.spec.tree for job in jobs)
            theirs = " or ".join(library.patch(patch_id).relations.needed_in)
            raise UsageError(
                f"{patch_id} is not for any tree of this run ({trees})",
                hint=f"name {theirs} (--tree {theirs.split()[0]}==VERSION), "
                f"or correct needed-in of {patch_id}",
                code="library.wrong-tree",
            )
