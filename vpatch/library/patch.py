"""A patch as it lies on disk: the declaration, its edits bound to codemods, and its digest."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from vpatch.trust.decision import UntrustedError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from vpatch.codemods.bind import BoundEdit
    from vpatch.codemods.custom import Custom
    from vpatch.declare.edits import Predicate
    from vpatch.declare.patch import PatchDeclaration
    from vpatch.errors import VpatchError
    from vpatch.library.shapes import Shapes

DECLARATION = "patch.yaml"


@dataclass(frozen=True)
class BoundVariant:
    name: str | None
    when: Predicate | None
    edits: tuple[BoundEdit, ...]


@dataclass(frozen=True)
class Relations:
    """For which trees a patch is, and with which others it is taken."""

    needed_in: Mapping[str, str]
    requires: tuple[str, ...]
    conflicts: tuple[str, ...]
    on_request: str | None


@dataclass(frozen=True)
class Cured:
    """A security problem that a patch cures; see `vpatch.declare.patch.Resolves`."""

    id: str
    aliases: tuple[str, ...]
    severity: str | None


@dataclass(frozen=True)
class OwnCode:
    """What decides what a codemod.py of a patch does.

    `digest` is of all that decides, None if it may read more; `reason` then says where and how.
    `refusal` says why it may not run, None if it may.
    """

    digest: str | None
    reason: str | None
    refusal: VpatchError | None

    @property
    def identity(self) -> str | None:
        """What decides what it does, and whether it may run; None if that is not known.

        The user may trust the code later. Then what was decided without it must not be taken. And
        where the user does not trust the code any more, what was decided with it must not be taken.
        """
        if self.digest is not None and isinstance(self.refusal, UntrustedError):
            return f"not run: {self.refusal}"
        return self.digest if self.refusal is None else None


@dataclass(frozen=True)
class Patch:
    """`digest` is `sha256:HEX` over what is declared and the files that its edits use, with names.

    Left out is what does not change what the patch does: `proof`, `proposal`, `upstream`,
    `resolves`, `license`, tests, examples, notes and comments. So evidence lives on when a thread
    upstream is closed.
    `shapes` is what shapes.json records, None where it is not there; `digest` leaves it out.
    """

    declaration: PatchDeclaration
    folder: Path
    variants: tuple[BoundVariant, ...]
    digest: str
    shapes: Shapes | None = None

    @property
    def id(self) -> str:
        return self.folder.name

    @cached_property
    def title(self) -> str:
        return self.declaration.title

    @cached_property
    def why(self) -> str:
        return self.declaration.why

    @cached_property
    def relations(self) -> Relations:
        """What selects it, at hand before the rest is read."""
        it = self.declaration
        return Relations(dict(it.needed_in), it.requires, it.conflicts, it.on_request)

    @cached_property
    def cures(self) -> tuple[Cured, ...]:
        return tuple(Cured(o.id, o.aliases, o.severity) for o in self.declaration.resolves)

    @cached_property
    def own_code(self) -> tuple[OwnCode, ...]:
        """One for each edit that runs a codemod.py. Nothing of it runs."""
        return tuple(OwnCode(c.inputs.digest, c.inputs.reason, c.refusal) for c in self.codemods)

    @cached_property
    def identity(self) -> list[Any] | None:
        """All that decides what it means for a tree; None where a codemod.py may read more."""
        own = [code.identity for code in self.own_code]
        # What is told of a codemod that fails names its place as it is seen from here.
        place = str(self.folder) if own else None
        return None if None in own else [self.id, self.digest, self.recorded, own, place]

    @property
    def codemods(self) -> list[Custom]:
        """What the edits run of code that came with the patch."""
        from vpatch.codemods.custom import Custom  # noqa: PLC0415 - needs libcst

        edits = (edit.codemod for variant in self.variants for edit in variant.edits)
        return [codemod for codemod in edits if isinstance(codemod, Custom)]

    @cached_property
    def recorded(self) -> str | None:
        """A digest of its shapes; None where none are recorded."""
        return digest_of_shapes(self.shapes)


def digest_of_shapes(shapes: Shapes | None) -> str | None:
    """Return a digest of what is recorded of a patch; None where nothing is."""
    if shapes is None:
        return None
    return hashlib.sha256(shapes.model_dump_json().encode()).hexdigest()
