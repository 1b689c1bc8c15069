"""A patched tree of an image: what was locked of it, and what the image says of it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.checkout.lockfile import parse_lock
from vpatch.errors import UsageError
from vpatch.image.context import FOLDER, INSTALLED, LOCK, MANIFEST, TREES, manifest_of
from vpatch.image.package import Problem
from vpatch.util.digest import digest_of, short_digest
from vpatch.util.untrusted import parse_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vpatch.checkout.lockfile import LockedImage, LockFile
    from vpatch.docker.container import Container


@dataclass(frozen=True)
class TreeInImage:
    """A tree of an image: where its files lie in it, and what was locked of its package.

    `name` is that of the package, and `manifest` a digest: that of vLLM is in a label. `image` is
    there for vLLM: how it was built tells which of its files are always the same.
    """

    folder: str
    lock: LockFile
    package: str | None
    contents: str | None
    name: str = "vllm"
    manifest: str | None = None
    image: LockedImage | None = None

    def place(self, file: str) -> str:
        """Return the path of a file that vLLM has in FOLDER."""
        return f"{self.folder}{file.removeprefix(FOLDER)}"


def not_built_by_vpatch(name: str, *, hint: str) -> UsageError:
    """Return what to raise for an image without a lock."""
    return UsageError(
        f"it has no {LOCK}, so vpatch did not build it",
        where=name,
        hint=hint,
        code="image.not-built-by-vpatch",
    )


def trees_beside(
    container: Container, lock: LockFile, problems: list[Problem]
) -> Iterator[TreeInImage]:
    """The trees beside vLLM, as far as the image has the locks that the lock of vLLM names."""
    for name, locked in sorted(lock.image.trees.items() if lock.image else ()):
        folder = f"{TREES}/{name}"
        path = f"{folder}/lock"
        text = container.read(path)
        if text is None:
            problems.append(Problem(path, f"it is missing, so {name} was not verified"))
        elif digest_of(text) != locked.lock:
            what = f"it is not the lock {short_digest(locked.lock)}, so {name} was not verified"
            problems.append(Problem(path, what))
        else:
            lock_of_tree = parse_lock(text, path)
            place = (locked.package, locked.contents)
            yield TreeInImage(folder, lock_of_tree, *place, locked.name, locked.manifest)


def probes_in(
    tree: TreeInImage, text: bytes | None, problems: list[Problem]
) -> dict[str, list[dict[str, str]]]:
    """What an image's manifest says it is to be asked; `problems` gets what is wrong with it."""
    lock, path = tree.lock, tree.place(MANIFEST)
    if text is None:
        problems.append(Problem(path, "it is missing, and with it the names to ask for"))
        return {}
    if tree.manifest not in (None, digest_of(text)):
        problems.append(Problem(path, "it is not the manifest that was locked"))
        return {}
    try:
        manifest = parse_json(text)
        probes = {patch.id: list(manifest["probes"][patch.id]) for patch in lock.patches}
        whole = manifest == json.loads(
            json.dumps(manifest_of(lock, {}, tree.name) | {"probes": probes})
        )
    except (ValueError, LookupError, TypeError):
        whole, probes = False, {}
    if not whole:
        problems.append(Problem(path, "it does not follow from the lock"))
        return {}
    return probes


@dataclass(frozen=True)
class LeftByBuild:
    """What a build left: the folder of vllm, and what the base could not import either."""

    package: str | None
    old: Mapping[str, str]


def left_in(text: bytes | None, tree: TreeInImage, problems: list[Problem]) -> LeftByBuild:
    try:
        document = parse_json(text or b"")
        old = {str(module): str(why) for module, why in document["not-importable"].items()}
        return LeftByBuild(str(document["package"]), old)
    except (ValueError, LookupError, TypeError, AttributeError):
        what = "it is missing, or is not what a build leaves"
        problems.append(Problem(tree.place(INSTALLED), what))
        return LeftByBuild(None, {})
