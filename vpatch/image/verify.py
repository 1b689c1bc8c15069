"""Whether an image is what a lock says, whoever made it.

Files are read from outside: the engine takes them from the layers, and nothing of the image runs.
What its Python imports, only its Python can tell. Whoever changed that Python can make it say
anything, and so its answers count as such.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vpatch.checkout.lockfile import parse_lock
from vpatch.docker.container import ContainerConfig
from vpatch.errors import VpatchError
from vpatch.image.asking import COMMAND, answer_of, short, start
from vpatch.image.base import pull
from vpatch.image.context import (
    DOCUMENTS,
    FOLDER,
    INSTALLED,
    LOCK,
    MANIFEST,
    PACKAGE_LIST,
    digest_of_lock,
    labels_of,
    manifest_of,
)
from vpatch.image.mode import laid_over_digests
from vpatch.image.package import Problem, parse_list, problems_of
from vpatch.image.record import of_mode
from vpatch.image.tree_in_image import (
    TreeInImage,
    left_in,
    not_built_by_vpatch,
    probes_in,
    trees_beside,
)
from vpatch.util.digest import short_digest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vpatch.checkout.lockfile import LockFile
    from vpatch.docker.container import Container
    from vpatch.docker.engine import Docker, DockerImage
    from vpatch.image.payload.verify import ImageAnswer
    from vpatch.image.tree_in_image import LeftByBuild
    from vpatch.progress import Progress

# Behind a module that the image and its base cannot import.
NOT_IMPORTABLE = " is not importable here, nor was it in the base"


@dataclass(frozen=True)
class Verified:
    """What was found. `package` is the folder of vllm, and `files` the number of all files.

    `files` counts those that were read from outside and are as locked, `patched` those of patches.
    `trees` are the locks of the trees beside vLLM. `effects` has, for each patch, how many names
    the image's own Python found to be the patched code. `unknown` is what could not be asked, and
    why: that is neither good nor bad. `own_lock` says that the lock is the one in the image, and no
    other.
    """

    name: str
    image: str
    lock: LockFile
    package: str
    files: int
    problems: tuple[Problem, ...]
    effects: Mapping[str, int]
    unknown: tuple[str, ...]
    own_lock: bool
    patched: int
    trees: Mapping[str, LockFile]


@dataclass
class _Report:
    """What the parts of an image have shown so far."""

    problems: list[Problem] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    effects: dict[str, int] = field(default_factory=dict)
    files: int = 0
    patched: int = 0


def verify_image(docker: Docker, name: str, lock: LockFile | None, progress: Progress) -> Verified:
    """Read an image's files from outside, and repeat inside what its build ended with.

    `lock` is what it must have of vLLM; without one, the lock that lies in the image. It names the
    locks of other trees by digest. An image that is not here is pulled.

    Raises:
        UsageError: it has no lock, and none was given.
        DockerError: it is not there, or cannot be run.
    """
    image = docker.image(name) or pull(docker, name, None, progress)
    report = _Report()
    # Files are read from a container that never starts, while another one runs its Python.
    with docker.container(image.id, ["true"]) as files_only:
        carried = files_only.read(LOCK)
        own = lock is None
        if lock is None:
            lock = _own_lock(carried, image, name)
        report.problems += _of_lock(lock, carried, image.labels, files_only.read(MANIFEST))
        gone = [path for path, _ in DOCUMENTS.values() if files_only.read(path) is None]
        report.problems += [Problem(path, "it is missing") for path in gone]
        others = list(trees_beside(files_only, lock, report.problems))
        locked = lock.image
        place = (locked.package, locked.contents) if locked else (None, None)
        task = progress.start(f"Verifying {name}")
        package = ""
        for tree in [TreeInImage(FOLDER, lock, *place, image=locked), *others]:
            there = _verify_tree(docker, image.id, name, files_only, tree, report)
            package = package or there
        task.done()
    return Verified(
        name,
        image.id,
        lock,
        package,
        report.files,
        tuple(report.problems),
        report.effects,
        tuple(report.unknown),
        own_lock=own,
        patched=report.patched,
        trees={tree.lock.source.tree: tree.lock for tree in others},
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
    raise not_built_by_vpatch(name, hint=hint)


def _verify_tree(
    docker: Docker,
    identity: str,
    name: str,
    files_only: Container,
    tree: TreeInImage,
    report: _Report,
) -> str:
    """Verify a tree of an image, and return the folder of its package."""
    lock = tree.lock
    with docker.container(identity, COMMAND, ContainerConfig(user="0")) as asked:
        text = files_only.read(tree.place(MANIFEST))
        # Which names to ask for a build knows; all else follows from the lock.
        probes = probes_in(tree, text, report.problems)
        wanted = manifest_of(lock, {}, tree.name) | {"probes": probes}
        installed = left_in(files_only.read(tree.place(INSTALLED)), tree, report.problems)
        start(asked, wanted)
        package = _outside(files_only, tree, installed.package, report)
        answer = answer_of(asked, name)
    known = {problem.where for problem in report.problems}
    report.problems += _inside(tree, answer, installed, package, known)
    report.unknown += [f"{module}{NOT_IMPORTABLE}" for module in installed.old]
    for effect in answer["probes"].values():
        report.unknown += effect["unknown"]
    report.unknown += [
        f"{p}: it changes nothing that has a name" for p, a in wanted["probes"].items() if not a
    ]
    laid = laid_over_digests(lock, tree.name)
    report.unknown += [f"{f.path} is not in the package" for f in lock.files if f.path not in laid]
    # A patch may be of several trees.
    for patch, effect in answer["probes"].items():
        report.effects[patch] = report.effects.get(patch, 0) + effect["held"]
    report.patched += len(laid)
    return package


def _outside(container: Container, tree: TreeInImage, place: str | None, report: _Report) -> str:
    """Compare the files of the package, in a container in which nothing of the image runs.

    Returns its folder. `place` is where the image says it is.
    """
    package = tree.package or place
    if package is None:
        raise VpatchError(
            f"the image does not say where its package {tree.name} is",
            where=tree.place(INSTALLED),
            hint="build it again with vpatch build-image, and give that lock: --lock FILE",
            code="image.unreadable",
        )
    whole = container.digests(package)
    digests = None if whole is None else of_mode(tree.image, whole)
    known = None
    if tree.contents is None:
        report.unknown.append(
            "files that no patch touches: the lock is of an early vpatch and has no list of them"
        )
    else:
        path = tree.place(PACKAGE_LIST)
        known = parse_list(container.read(path), tree.contents)
        if known is None:
            report.problems.append(Problem(path, "it is not the list of files that was locked"))
    problems = list(problems_of(tree.lock, tree.name, package, digests, known))
    report.problems += problems
    report.files += len(digests or ()) - len(problems) if known is not None else 0
    return package


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
        # An early vpatch left out one that is empty.
        if (labels.get(label) or "") != wanted[label]:
            yield Problem(
                f"label {label}", f"it is {short(labels.get(label))!r}, not {wanted[label]!r}"
            )


def _inside(
    tree: TreeInImage, answer: ImageAnswer, installed: LeftByBuild, package: str, known: set[str]
) -> Iterator[Problem]:
    """What the image's own Python says; `known` are the places that were found from outside."""
    if answer["package"] not in (None, package):
        yield Problem(package, f"its python3 imports {tree.name} from {answer['package']}")
    for one in answer["problems"]:
        if one["path"] not in known:
            patches = [
                patch.id
                for patch in tree.lock.patches
                if any(one["path"].endswith(f"/{file.path}") for file in patch.files)
            ]
            yield Problem(one["path"], one["what"], tuple(patches))
    for module, why in answer["imports"].items():
        if installed.old.get(module) != why:
            yield Problem(module, f"it cannot be imported: {why}")
    for patch, effect in answer["probes"].items():
        for text in effect["problems"]:
            where, _, what = text.partition(" ")
            yield Problem(where, what, (patch,))
