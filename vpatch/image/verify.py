"""Whether an image is what a lock says, whoever made it.

Files are read from outside: the engine takes them from the layers, and nothing of the image runs.
What its Python imports, only its Python can tell. Whoever changed that Python can make it say
anything, and so its answers count as such.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from vpatch.checkout.lockfile import parse_lock
from vpatch.docker.container import ContainerConfig
from vpatch.errors import UsageError, VpatchError
from vpatch.image.asking import COMMAND, answer_of, short, start
from vpatch.image.base import pull
from vpatch.image.context import (
    DOCUMENTS,
    FOLDER,
    INSTALLED,
    LOCK,
    MANIFEST,
    PACKAGE_LIST,
    TREES,
    digest_of_lock,
    labels_of,
    manifest_of,
)
from vpatch.image.mode import laid_over_digests, package_of
from vpatch.image.package import Problem, parse_list, problems_of
from vpatch.image.record import of_mode
from vpatch.util.digest import digest_of, short_digest
from vpatch.util.untrusted import parse_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vpatch.checkout.lockfile import LockedImage, LockFile
    from vpatch.docker.container import Container
    from vpatch.docker.engine import Docker, DockerImage
    from vpatch.progress import Progress


@dataclass(frozen=True)
class Verified:
    """What was found. `package` is the folder of vllm, and `files` the number of all files.

    `files` counts those that were read from outside and are as locked. `trees` are the locks of
    the trees beside vLLM. `effects` has, for each patch, how many names the image's own Python
    found to be the patched code. `unknown` is what could not be asked, and why: that is neither
    good nor bad. `own_lock` says that the lock is the one in the image, and no other.
    """

    image: str
    lock: LockFile
    package: str
    files: int
    problems: tuple[Problem, ...]
    effects: Mapping[str, int]
    unknown: tuple[str, ...]
    own_lock: bool
    trees: Mapping[str, LockFile] = field(default_factory=dict)


@dataclass(frozen=True)
class _Piece:
    """A tree of an image: where its files lie in it, and what was locked of its package.

    `image` is there for vLLM: how it was built tells which of its files are always the same.
    """

    folder: str
    lock: LockFile
    package: str | None
    contents: str | None
    image: LockedImage | None = None

    def place(self, file: str) -> str:
        """Return the path of a file that vLLM has in FOLDER."""
        return f"{self.folder}{file.removeprefix(FOLDER)}"


@dataclass
class _Found:
    """What the parts of an image have shown so far."""

    problems: list[Problem] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    effects: dict[str, int] = field(default_factory=dict)
    files: int = 0


def verify_image(docker: Docker, name: str, lock: LockFile | None, progress: Progress) -> Verified:
    """Read an image's files from outside, and repeat inside what its build ended with.

    `lock` is what it must have of vLLM; without one, the lock that lies in the image. It names the
    locks of other trees by digest. An image that is not here is pulled.

    Raises:
        UsageError: it has no lock, and none was given.
        DockerError: it is not there, or cannot be run.
    """
    image = docker.image(name) or pull(docker, name, None, progress)
    found = _Found()
    # Files are read from a container that never starts, while another one runs its Python.
    with docker.container(image.id, ["true"]) as files_only:
        carried = files_only.read(LOCK)
        own = lock is None
        if lock is None:
            lock = _own_lock(carried, image, name)
        found.problems += _of_lock(lock, carried, image.labels, files_only.read(MANIFEST))
        gone = [path for path, _ in DOCUMENTS.values() if files_only.read(path) is None]
        found.problems += [Problem(path, "it is missing") for path in gone]
        others = list(_others(files_only, lock, found))
        locked = lock.image
        place = (locked.package, locked.contents) if locked else (None, None)
        task = progress.start(f"Verifying {name}")
        package = ""
        for part in [_Piece(FOLDER, lock, *place, locked), *others]:
            there = _verify_part(docker, image.id, name, files_only, part, found)
            package = package or there
        task.done()
    return Verified(
        image.id,
        lock,
        package,
        found.files,
        tuple(found.problems),
        found.effects,
        tuple(found.unknown),
        own_lock=own,
        trees={part.lock.source.tree: part.lock for part in others},
    )


def _own_lock(carried: bytes | None, image: DockerImage, name: str) -> LockFile:
    """The lock that lies in an image."""
    if carried is not None:
        return parse_lock(carried, f"{name}:{LOCK}")
    hint = "name the lock that it should match: --lock FILE"
    if "vpatch.lock" in image.labels:
        raise VpatchError(
            f"its labels say that vpatch built it, but {LOCK} is gone",
            where=name,
            hint=hint,
            code="image.lock-gone",
        )
    raise UsageError(
        f"it has no {LOCK}, so vpatch did not build it",
        where=name,
        hint=hint,
        code="image.not-built-by-vpatch",
    )


def _others(container: Container, lock: LockFile, found: _Found) -> Iterator[_Piece]:
    """The trees beside vLLM, as far as the image has the locks that the lock of vLLM names."""
    for tree, locked in sorted(lock.image.trees.items() if lock.image else ()):
        folder = f"{TREES}/{tree}"
        path = f"{folder}/lock"
        text = container.read(path)
        if text is None:
            found.problems.append(Problem(path, f"it is missing, so {tree} was not verified"))
        elif digest_of(text) != locked.lock:
            what = f"it is not the lock {short_digest(locked.lock)}, so {tree} was not verified"
            found.problems.append(Problem(path, what))
        else:
            yield _Piece(folder, parse_lock(text, path), locked.package, locked.contents)


def _verify_part(
    docker: Docker, identity: str, name: str, files_only: Container, part: _Piece, found: _Found
) -> str:
    """Verify a tree of an image, and return the folder of its package."""
    lock = part.lock
    with docker.container(identity, COMMAND, ContainerConfig(user="0")) as asked:
        text = files_only.read(part.place(MANIFEST))
        # Which names to ask for a build knows; all else follows from the lock.
        wanted = manifest_of(lock, {}) | {"probes": _probes(part, text, found.problems)}
        left = _installed(files_only.read(part.place(INSTALLED)), part, found.problems)
        start(asked, wanted)
        package, files = _outside(files_only, part, left.package, found)
        answer = answer_of(asked, name)
    known = {problem.where for problem in found.problems}
    found.problems += _inside(lock, answer, left, package, known)
    found.unknown += [
        f"{module} is not importable here, nor was it in the base" for module in left.old
    ]
    for effect in answer["probes"].values():
        found.unknown += effect["unknown"]
    found.unknown += [
        f"{p}: it changes nothing that has a name" for p, a in wanted["probes"].items() if not a
    ]
    laid = laid_over_digests(lock)
    found.unknown += [f"{f.path} is not in the package" for f in lock.files if f.path not in laid]
    # A patch may be of several trees.
    for patch, effect in answer["probes"].items():
        found.effects[patch] = found.effects.get(patch, 0) + effect["held"]
    found.files += files
    return package


def _outside(
    container: Container, part: _Piece, place: str | None, found: _Found
) -> tuple[str, int]:
    """Compare the files of the package, in a container in which nothing of the image runs.

    Returns its folder and how many files are as locked. `place` is where the image says it is.
    """
    package = part.package or place
    if package is None:
        raise VpatchError(
            f"the image does not say where its package {package_of(part.lock)} is",
            where=part.place(INSTALLED),
            hint="build it again with vpatch build-image, and give that lock: --lock FILE",
            code="image.unreadable",
        )
    whole = container.digests(package)
    digests = None if whole is None else of_mode(part.image, whole)
    known = None
    if part.contents is None:
        found.unknown.append(
            "files that no patch touches: the lock is of an early vpatch and has no list of them"
        )
    else:
        path = part.place(PACKAGE_LIST)
        known = parse_list(container.read(path), part.contents)
        if known is None:
            found.problems.append(Problem(path, "it is not the list of files that was locked"))
    problems = list(problems_of(part.lock, package, digests, known))
    found.problems += problems
    return package, len(digests or ()) - len(problems) if known is not None else 0


def _probes(part: _Piece, text: bytes | None, found: list[Problem]) -> dict[str, Any]:
    """What an image's manifest says that it is to be asked; what is wrong with it is `found`."""
    lock, path = part.lock, part.place(MANIFEST)
    if text is None:
        found.append(Problem(path, "it is missing, and with it the names to ask for"))
        return {}
    try:
        manifest = parse_json(text)
        probes = {patch.id: list(manifest["probes"][patch.id]) for patch in lock.patches}
        whole = manifest == json.loads(json.dumps(manifest_of(lock, {}) | {"probes": probes}))
    except (ValueError, LookupError, TypeError):
        whole, probes = False, {}
    if not whole:
        found.append(Problem(path, "it does not follow from the lock"))
        return {}
    return probes


