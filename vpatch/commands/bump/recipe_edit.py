"""A recipe with another pin and fewer patches: the rest of its file stays, byte for byte."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vpatch.declare.recipe import (
    ImageDeclaration,
    PinDeclaration,
    RecipeDeclaration,
    UnsettledDeclaration,
)
from vpatch.declare.yamlfile import read_yaml
from vpatch.errors import UsageError, VpatchError
from vpatch.util.scratch import scratch_folder

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from vpatch.declare.yamlfile import Positions
    from vpatch.source.tree import Pin

# A value in one line, with its quotes.
_VALUE = re.compile(r"""'[^']*'|"[^"]*"|[^\s,#{}\[\]]+""")


_NOTE = "# Written by vpatch bump, and taken out by vpatch bump --continue.\n"


def bumped_recipe(
    recipe: RecipeDeclaration,
    positions: Positions,
    old: Pin,
    new: Pin,
    gone: Container[str],
    unsettled: Sequence[str] = (),
) -> bytes:
    """Return the text of a recipe that pins `new`, without the patches that are `gone`.

    It says which ones are `unsettled`, if any are.

    Raises:
        UsageError: no patch would be left, the recipe pins no release, or it pins its base image by
            digest, or it is written in a way that cannot be edited here.
    """
    wanted = _bumped_declaration(recipe, positions, old, new, gone)
    lines = positions.content.decode().splitlines(keepends=True)
    node: Any = positions.document
    if wanted.patches != recipe.patches:
        _without_patches(lines, node, wanted.patches)
    # From the end, so that earlier lines keep their numbers; see `_without_patches`.
    if wanted.image and recipe.image and wanted.image != recipe.image:
        _set(lines, node["image"].lc.value("base"), wanted.image.base)
    if isinstance(node["vllm"], str):
        _set(lines, node.lc.value("vllm"), wanted.vllm.source)
    else:
        _set(lines, node["vllm"].lc.value("source"), wanted.vllm.source)
        if wanted.vllm.sha256 is not None:
            _set(lines, node["vllm"].lc.value("sha256"), wanted.vllm.sha256)
    if unsettled and new.version:
        mark = UnsettledDeclaration(release=new.version, patches=tuple(unsettled))
        wanted = wanted.model_copy(update={"unsettled": mark})
        if lines and not lines[-1].endswith("\n"):
            lines[-1] += "\n"
        lines.append(_NOTE)
        lines.append(f"unsettled: {{release: {mark.release}, patches: [{', '.join(unsettled)}]}}\n")
    text = "".join(lines)
    if read_recipe_text(text) != wanted:
        raise _unwritable(
            positions, f"pin {new.version} by hand, or write `vllm` and `patches` as plain lines"
        )
    return text.encode()


def settled_recipe(recipe: RecipeDeclaration, positions: Positions) -> bytes:
    """Return the text of a recipe that does not say any more that patches are unsettled.

    Raises:
        UsageError: the recipe is written in a way that cannot be edited here.
    """
    text = positions.content.decode()
    if recipe.unsettled is None:
        return text.encode()
    lines = text.splitlines(keepends=True)
    node: Any = positions.document
    first = node.lc.key("unsettled")[0]
    last = first + 1
    while last < len(lines) and lines[last][:1] in " -}]":
        last += 1
    if first and lines[first - 1] == _NOTE:
        first -= 1
    text = "".join([*lines[:first], *lines[last:]])
    if read_recipe_text(text) != recipe.model_copy(update={"unsettled": None}):
        raise _unwritable(positions, "take the key `unsettled` out by hand, and commit that")
    return text.encode()


def _unwritable(positions: Positions, hint: str) -> UsageError:
    return UsageError(
        "vpatch cannot edit the recipe as it is written",
        where=str(positions.path),
        hint=hint,
        code="bump.unwritable-recipe",
    )


def renamed_recipe(name: str, old: str, new: str) -> str | None:
    """Return the name of the new recipe if this one is named by version: vllm-0.33 of vllm-0.23."""
    for before, after in ((old, new), (_series(old), _series(new))):
        if name == before or name.endswith(f"-{before}"):
            return name.removesuffix(before) + after
    return None


def _series(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _bumped_declaration(
    recipe: RecipeDeclaration, positions: Positions, old: Pin, new: Pin, gone: Container[str]
) -> RecipeDeclaration:
    where = str(positions.path)
    if old.kind != "pypi" or new.kind != "pypi" or not old.version or not new.version:
        raise UsageError(
            f"vpatch writes recipes that pin releases, and {old.label} or {new.label} is none",
            where=where,
            hint="leave out --write, and pin the source by hand",
            code="bump.not-a-release",
        )
    patches = tuple(patch for patch in recipe.patches if patch not in gone)
    if not patches and recipe.security is None:
        raise UsageError(
            f"no patch would be left: vLLM {new.version} needs none of them",
            where=where,
            hint="remove the recipe, and use vLLM as it is",
            code="bump.no-patch-left",
        )
    digest = new.digest.removeprefix("sha256:") if recipe.vllm.sha256 else None
    image = recipe.image
    if image is not None and old.version in image.base:
        if "@" in image.base:
            raise UsageError(
                f"image.base is an image of {old.version}, pinned by digest",
                where=where,
                hint=f"name an image of {new.version} there, or remove image.base",
                code="bump.pinned-base",
            )
        image = ImageDeclaration(base=image.base.replace(old.version, new.version))
    return recipe.model_copy(
        update={
            "vllm": PinDeclaration(source=new.version, sha256=digest),
            "patches": patches,
            "image": image,
        }
    )


def _without_patches(lines: list[str], node: Any, remaining: Sequence[str]) -> None:
    """Take patches out of the list. A line that goes is emptied, so that the others stay."""
    patches = node["patches"]
    if patches.fa.flow_style():
        _set_flow(lines, patches.lc.line, patches.lc.col, f"[{', '.join(remaining)}]")
        return
    for number, patch in enumerate(patches):
        if patch not in remaining:
            lines[patches.lc.item(number)[0]] = ""
    if not remaining:
        lines[node.lc.key("patches")[0]] = ""


def _set_flow(lines: list[str], line: int, col: int, text: str) -> None:
    """Replace a list in brackets, which may take several lines."""
    last = line
    while "]" not in lines[last][col if last == line else 0 :] and last + 1 < len(lines):
        last += 1
    rest = lines[last][lines[last].index("]", col if last == line else 0) + 1 :]
    lines[line] = lines[line][:col] + text + rest
    for number in range(line + 1, last + 1):
        lines[number] = ""


def _set(lines: list[str], at: tuple[int, int], value: str) -> None:
    """Replace the value at a place by another one, in the same quotes."""
    line, col = at
    match = _VALUE.match(lines[line], col)
    if match is None:
        return
    quote = match[0][0] if match[0][0] in "'\"" else ""
    lines[line] = f"{lines[line][:col]}{quote}{value}{quote}{lines[line][match.end() :]}"


def read_recipe_text(text: str) -> RecipeDeclaration | None:
    """The recipe that a text declares; None if it declares no recipe."""
    with scratch_folder() as folder:
        path = Path(folder) / "recipe.yaml"
        path.write_text(text, encoding="utf-8")
        try:
            return read_yaml(path, RecipeDeclaration)[0]
        except VpatchError:
            return None
