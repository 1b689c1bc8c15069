"""Whether an image is what a lock says, whoever made it.

Files are read from outside: the engine takes them from the layers, and nothing of the image runs.
What its Python imports, only its Python can tell. Whoever changed that Python can make it say
anything, and so its answers count as such.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vpatch.checkout.lockfile import parse_lock
from vpatch.docker.container import ContainerConfig
from vpatch.errors import UsageError, VpatchError
from vpatch.image import PAYLOAD
from vpatch.image.base import pull
from vpatch.image.context import (
    DOCUMENTS,
    INSTALLED,
    LOCK,
    MANIFEST,
    PACKAGE_LIST,
    digest_of_lock,
    labels_of,
    manifest_of,
)
from vpatch.image.mode import is_laid_over
from vpatch.image.package import Problem, parse_list, problems_of
from vpatch.image.record import of_mode
from vpatch.util.digest import short_digest
from vpatch.util.untrusted import parse_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from vpatch.checkout.lockfile import LockFile
    from vpatch.docker.container import Container
    from vpatch.docker.engine import Docker
    from vpatch.progress import Progress

_FOLDER = "vpatch-verify"
_SECONDS = 900.0
_SHOWN = 20
# Of what an image says of itself: it may say anything.
_LONGEST = 500
_MOST = 1000
_DIGITS = 9


@dataclass(frozen=True)
class Verified:
    """What was found. `package` is the folder of vllm, and `files` the number of its files.

    `files` counts those that were read from outside and are as locked. `effects` has, for each
    patch, how many names the image's own Python found to be the patched code. `unknown` is what
    could not be asked, and why: that is neither good nor bad. `own_lock` says that the lock is the
    one in the image, and no other.
    """

    image: str
    lock: LockFile
    package: str
    files: int
    problems: tuple[Problem, ...]
    effects: Mapping[str, int]
    unknown: tuple[str, ...]
    own_lock: bool


def verify_image(docker: Docker, name: str, lock: LockFile | None, progress: Progress) -> Verified:
    """Read an image's files from outside, and repeat inside what its build ended with.

    `lock` is what it must have; without one, the lock that lies in the image. An image that is not
    here is pulled.

    Raises:
        UsageError: it has no lock, and none was given.
        DockerError: it is not there, or cannot be run.
    """
    image = docker.image(name) or pull(docker, name, None, progress)
    words = ["verify.py", "manifest.json", "result"]
    command = ["python3", *(f"/{_FOLDER}/{word}" for word in words)]
    # Files are read from a container that never starts, while the other one runs its Python.
    with (
        docker.container(image.id, ["true"]) as files_only,
        docker.container(image.id, command, ContainerConfig(user="0")) as asked,
    ):
        carried = files_only.read(LOCK)
        own, unknown = lock is None, list[str]()
        if lock is None:
            if carried is None and "vpatch.lock" in image.labels:
                raise VpatchError(
                    f"its labels say that vpatch built it, but {LOCK} is gone",
                    where=name,
                    hint="name the lock that it should match: --lock FILE",
                    code="image.lock-gone",
                )
            if carried is None:
                raise UsageError(
                    f"it has no {LOCK}, so vpatch did not build it",
                    where=name,
                    hint="name the lock that it should match: --lock FILE",
                    code="image.not-built-by-vpatch",
                )
            lock = parse_lock(carried, f"{name}:{LOCK}")
        text = files_only.read(MANIFEST)
        found = list(_of_lock(lock, carried, image.labels, text))
        gone = [path for path, _ in DOCUMENTS.values() if files_only.read(path) is None]
        found += [Problem(path, "it is missing") for path in gone]
        # Which names to ask for a build knows; all else follows from the lock.
        wanted = manifest_of(lock, {}) | {"probes": _probes(lock, text, found)}
        left = _installed(files_only.read(INSTALLED), found)
        task = progress.start(f"Verifying {name}")
        _start(asked, wanted)
        package, files = _outside(files_only, lock, left.package, found, unknown)
        answer = _answer(asked, name)
        task.done()
    found += _inside(lock, answer, left, package, {problem.where for problem in found})
    unknown += [f"{module} is not importable here, nor was it in the base" for module in left.old]
    for effect in answer["probes"].values():
        unknown += effect["unknown"]
    unknown += [
        f"{p}: it changes nothing that has a name" for p, a in wanted["probes"].items() if not a
    ]
    unknown += [f"{f.path} is not in the package" for f in lock.files if not is_laid_over(f.path)]
    held = {patch: effect["held"] for patch, effect in answer["probes"].items()}
    return Verified(
        image.id, lock, package, files, tuple(found), held, tuple(unknown), own_lock=own
    )


def _outside(
    container: Container,
    lock: LockFile,
    place: str | None,
    found: list[Problem],
    unknown: list[str],
) -> tuple[str, int]:
    """Compare the files of the package, in a container in which nothing of the image runs.

    Returns its folder and how many files are as locked. `place` is where the image says it is.
    """
    image = lock.image
    package = (image.package if image else None) or place
    if package is None:
        raise VpatchError(
            "the image does not say where its package vllm is",
            where=INSTALLED,
            hint="build it again with vpatch build-image, and give that lock: --lock FILE",
            code="image.unreadable",
        )
    whole = container.digests(package)
    digests = None if whole is None else of_mode(image, whole)
    known = None
    if image is None or image.contents is None:
        unknown.append(
            "files that no patch touches: the lock is of an early vpatch and has no list of them"
        )
    else:
        known = parse_list(container.read(PACKAGE_LIST), image.contents)
        if known is None:
            found.append(Problem(PACKAGE_LIST, "it is not the list of files that was locked"))
    problems = list(problems_of(lock, package, digests, known))
    found += problems
    return package, len(digests or ()) - len(problems) if known is not None else 0


def _probes(lock: LockFile, text: bytes | None, found: list[Problem]) -> dict[str, Any]:
    """What an image's manifest says that it is to be asked; what is wrong with it is `found`."""
    if text is None:
        found.append(Problem(MANIFEST, "it is missing, and with it the names to ask for"))
        return {}
    try:
        manifest = parse_json(text)
        probes = {patch.id: list(manifest["probes"][patch.id]) for patch in lock.patches}
        whole = manifest == json.loads(json.dumps(manifest_of(lock, {}) | {"probes": probes}))
    except (ValueError, LookupError, TypeError):
        whole, probes = False, {}
    if not whole:
        found.append(Problem(MANIFEST, "it does not follow from the lock"))
        return {}
    return probes


