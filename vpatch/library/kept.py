"""What was read of a patch before, so that the next run need not read all of it again.

A declaration takes 20 ms to parse and to check, and what that needs takes 0.5 s to import. Kept is
what selects a patch, what tells its editions apart, and what its commit says. Everything else is
read when it is asked for.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import asdict
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vpatch.errors import UsageError, VpatchError
from vpatch.library.patch import (
    DECLARATION,
    BoundVariant,
    Cured,
    OwnCode,
    Patch,
    Relations,
    digest_of_shapes,
)
from vpatch.trust.decision import changed_while_read
from vpatch.trust.store import content_of
from vpatch.util.own_code import code_digest
from vpatch.util.record_store import RecordStore
from vpatch.util.untrusted import LARGEST_BESIDE, read_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from vpatch.declare.patch import PatchDeclaration
    from vpatch.library.shapes import Shapes
    from vpatch.trust.decision import Trust

_SHAPES = "shapes.json"


class KeptPatch(Patch):
    """A patch that is known by what selects it and by what its commit says.

    The rest is read when it is asked for. What was kept must still be true then.
    """

    _trust: Trust
    _codemods: Sequence[tuple[str, str]] | None

    @classmethod
    def of(cls, folder: Path, record: Mapping[str, Any], trust: Trust) -> KeptPatch:
        patch = cls.__new__(cls)
        relations = record["relations"]
        lists = {name: tuple(relations[name]) for name in ("requires", "conflicts")}
        # Past the constructor, which wants all of a patch.
        patch.__dict__.update(
            folder=folder,
            digest=record["digest"],
            recorded=record["recorded"],
            title=record["title"],
            why=record["why"],
            relations=Relations(**{**relations, **lists}),
            cures=tuple(
                Cured(one["id"], tuple(one["aliases"]), one["severity"]) for one in record["cures"]
            ),
            _trust=trust,
            _codemods=record["codemods"],
        )
        return patch

    @cached_property
    def own_code(self) -> tuple[OwnCode, ...]:
        if self._codemods is None:
            return self._whole.own_code
        codes = []
        for name, digest in self._codemods:
            path = self.folder / name
            try:
                self._trust.runnable(self.folder, path, path.read_bytes())
            except (OSError, VpatchError):
                # A codemod that was refused stays refused. So it must be the one that is run.
                return self._whole.own_code
            codes.append(OwnCode(digest, None, None))
        return tuple(codes)

    @cached_property
    def declaration(self) -> PatchDeclaration:
        return self._whole.declaration

    @cached_property
    def variants(self) -> tuple[BoundVariant, ...]:
        return self._whole.variants

    @cached_property
    def shapes(self) -> Shapes | None:
        from vpatch.library.shapes import read_shapes  # noqa: PLC0415 - needs pydantic

        shapes = read_shapes(self.folder)
        if digest_of_shapes(shapes) != self.recorded:
            raise changed_while_read(self.folder)
        return shapes

    @cached_property
    def _whole(self) -> Patch:
        from vpatch.library.loading import load_patch  # noqa: PLC0415 - see above

        patch = load_patch(self.folder, self._trust)
        if (patch.digest, patch.recorded) != (self.digest, self.recorded):
            raise changed_while_read(self.folder)
        return patch


def read_patch(folder: Path, trust: Trust, records: Path) -> Patch:
    """Return a patch by what `records` has of it, or read it and keep that.

    Raises:
        UsageError: as `load_patch`.
    """
    # What is told of a codemod that fails names its place as it is seen from here.
    place = f"{folder}\0{folder.absolute()}"
    key, store = hashlib.sha256(os.fsencode(place)).hexdigest()[:32], RecordStore(records)

    def known(record: Any) -> KeptPatch | None:
        is_known = record["code"] == code_digest() and _is_as_kept(folder, record)
        return KeptPatch.of(folder, record, trust) if is_known else None

    known_patch = store.get(key, known)
    if known_patch is not None:
        return known_patch
    from vpatch.library.loading import load_patch  # noqa: PLC0415 - see above

    before = _digests(folder)
    patch = load_patch(folder, trust)
    # Somebody may have written there meanwhile: then it is not known what was read.
    if before is not None and before == _digests(folder):
        _keep(store, key, patch, before)
    return patch


def _is_as_kept(folder: Path, record: Mapping[str, Any]) -> bool:
    """Whether all that was read of a patch is still there, with the same bytes."""
    real = folder.resolve()
    return (
        all((real / name).resolve() == real / name for name in record["files"])
        and all(_digest_of(real / name) == known for name, known in record["files"].items())
        and all(_is_own_folder(real / name) for name in record["folders"])
        and all(_origin(name) == known for name, known in record["pure"].items())
        and (_SHAPES in record["files"] or not os.path.lexists(real / _SHAPES))
    )


def _origin(module: str) -> str | None:
    """The file from which a codemod gets a module of Python: another may hide Python's own."""
    spec = find_spec(module)
    return None if spec is None else spec.origin


def _is_own_folder(path: Path) -> bool:
    return path.is_dir() and path.resolve() == path


def _keep(store: RecordStore, key: str, patch: Patch, digests: Mapping[str, str]) -> None:
    from vpatch.codemods.allowed import scan  # noqa: PLC0415 - see above

    declaration = patch.declaration
    edits = (edit for variant in patch.variants for edit in variant.edits)
    used = {_name(patch, path) for edit in edits for path in edit.uses}
    used |= {DECLARATION, *(proof.test for proof in declaration.proof)}
    used |= {_SHAPES} & digests.keys()
    places = [place for proof in declaration.proof for place in proof.trees.values()]
    own = patch.codemods
    # Where an import leads, or what it reads, may change without any file of the patch.
    alone = all(one.inputs.digest is not None and not one.inputs.modules for one in own)
    pure = {name for one in own for name in scan(one.source).pure} if alone else set()
    if not _are_plain([*used, *places]) or not used <= digests.keys():
        return  # reached by a link, or by a detour: what it is may change unseen
    record = {
        "code": code_digest(),
        "files": {name: digests[name] for name in sorted(used)},
        "folders": sorted(set(places)),
        "codemods": [(_name(patch, one.path), one.inputs.digest) for one in own] if alone else None,
        "pure": {name: _origin(name) for name in sorted(pure)},
        "digest": patch.digest,
        "recorded": patch.recorded,
        "title": patch.title,
        "why": patch.why,
        "relations": asdict(patch.relations),
        "cures": [asdict(one) for one in patch.cures],
    }
    store.put(key, record)


def _name(patch: Patch, path: Path) -> str:
    return path.relative_to(patch.folder).as_posix()


def _are_plain(names: Iterable[str]) -> bool:
    return all(not Path(name).is_absolute() and os.path.normpath(name) == name for name in names)


def _digests(folder: Path) -> dict[str, str] | None:
    """The digest of each file of a patch; None where one is a link, or cannot be read."""
    try:
        digests = content_of(folder).digests
        if os.path.lexists(folder / _SHAPES):
            digests[_SHAPES] = _digest_of(folder / _SHAPES)
    except (OSError, UsageError):
        return None
    return digests


def _digest_of(path: Path) -> str:
    return hashlib.sha256(read_file(path, LARGEST_BESIDE)).hexdigest()
