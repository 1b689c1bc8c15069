"""The file of a wheel: where the user has it, or in the cache after a download."""

from __future__ import annotations

import hashlib
import time
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from vpatch.errors import UsageError
from vpatch.source import index
from vpatch.source.cache import CacheError
from vpatch.source.spec import IndexWheelSpec
from vpatch.source.wheel.names import parse_wheel_name
from vpatch.source.wheel.release import is_wheel, new_wheel, official_wheel
from vpatch.util.home import expanded
from vpatch.util.plain_records import as_record
from vpatch.util.record_store import RecordStore
from vpatch.util.untrusted import MEGABYTE
from vpatch.util.urls import redact

if TYPE_CHECKING:
    from vpatch.progress import Progress
    from vpatch.source.cache import Cache
    from vpatch.source.pip_settings import PipSettings
    from vpatch.source.spec import WheelSpec

_LARGEST = 4000 * MEGABYTE
# As the answers of an index: what a URL has may change.
_FRESH = 600


@dataclass(frozen=True)
class _Download:
    sha256: str
    asked: float


def wheel_file(
    spec: WheelSpec | IndexWheelSpec,
    *,
    cache: Cache,
    settings: PipSettings,
    offline: bool,
    progress: Progress,
    sha256: str | None,
) -> Path:
    """Return the file of a wheel, downloaded unless it is here. `sha256` is what it should have.

    Raises:
        UsageError: there is no such file, or the index has no such wheel.
        UnavailableError: it cannot be downloaded, or --offline forbids it.
        VpatchError: it has another digest than the index says.
    """
    if isinstance(spec, IndexWheelSpec):
        return official_wheel(
            spec.distribution,
            _release(spec, cache, settings, progress, offline=offline),
            cache=cache,
            settings=settings,
            offline=offline,
            progress=progress,
            option="--vllm ./FILE.whl" if spec.tree == "vllm" else f"--tree {spec.tree}=./FILE.whl",
        )
    if spec.is_url:
        return _downloaded(spec, cache, settings, progress, sha256, offline=offline)
    path = expanded(spec.place)
    if not path.is_file():
        raise UsageError(
            "there is no such file",
            where=spec.place,
            hint="correct the path; paths in a lock are relative to the project's folder",
            code="source.no-such-wheel",
        )
    return path


def _release(
    spec: IndexWheelSpec, cache: Cache, settings: PipSettings, progress: Progress, *, offline: bool
) -> str:
    """The exact version that a series or "latest" means to the index."""
    if index.is_exact(spec.version):
        return spec.version
    listed = index.releases(
        spec.distribution,
        settings=settings,
        folder=cache.answers("index"),
        offline=offline,
        progress=progress,
        wheels=True,
    )
    return index.choose(listed, spec.version).version


def _downloaded(
    spec: WheelSpec,
    cache: Cache,
    settings: PipSettings,
    progress: Progress,
    sha256: str | None,
    *,
    offline: bool,
) -> Path:
    name = unquote(PurePosixPath(urlsplit(spec.origin).path).name)
    parse_wheel_name(name)
    wheels = cache.answers("wheels")
    answers = RecordStore(wheels / "urls", is_private=False)
    key = hashlib.sha256(spec.origin.encode()).hexdigest()[:16]
    earlier = answers.get(key, partial(as_record, _Download))
    if sha256 is None and earlier and (offline or 0 <= time.time() - earlier.asked < _FRESH):
        sha256 = earlier.sha256
    if sha256 is not None:
        path = wheels / sha256[:16] / name
        if is_wheel(path, sha256):
            return path
    if offline:
        raise CacheError(
            "this wheel is not in the cache, and --offline forbids downloading it",
            where=redact(spec.origin),
            hint="run the command once without --offline, or name a file",
            code="source.not-in-cache",
        )
    path, actual = _download(spec, name, wheels, settings, progress)
    answers.put(key, asdict(_Download(actual, time.time())))
    return path


def _download(
    spec: WheelSpec, name: str, wheels: Path, settings: PipSettings, progress: Progress
) -> tuple[Path, str]:
    """Return the file and its digest."""
    # Only where something is fetched.
    from vpatch.source.document import fetch_document  # noqa: PLC0415

    with new_wheel(wheels / name) as held:
        fetch_document(spec.origin, held, limit=_LARGEST, settings=settings, progress=progress)
        held.flush()
        held.seek(0)
        sha256 = hashlib.file_digest(held, "sha256").hexdigest()
        path = wheels / sha256[:16] / name
        path.parent.mkdir(exist_ok=True)
        Path(held.name).replace(path)
    return path, sha256