@dataclass(frozen=True)
class _Installed:
    """What a build left: the folder of vllm, and what the base could not import either."""

    package: str | None
    old: Mapping[str, str]


def _installed(text: bytes | None, found: list[Problem]) -> _Installed:
    try:
        left = parse_json(text or b"")
        old = {str(module): str(why) for module, why in left["not-importable"].items()}
        return _Installed(str(left["package"]), old)
    except (ValueError, LookupError, TypeError, AttributeError):
        found.append(Problem(INSTALLED, "it is missing, or is not what a build leaves"))
        return _Installed(None, {})


def _start(container: Container, manifest: Mapping[str, Any]) -> None:
    """Start the script in the container."""
    files = {"verify.py": _script(), "manifest.json": json.dumps(manifest).encode()}
    container.put({f"{_FOLDER}/{file}": text for file, text in files.items()}, "/")
    container.start()


def _answer(container: Container, name: str) -> dict[str, Any]:
    """Wait for the script, and return its answer."""
    code = container.wait(_SECONDS)
    answer = container.read(f"/{_FOLDER}/result") if code == 0 else None
    if answer is None:
        said = container.logs()
        how = f"did not end in {_SECONDS:g} s" if code is None else f"ended with {code}"
        lines = "\n".join(said.decode(errors="replace").splitlines()[-_SHOWN:])
        raise VpatchError(
            f"its Python {how}:\n{lines}",
            where=name,
            hint="check that python3 runs in the image",
            code="image.python-failed",
        )
    try:
        return _shaped(parse_json(answer))
    except (ValueError, AttributeError, LookupError, TypeError):
        pass  # said below: whatever it is, its Python did not write what the script writes
    raise VpatchError(
        "its Python gave an unexpected answer",
        where=name,
        hint="check that the image's python3 is not replaced",
        code="image.python-failed",
    )


def _shaped(found: dict[str, Any]) -> dict[str, Any]:
    """Return of an answer what the script writes, as it writes it."""
    package = found["package"]
    return {
        "package": None if package is None else _short(package),
        "problems": [
            {"path": _short(one["path"]), "what": _short(one["what"])}
            for one in found["problems"][:_MOST]
        ],
        "imports": {_short(module): _short(why) for module, why in found["imports"].items()},
        "probes": {
            str(patch): {
                "held": int(str(effect["held"])[:_DIGITS]),
                "problems": [_short(text) for text in effect["problems"][:_MOST]],
                "unknown": [_short(text) for text in effect["unknown"][:_MOST]],
            }
            for patch, effect in found["probes"].items()
        },
    }


def _short(text: Any) -> str:
    return str(text)[:_LONGEST]


def _script() -> bytes:
    path: Path = PAYLOAD / "verify.py"
    return path.read_bytes()


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
                f"label {label}", f"it is {_short(labels.get(label))!r}, not {wanted[label]!r}"
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
