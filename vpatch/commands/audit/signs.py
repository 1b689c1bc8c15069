"""What lines of code say of the advisories that no patch cures."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vpatch.planning.shape import is_recorded_for
from vpatch.planning.state import Finding
from vpatch.source.memory import made_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vpatch.library.advisories import Advisory, Sign
    from vpatch.library.patch import Patch
    from vpatch.source.tree import Pin, Tree

# A tree without it is an installed package: it has nothing of what was compiled.
_OF_SOURCES = "pyproject.toml"
_PACKAGE = "vllm/"


@dataclass(frozen=True)
class SignReading:
    """Where a tree has the line of a sign, and that of its fix. Without both, it is absent."""

    sign: Sign
    defect: Finding | None = None
    fix: Finding | None = None
    is_release: bool = False

    def is_on_record(self, pin: Pin) -> bool:
        """Whether somebody read this release before, and saw the same.

        A patch that puts the fix into an older release, or takes the line out, is not on record.
        `is_release` is whether the tree is made of the archive on record, by its digest.
        """
        if not self.is_release or pin.version is None or not self.sign.was_read(pin.version):
            return False
        has_defect = self.defect is not None and self.fix is None
        return has_defect == self.sign.is_defective(pin.version)


def read_signs(
    advisories: Iterable[Advisory], tree: Tree, patches: Iterable[Patch] = ()
) -> dict[str, SignReading]:
    """Read the lines that advisories have as signs, by the ids of the advisories.

    `patches` know the digests of the archives on record. A release that they alone changed is as
    well known as the release.

    Left out is what the tree cannot tell: its compiled parts are not there as sources.
    """
    signs = {one.id: sign for one in advisories if (sign := one.sign)}
    if not signs:
        return {}
    paths = frozenset(tree.paths())
    patches = tuple(patches)
    is_release = _is_on_record(tree.pin, patches) or _is_made_of_one(tree, patches)
    readings = {name: _read(sign, tree, paths) for name, sign in signs.items()}
    return {
        name: replace(reading, is_release=is_release)
        for name, reading in readings.items()
        if reading
    }


def recorded_signs(
    advisories: Iterable[Advisory], pin: Pin, patches: Iterable[Patch]
) -> dict[str, SignReading] | None:
    """Return what the code of a release says, without the places: nothing is fetched.

    None if its archive is not on record, or an advisory has a sign for which nobody read it.
    """
    version = pin.version or ""
    signs = {one.id: sign for one in advisories if (sign := one.sign)}
    if not _is_on_record(pin, patches) or not all(one.was_read(version) for one in signs.values()):
        return None
    readings = {name: _recall(sign, version) for name, sign in signs.items()}
    return {name: reading for name, reading in readings.items() if reading}


def _recall(sign: Sign, version: str) -> SignReading | None:
    if sign.is_defective(version):
        defect = Finding(sign.defect or "", None)
        return SignReading(sign, defect, is_release=True) if sign.last else None
    if sign.fix is not None and sign.is_before(version):
        return SignReading(sign, fix=Finding(sign.fix, None), is_release=True)
    return SignReading(sign, is_release=True)


def _is_on_record(pin: Pin, patches: Iterable[Patch]) -> bool:
    return any(is_recorded_for(one, pin) for one in patches)


def _is_made_of_one(tree: Tree, patches: Iterable[Patch]) -> bool:
    """Whether patches that are on record for a release alone turned it into the tree."""
    base = made_of(tree)
    if base is None:
        return False
    return tree.carried <= {one.id for one in patches if is_recorded_for(one, base)}


def _read(sign: Sign, tree: Tree, paths: frozenset[str]) -> SignReading | None:
    is_compiled = not all(file.startswith(_PACKAGE) for file in sign.files)
    if is_compiled and _OF_SOURCES not in paths:
        return None
    present = [file for file in sign.files if file in paths]
    if sign.defect is None:
        return None if present else SignReading(sign)
    texts = {path: tree.read(path).decode(errors="replace").splitlines() for path in present}
    return SignReading(sign, _find(sign.defect, texts), _find(sign.fix, texts))


def _find(text: str | None, files: dict[str, list[str]]) -> Finding | None:
    if text is None:
        return None
    return next(
        (
            Finding(line.strip(), path, number)
            for path, lines in files.items()
            for number, line in enumerate(lines, 1)
            if text in line and not _is_comment(line, path)
        ),
        None,
    )


def _is_comment(line: str, path: str) -> bool:
    """Whether a line is a comment and no code."""
    return line.lstrip().startswith("#" if path.endswith(".py") else "//")
