"""Published wheels: which one of the index fits, and where it is in the cache."""

from __future__ import annotations

import hashlib
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from packaging import tags
from packaging.utils import parse_wheel_filename
from packaging.version import Version

from vpatch.errors import UsageError
from vpatch.source import index
from vpatch.source.cache import CacheError
from vpatch.source.release import no_digest
from vpatch.util.scratch import open_part

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from io import BufferedRandom

    from packaging.utils import BuildTag

    from vpatch.progress import Progress
    from vpatch.source.cache import Cache
    from vpatch.source.pip_settings import PipSettings
    from vpatch.source.release import Release


def official_wheel(
    distribution: str,
    release: str,
    *,
    cache: Cache,
    settings: PipSettings,
    offline: bool,
    progress: Progress,
    option: str,
) -> Path:
    """Return the wheel of a release for this machine, downloaded unless the cache has it.

    `option` is the one that names a file instead, such as `--wheel FILE`.

    Raises:
        UsageError: the index has none, or several that fit.
        UnavailableError: the index cannot be reached, or the cache cannot be used.
        VpatchError: the index gives no digest, or the wheel has another one.
    """
    releases = index.releases(
        distribution,
        settings=settings,
        folder=cache.answers("index"),
        offline=offline,
        progress=progress,
        wheels=True,
    )
    chosen = choose_wheel(releases, distribution, release, option)
    if chosen.sha256 is None:
        raise no_digest(chosen, hint=f"download the wheel, and name it with {option}")
    path = cache.answers("wheels") / chosen.sha256[:16] / chosen.filename
    if is_wheel(path, chosen.sha256):
        return path
    if offline:
        raise CacheError(
            f"{chosen.filename} is not in the cache",
            where=str(cache.folder),
            hint=f"run the command once without --offline, or name a file with {option}",
            code="source.not-in-cache",
        )
    _download(chosen, chosen.sha256, path, settings, progress)
    return path


def choose_wheel(
    releases: Sequence[Release], distribution: str, release: str, option: str
) -> Release:
    """Pick the wheel of a release that fits this machine.

    Of wheels with the same tags, the one with the highest build number counts, as for pip.

    Raises:
        UsageError: there is none, or there are several.
    """
    fitting: dict[str, tuple[BuildTag, Release]] = {}
    others: list[str] = []
    ours = {*tags.platform_tags(), "any"}
    wanted = Version(release)
    for one in releases:
        try:
            _, version, build, supported = parse_wheel_filename(one.filename)
        except ValueError:  # also of a number with thousands of digits
            continue
        # Without a local part, such as +cu129, any build of the release is meant.
        if one.yanked or wanted != (version if wanted.local else Version(version.public)):
            continue
        if not any(tag.platform in ours for tag in supported):
            others.append(one.filename)
            continue
        key = f"{version} {sorted(map(str, supported))}"
        if key not in fitting or fitting[key][0] < build:
            fitting[key] = build, one
    if len(fitting) == 1:
        return next(one for _, one in fitting.values())
    if fitting:
        names = ", ".join(sorted(one.filename for _, one in fitting.values()))
        raise UsageError(
            f"the index has several wheels of {distribution} {release} for this machine: {names}",
            hint=f"download one of them with pip, and name it with {option}",
            code="source.several-wheels",
        )
    there = f"; it has {', '.join(sorted(others))}" if others else ""
    raise UsageError(
        f"the index has no wheel of {distribution} {release} for this machine{there}",
        hint=f"name a file with {option}, or another distribution",
        code="source.no-such-wheel",
    )


def is_wheel(path: Path, sha256: str) -> bool:
    """Whether a file is there and has a digest, in hexadecimal digits."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == sha256
    except OSError:
        return False


@contextmanager
def new_wheel(path: Path) -> Iterator[BufferedRandom]:
    """Open a new file in the cache beside `path`; it goes at the end unless it was moved there.

    Raises:
        CacheError: it cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open_part(path) as held:
            try:
                yield held
            finally:
                with suppress(OSError):
                    Path(held.name).unlink(missing_ok=True)
    except OSError as error:
        raise CacheError(
            f"the wheel cannot be stored in the cache: {error}",
            where=str(path),
            hint="free space or correct its permissions, or set VPATCH_CACHE_DIR",
        ) from error


def _download(
    chosen: Release, sha256: str, path: Path, settings: PipSettings, progress: Progress
) -> None:
    # Only where something is fetched.
    from vpatch.source import network  # noqa: PLC0415

    with new_wheel(path) as held:
        part = Path(held.name)
        network.download(chosen, part, sha256, settings=settings, progress=progress)
        part.replace(path)
