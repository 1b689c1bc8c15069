"""What the package index has of a project, and which of it a version names."""

from __future__ import annotations

import hashlib
import json
import logging
import math
import time
from bisect import bisect
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from packaging.version import Version

from vpatch.errors import UnavailableError, UsageError
from vpatch.source.release import Release
from vpatch.util.filelock import READ_ONLY
from vpatch.util.plain_records import as_record
from vpatch.util.plural import age_in_words
from vpatch.util.record_store import RecordStore
from vpatch.util.urls import redact
from vpatch.util.versions import read_version

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from vpatch.progress import Progress
    from vpatch.source.pip_settings import PipSettings

_log = logging.getLogger(__name__)
LATEST = "latest"
# The max-age that the public index gives its own answers.
_FRESH = 600
_SERIES_PARTS = 2


class IndexAccessError(UnavailableError):
    """An index cannot be reached, or does not answer as an index does."""

    code = "source.index-unreachable"


@dataclass(frozen=True)
class _Listing:
    age: float
    releases: tuple[Release, ...]


def is_exact(version: str) -> bool:
    """Tell 0.23.0 or 0.30.0rc2, which name one release, from 0.23 and latest."""
    if version == LATEST:
        return False
    parsed = Version(version)
    plain = parsed.public == parsed.base_version and parsed.local is None
    return not plain or len(parsed.release) > _SERIES_PARTS


def releases(
    project: str,
    *,
    settings: PipSettings,
    folder: Path,
    offline: bool,
    progress: Progress,
    wheels: bool = False,
) -> tuple[Release, ...]:
    """List the project's source archives, or its wheels, over all indexes; the oldest first.

    The answer is kept in `folder`. While it is fresh, the indexes are not asked again.

    Raises:
        IndexAccessError: an index cannot be reached, or --offline forbids asking it.
        UsageError: no index knows the project, or pip's settings are wrong or forbid asking.
    """
    urls = (settings.index_url or "", *settings.extra_index_urls)
    asked = hashlib.sha256(json.dumps([redact(url) for url in urls]).encode()).hexdigest()[:12]
    store = RecordStore(folder / "wheels" if wheels else folder, is_private=False)
    key = f"{project}-{asked}"
    known = store.get(key, _listing)
    if known and (offline or 0 <= known.age < _FRESH):
        _log.info("the list of %s releases is in the cache: %s", project, store.file(key))
        if offline:
            age = age_in_words(known.age)
            if known.age < 0:
                age = "dated in the future: a clock was or is wrong"
            progress.note(f"offline: the list of {project} releases is {age}")
        return known.releases
    if offline:
        raise IndexAccessError(
            f"the list of {project} releases is not in the cache, and --offline forbids asking",
            where=str(folder),
            hint="name an exact version that is in the cache, or run once without --offline",
            code="source.not-in-cache",
        )
    if settings.no_index:
        raise UsageError(
            f"pip's no-index setting forbids asking an index for {project}",
            hint="unset it (PIP_NO_INDEX, or no-index in pip.conf), or use --offline",
            code="source.index-forbidden",
        )
    # requests and pypi_simple cost more time to import than the rest of a warm run.
    from vpatch.source import network  # noqa: PLC0415

    listed = network.list_releases(project, settings, wheels=wheels)
    if listed is None:
        raise _unknown_project(project, network.index_urls(settings), folder)
    ordered = tuple(sorted(listed, key=lambda release: Version(release.version)))
    _keep(store, key, ordered)
    return ordered


def choose(candidates: Sequence[Release], version: str) -> Release:
    """Pick the release that `version` names. Raises UsageError if there is none."""
    if is_exact(version):
        matching = [one for one in candidates if Version(one.version) == Version(version)]
    else:
        wanted = () if version == LATEST else Version(version).release
        matching = [
            one
            for one in candidates
            if not one.yanked
            and not Version(one.version).is_prerelease
            and (*Version(one.version).release, 0)[: len(wanted)] == wanted
        ]
    if not matching:
        raise _no_match(candidates, version)
    return matching[-1]


def _no_match(candidates: Sequence[Release], version: str) -> UsageError:
    project = candidates[0].project if candidates else "the project"
    if not candidates:
        return UsageError(
            "the index has no source archive (.tar.gz) of this project",
            hint="name a git repository or a folder as the source",
            code="source.no-such-release",
        )
    if version == LATEST:
        nearest = [one.version for one in candidates[-4:]]
    else:
        place = bisect([Version(one.version) for one in candidates], Version(version))
        nearest = [one.version for one in candidates[max(0, place - 2) : place + 2]]
    kind = "release" if is_exact(version) else "final release"
    return UsageError(
        f"the index has no {kind} {version} of {project}",
        hint=f"the nearest that it has: {', '.join(nearest)}",
        code="source.no-such-release",
    )


def _unknown_project(project: str, urls: Sequence[str], folder: Path) -> UsageError:
    listed = {path.stem.rpartition("-")[0] for path in folder.glob("*.json")}
    near = get_close_matches(project, listed | {"vllm", "vllm-ascend"} - {project}, n=1)
    hint = "check the name, and pip's index-url setting"
    return UsageError(
        f"no index knows the project {project}",
        where=", ".join(redact(url) for url in urls),
        hint=f"did you mean {near[0]}? If not, {hint}" if near else hint,
        code="source.unknown-project",
    )


def _listing(record: Any) -> _Listing | None:
    known = tuple(as_record(Release, one) for one in record["releases"])
    age = time.time() - float(record["asked"])
    is_whole = math.isfinite(age) and all(parse_version(one.version) for one in known)
    return _Listing(age, known) if is_whole else None


def _keep(store: RecordStore, key: str, listed: Sequence[Release]) -> None:
    try:
        store.write(key, {"asked": time.time(), "releases": [asdict(one) for one in listed]})
    except OSError as error:
        if error.errno in READ_ONLY:
            return  # the next run asks again
        raise IndexAccessError(
            f"the index's answer cannot be stored in the cache: {error}",
            where=str(store.file(key)),
            hint="free space or correct its permissions, or set VPATCH_CACHE_DIR",
            code="source.unwritable-cache",
        ) from error


def parse_version(text: str) -> str | None:
    """Return a version's text as the index spells it (no v in front), or None if it is not one."""
    if text == LATEST:
        return text
    return text.removeprefix("v") if read_version(text) else None
