"""From a spec to an open tree: the one way in to the sources."""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.version import Version

from vpatch.errors import UsageError, VpatchError
from vpatch.git import command, remote
from vpatch.source import folder, identity, index, manifest
from vpatch.source.cache import Cache, CacheError, Populate
from vpatch.source.entry import FILES, CachedTree, DamagedEntry, version_in
from vpatch.source.environment import (
    InstalledDistribution,
    find_distribution,
    packages_folder,
)
from vpatch.source.release import no_digest
from vpatch.source.spec import (
    EnvironmentSpec,
    FolderSpec,
    GitSpec,
    IndexWheelSpec,
    PypiSpec,
    SourceSpec,
    WheelSpec,
)
from vpatch.source.tree import Pin
from vpatch.source.wheel.archive import WheelArchive
from vpatch.source.wheel.download import wheel_file
from vpatch.source.wheel.tree import read_wheel, version_of
from vpatch.util.home import expanded
from vpatch.util.plain_records import as_record
from vpatch.util.record_store import RecordStore
from vpatch.util.urls import redact

if TYPE_CHECKING:
    from vpatch.progress import Progress
    from vpatch.source.manifest import FileRecord
    from vpatch.source.pip_settings import PipSettings
    from vpatch.source.release import Release


SiteOf = Callable[["EnvironmentSpec"], Path]


def folder_named(spec: EnvironmentSpec) -> Path:
    """Return the folder of packages that a spec names by its path."""
    return packages_folder(expanded(spec.place), spec.place)


class PinMismatchError(VpatchError):
    """The source is not what the recipe or the lock says it is."""

    code = "source.pin-mismatch"


def open_tree(
    spec: SourceSpec,
    *,
    cache: Cache,
    settings: PipSettings,
    offline: bool,
    progress: Progress,
    expected_digest: str | None = None,
    site_of: SiteOf = folder_named,
) -> CachedTree:
    """Open the tree that `spec` names, fetched first unless the cache has it. Close it after use.

    `expected_digest` is that of a `Pin`; a source with another one is an error, and so is a source
    that is not what it is called. `site_of` finds the folder of packages of an environment.

    Raises:
        UsageError: the source does not exist, or is something else.
        UnavailableError: the source cannot be reached, or the cache cannot be used.
        VpatchError: the source is damaged, unsafe, or does not have the expected digest.
    """
    match spec:
        case PypiSpec():
            tree = _open_archive(spec, cache, settings, progress, expected_digest, offline=offline)
        case GitSpec():
            # A repository in a folder needs no network, as a folder does not.
            away = offline and not Path(spec.remote).is_dir()
            tree = _open_git(spec, cache, progress, expected_digest, offline=away)
        case FolderSpec():
            tree = _open_folder(spec, cache, progress, expected_digest)
        case WheelSpec() | IndexWheelSpec():
            tree = _open_wheel(spec, cache, settings, progress, expected_digest, offline=offline)
        case EnvironmentSpec():
            installed = find_distribution(spec.tree, site_of(spec), spec.place)
            tree = open_distribution(spec, installed, cache, progress, expected_digest)
    try:
        identity.check_tree(tree)
    except BaseException:
        tree.close()
        raise
    return tree


def cached_pin(
    spec: PypiSpec, cache: Cache, expected_digest: str | None, *, offline: bool = False
) -> Pin | None:
    """Find the one cached archive that an exact version can mean: no index need be asked.

    Raises:
        PinMismatchError: only `offline`, where the cache has another archive than expected.
    """
    if not index.is_exact(spec.version):
        return None
    pins = cache.find(spec.tree, str(Version(spec.version)))
    if expected_digest:
        matching = [pin for pin in pins if pin.digest == expected_digest]
        if pins and not matching and offline:
            refuse_other(pins[0].label, pins[0].digest, expected_digest, "the cache")
        pins = tuple(matching)
    return pins[0] if len(pins) == 1 else None


def listed_pin(
    spec: PypiSpec,
    *,
    cache: Cache,
    settings: PipSettings,
    progress: Progress,
    expected_digest: str | None = None,
) -> Pin | None:
    """Return the pin of a release's archive as the index lists it; the archive is not fetched.

    None where the index has no digest, or another one than expected: `open_tree` tells why.

    Raises:
        UsageError: the index has no such release.
        UnavailableError: the index cannot be reached.
    """
    release = _listed(spec, cache, settings, progress, offline=False)
    digest = f"sha256:{release.sha256}"
    if release.sha256 is None or expected_digest not in {None, digest}:
        return None
    return _pin_of(spec, release, digest)


