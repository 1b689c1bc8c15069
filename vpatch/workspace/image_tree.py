"""The package in an image, read by the Docker Engine from its layers: nothing of the image runs."""

from __future__ import annotations

import itertools
import re
from contextlib import closing
from dataclasses import replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from vpatch.docker.engine import Docker
from vpatch.errors import UsageError
from vpatch.git.files import EXECUTABLE, REGULAR, SYMLINK, SourceFile
from vpatch.source import manifest
from vpatch.source.entry import FILES, distributions_in
from vpatch.source.identity import check_tree
from vpatch.source.machine_code import is_compiled, refuse_hidden_sources
from vpatch.source.resolve import refuse_other
from vpatch.source.tree import LOCK_FILE, Pin
from vpatch.source.wheel.record import RECORD
from vpatch.util.untrusted import LARGEST_FILE
from vpatch.util.versions import read_version

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator
    from pathlib import Path

    from vpatch.docker.container import Container, PackedFile
    from vpatch.docker.engine import DockerImage
    from vpatch.progress import Progress
    from vpatch.source.cache import Cache
    from vpatch.source.entry import CachedTree
    from vpatch.source.manifest import FileRecord
    from vpatch.source.spec import ImageSpec

# Debian's Python calls it dist-packages, and Red Hat's has compiled packages in lib64.
_PACKAGES = ("site-packages", "dist-packages")
_LIBRARIES = ("lib", "lib64")
_MINORS = range(9, 16)
_DEBIAN = PurePosixPath("/usr/lib/python3/dist-packages")
_VERSION = re.compile(rb"""^__version__ = version = ['"]([^'"]+)['"]""", re.MULTILINE)
# `vpatch.image.context` writes it.
_LOCK = "/opt/vpatch/lock"
_VERSION_FILES = ("_version.py", "version.py")
_CACHE = "__pycache__"


def open_image_tree(
    spec: ImageSpec, cache: Cache, progress: Progress, expected_digest: str | None
) -> CachedTree:
    """Open the package of a tree that an image has. Close it after use.

    Raises:
        UsageError: the engine has no such image, or the tree is not in it.
        DockerError: no engine answers.
        VpatchError: it is another image than expected, or it has something that no package should.
    """
    with closing(Docker()) as docker:
        image = docker.image(spec.name)
        if image is None:
            raise UsageError(
                f"the Docker Engine at {docker.where} has no image of this name",
                where=spec.name,
                hint=f"docker pull {spec.name}",
                code="source.no-such-image",
            )
        refuse_other(spec.name, image.id, expected_digest, "the Docker Engine")
        pin = Pin(spec.tree, "image", None, image.id, spec.name)

        def unpack(staging: Path) -> list[FileRecord]:
            with docker.container(image.id, ["true"]) as container:
                task = progress.start(f"Reading {spec.tree} in {spec.name}")
                # Closed before the container: see `Container.packed_files`.
                with closing(_files(container, _site(container, image, spec), spec)) as files:
                    records = list(manifest.store(files, staging / FILES))
                task.done()
                return records

        tree = cache.open(pin, unpack, progress)
    try:
        check_tree(tree)
    except BaseException:
        tree.close()
        raise
    return replace(tree, pin=replace(pin, version=_version_in(tree)))


def _site(container: Container, image: DockerImage, spec: ImageSpec) -> PurePosixPath:
    """The folder of packages of the first Python on PATH that has the tree."""
    package = spec.tree.replace("-", "_")
    for site in dict.fromkeys(_candidates(image)):
        if container.read(f"{site}/{package}/__init__.py") is not None:
            return site
    raise UsageError(
        f"no Python on PATH of the image has {spec.tree}",
        where=spec.name,
        hint="name an image whose PATH has the Python that runs it",
        code="source.no-environment",
    )


def _candidates(image: DockerImage) -> Iterator[PurePosixPath]:
    for program in image.environment.get("PATH", "").split(":"):
        folder = PurePosixPath(program)
        if not folder.is_absolute() or folder.name != "bin":
            continue
        for minor, library in itertools.product(reversed(_MINORS), _LIBRARIES):
            python = folder.parent / library / f"python3.{minor}"
            yield from (python / name for name in _PACKAGES)
        # Debian's Python has its packages in both places.
        if folder.parent == PurePosixPath("/usr"):
            yield _DEBIAN


def _files(container: Container, site: PurePosixPath, spec: ImageSpec) -> Generator[SourceFile]:
    package = spec.tree.replace("-", "_")
    names: list[str] = []
    packed = container.packed_files(f"{site}/{package}", is_compiled, LARGEST_FILE)
    with closing(packed):
        for file in packed:
            if _CACHE in file.path.split("/"):
                continue
            names.append(file.path)
            if file.content is not None:
                yield _source_file(file)
    # What a build of vpatch's leaves: which patches are in it.
    lock = container.read(_LOCK) if spec.tree == "vllm" else None
    if lock is not None:
        yield SourceFile(LOCK_FILE, REGULAR, lock)
    refuse_hidden_sources(names, where=f"{spec.name}: {site}", hint="build the image again")
    yield from _metadata(container, site, package)


def _source_file(file: PackedFile) -> SourceFile:
    if file.is_link:
        return SourceFile(file.path, SYMLINK, file.content or b"")
    return SourceFile(file.path, EXECUTABLE if file.mode & 0o100 else REGULAR, file.content or b"")


def _metadata(container: Container, site: PurePosixPath, package: str) -> Iterator[SourceFile]:
    """The metadata of the distributions that the version in the package may belong to."""
    for name in _VERSION_FILES:
        match = _VERSION.search(container.read(f"{site}/{package}/{name}") or b"")
        if match:
            version = match[1].decode(errors="replace")
            yield from _of_versions(container, site, package, _spellings(version))
            return


def _spellings(version: str) -> Iterable[str]:
    return dict.fromkeys([version, version.partition("+")[0], f"{version.partition('+')[0]}+cpu"])


def _of_versions(
    container: Container, site: PurePosixPath, package: str, versions: Iterable[str]
) -> Iterator[SourceFile]:
    names = (package, f"{package}_cpu") if package == "vllm" else (package,)
    for info in (f"{name}-{version}.dist-info" for version in versions for name in names):
        for name in ("METADATA", RECORD) if "/" not in info else ():
            if (text := container.read(f"{site}/{info}/{name}")) is not None:
                yield SourceFile(f"{info}/{name}", REGULAR, text)


def _version_in(tree: CachedTree) -> str | None:
    distributions = dict(distributions_in(tree))
    if distributions:
        return distributions.get(tree.pin.tree, next(iter(distributions.values())))
    package = tree.pin.tree.replace("-", "_")
    paths = (f"{package}/{name}" for name in _VERSION_FILES)
    texts = (tree.read(path) for path in paths if path in tree.records)
    versions = (match[1].decode(errors="replace") for match in map(_VERSION.search, texts) if match)
    return next((version for version in versions if read_version(version)), None)