@dataclass(frozen=True)
class _Installed:
    """What a build left: the folder of vllm, and what the base could not import either."""

    package: str | None
    old: Mapping[str, str]


def _installed(text: bytes | None, part: _Piece, found: list[Problem]) -> _Installed:
    try:
        left = parse_json(text or b"")
        old = {str(module): str(why) for module, why in left["not-importable"].items()}
        return _Installed(str(left["package"]), old)
    except (ValueError, LookupError, TypeError, AttributeError):
        what = "it is missing, or is not what a build leaves"
        found.append(Problem(part.place(INSTALLED), what))
        return _Installed(None, {})


def _of_lock(
    lock: LockFile, carried: bytes | None, labels: Mapping[str, str], manifest: bytes | None
) -> Iterator[Problem]:
    """How what the image says of itself differs from the lock."""
    if carried is None:
        yield Problem(LOCK, "it is missing")
    elif carried != lock.dump().encode():
        yield Problem(LOCK, f"it is not the lock {short_digest(digest_of_lock(lock))}")
    wanted = labels_of(lock, (manifest or b"").decode(errors="replace"))
    # Another vpatch may have built it.
    left_out = {"vpatch.version"} | (set() if manifest else {"vpatch.manifest"})
    names = [label for label in wanted if label not in left_out]
    for label in names:
        if labels.get(label) != wanted[label]:
            yield Problem(
                f"label {label}", f"it is {short(labels.get(label))!r}, not {wanted[label]!r}"
            )


def _inside(
    lock: LockFile, answer: Mapping[str, Any], left: _Installed, package: str, known: set[str]
) -> Iterator[Problem]:
    """What the image's own Python says; `known` are the places that were found from outside."""
    if answer["package"] not in (None, package):
        yield Problem(package, f"its python3 imports vllm from {answer['package']}")
    for one in answer["problems"]:
        if one["path"] not in known:
            patches = [
                patch.id
                for patch in lock.patches
                if any(one["path"].endswith(f"/{file.path}") for file in patch.files)
            ]
            yield Problem(one["path"], one["what"], tuple(patches))
    for module, why in answer["imports"].items():
        if left.old.get(module) != why:
            yield Problem(module, f"it cannot be imported: {why}")
    for patch, effect in answer["probes"].items():
        for text in effect["problems"]:
            where, _, what = text.partition(" ")
            yield Problem(where, what, (patch,))