def _listed(
    spec: PypiSpec, cache: Cache, settings: PipSettings, progress: Progress, *, offline: bool
) -> Release:
    """The release that a version means to the index."""
    answers = cache.answers("index")
    releases = index.releases(
        spec.tree, settings=settings, folder=answers, offline=offline, progress=progress
    )
    return index.choose(releases, spec.version)


def _pin_of(spec: PypiSpec, release: Release, digest: str) -> Pin:
    return Pin(spec.tree, "pypi", release.version, digest, release.filename)


def _open_archive(
    spec: PypiSpec,
    cache: Cache,
    settings: PipSettings,
    progress: Progress,
    expected: str | None,
    *,
    offline: bool,
) -> CachedTree:
    """Open a release's source archive, of the package index."""
    cached = cached_pin(spec, cache, expected, offline=offline)
    if cached:
        try:
            return cache.open(cached, None, progress)
        except (DamagedEntry, CacheError):
            if offline:
                raise
    release = _listed(spec, cache, settings, progress, offline=offline)
    digest = f"sha256:{release.sha256}" if release.sha256 else expected
    if digest is None:
        raise no_digest(release, hint="a recipe that pins the archive's digest")
    refuse_other(release.filename, digest, expected, "the index")
    pin = _pin_of(spec, release, digest)

    def fetch(staging: Path) -> list[FileRecord]:
        # Only where something is fetched.
        from vpatch.source import network  # noqa: PLC0415
        from vpatch.source.archive import read_archive  # noqa: PLC0415

        archive = staging / "archive.tar.gz"
        sha256 = digest.removeprefix("sha256:")
        network.download(release, archive, sha256, settings=settings, progress=progress)
        files = read_archive(archive, release.filename, progress)
        records = list(manifest.store(files, staging / FILES))
        archive.unlink()
        return records

    return cache.open(pin, None if offline else fetch, progress)


def _open_git(
    spec: GitSpec, cache: Cache, progress: Progress, expected: str | None, *, offline: bool
) -> CachedTree:
    resolved = _resolve_ref(spec, cache, offline=offline)
    digest = f"sha1:{resolved.commit}"
    origin = redact(spec.url)
    refuse_other(f"{spec.ref} in {origin}", digest, expected, "the repository")
    pin = Pin(spec.tree, "git", None, digest, origin, spec.ref)

    def fetch(staging: Path) -> list[FileRecord]:
        task = progress.start(f"Fetching {spec.ref} from {origin}")
        clone = staging / "clone.git"
        remote.fetch_commit(spec.remote, resolved, clone)
        files = command.commit_files(clone, resolved.commit)
        records = list(manifest.store(files, staging / FILES))
        shutil.rmtree(clone)
        task.done()
        return records

    tree = cache.open(pin, None if offline else fetch, progress)
    # The entry may have been made for another ref of the same commit.
    return replace(tree, pin=replace(pin, version=version_in(tree) or _version_of_tag(spec.ref)))


def _resolve_ref(spec: GitSpec, cache: Cache, *, offline: bool) -> remote.ResolvedRef:
    """Return the commit of a name: the remote's answer, or with --offline the last answer."""
    if command.FULL_COMMIT.fullmatch(spec.ref):
        return remote.ResolvedRef(spec.ref, spec.ref)
    key = hashlib.sha256(f"{redact(spec.url)}\0{spec.ref}".encode()).hexdigest()[:16]
    answers = RecordStore(cache.answers("refs"), is_private=False)
    if not offline:
        resolved = remote.resolve_ref(spec.remote, spec.ref)
        answers.put(key, asdict(resolved))
        return resolved
    known = answers.get(key, partial(as_record, remote.ResolvedRef))
    if known is not None:
        return known
    raise CacheError(
        f"the commit of {spec.ref} is not in the cache, and --offline forbids asking",
        where=redact(spec.url),
        hint="name a commit that is in the cache, or run once without --offline",
        code="source.not-in-cache",
    )


def _version_of_tag(ref: str) -> str | None:
    match = re.fullmatch(r"(?:refs/tags/)?v?(\d.*)", ref)
    version = index.parse_version(match[1]) if match and "." in match[1] else None
    return str(Version(version)) if version else None


def _open_folder(
    spec: FolderSpec, cache: Cache, progress: Progress, expected: str | None
) -> CachedTree:
    source = expanded(spec.place)
    if not source.is_dir():
        raise UsageError(
            "there is no such folder",
            where=spec.place,
            hint="correct the path; paths in a lock are relative to the project's folder",
            code="source.no-such-folder",
        )
    identity.check_folder(spec.tree, source, spec.place)
    task = progress.start(f"Reading {spec.place}")
    records = folder.scan(source)
    task.done()
    digest = f"sha256:{manifest.content_digest(records)}"
    refuse_other(spec.place, digest, expected, "the folder")
    pin = Pin(spec.tree, "folder", None, digest, spec.path)

    tree = cache.open(pin, _copying(source, records, {}), progress)
    return replace(tree, pin=replace(pin, version=version_in(tree)))


def _open_wheel(
    spec: WheelSpec | IndexWheelSpec,
    cache: Cache,
    settings: PipSettings,
    progress: Progress,
    expected: str | None,
    *,
    offline: bool,
) -> CachedTree:
    origin = redact(spec.origin)
    wanted = expected
    if isinstance(spec, WheelSpec) and spec.sha256 is not None:
        wanted = f"sha256:{spec.sha256}"
        refuse_other(origin, wanted, expected, "what the user named")
    is_file = isinstance(spec, WheelSpec) and not spec.is_url and expanded(spec.place).exists()
    if wanted is not None and not is_file:
        with suppress(DamagedEntry, CacheError):
            tree = cache.open(Pin(spec.tree, "wheel", None, wanted, origin), None, progress)
            return replace(tree, pin=replace(tree.pin, origin=origin))
    sha256 = wanted.removeprefix("sha256:") if wanted else None
    path = wheel_file(
        spec, cache=cache, settings=settings, offline=offline, progress=progress, sha256=sha256
    )
    with WheelArchive(path) as archive:
        digest = f"sha256:{archive.sha256}"
        refuse_other(origin, digest, wanted, "the wheel")
        pin = Pin(spec.tree, "wheel", version_of(archive), digest, origin)

        def unpack(staging: Path) -> list[FileRecord]:
            return list(manifest.store(read_wheel(archive, progress), staging / FILES))

        tree = cache.open(pin, unpack, progress)
    # The entry may have been made of another file with the same bytes.
    return replace(tree, pin=pin)


def open_distribution(
    spec: EnvironmentSpec,
    installed: InstalledDistribution,
    cache: Cache,
    progress: Progress,
    expected: str | None = None,
) -> CachedTree:
    """Open the tree of a distribution that is installed. Close it after use.

    Raises:
        PinMismatchError: its files do not have the expected digest.
        UsageError: a file cannot be read.
        VpatchError: Python would import something in place of a source.
    """
    site = installed.site
    task = progress.start(f"Reading {spec.tree} in {site}")
    records = folder.scan(site, installed.paths(), installed.places)
    task.done()
    digest = f"sha256:{manifest.content_digest(records)}"
    refuse_other(spec.place, digest, expected, "the environment")
    pin = Pin(spec.tree, "environment", installed.version, digest, spec.path)

    return replace(cache.open(pin, _copying(site, records, installed.places), progress), pin=pin)


def _copying(source: Path, records: list[FileRecord], places: Mapping[str, str]) -> Populate:
    """Copy the scanned files of a folder into an entry, which is as private as they are.

    `places` are as in `vpatch.source.folder.scan`.
    """

    def copy(staging: Path) -> list[FileRecord]:
        if folder.is_private(source, records):
            staging.chmod(0o700)
        return list(manifest.store(folder.reparse(source, records, places), staging / FILES))

    return copy


def refuse_other(what: str, actual: str, expected: str | None, source: str) -> None:
    """Refuse a source that has another digest than expected.

    Raises:
        PinMismatchError: it has.
    """
    if expected and actual != expected:
        raise PinMismatchError(
            f"{what} is {actual} in {source}, and {expected} was expected",
            hint="find out which is right, then correct the recipe or the lock, or the source",
        )
