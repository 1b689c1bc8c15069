"""The advisories that the user names: in a file, in a folder, or behind a URL."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING

from vpatch.errors import UsageError
from vpatch.library.advisories import Advisories, read_advisories
from vpatch.util.plural import counted
from vpatch.util.untrusted import MEGABYTE, digest_of_file
from vpatch.util.urls import redact

if TYPE_CHECKING:
    from typing import IO

    from vpatch.library.advisories import Advisory
    from vpatch.workspace.context import Context

# The export of osv.dev for all of PyPI has less than half of it.
_LARGEST_DOWNLOAD = 256 * MEGABYTE


def named_advisories(context: Context, name: str) -> list[Advisory]:
    """Read advisories about vLLM. What comes from a URL is read once, and not kept.

    Raises:
        UsageError: there are none, or `context.offline` forbids asking for them.
        UnavailableError: the server does not answer.
        VpatchError: the server sends too much, or leads to a less safe address.
    """
    if not is_url(name):
        return read_advisories(Path(name))
    with NamedTemporaryFile() as file:
        _fetch(context, name, file)
        advisories = read_advisories(Path(file.name), redact(name))
    newest = max(one.modified for one in advisories)
    days = Advisories(tuple(advisories), newest).age(datetime.now(UTC))
    context.progress.note(
        f"{redact(name)}: {counted(len(advisories), 'advisory')} about vllm; the newest is of "
        f"{newest:%Y-%m-%d}, {counted(days, 'day')} ago; no copy was kept"
    )
    return advisories


def read_named(context: Context, name: str) -> tuple[list[Advisory], str]:
    """Read the advisories about vLLM in a file or behind a URL, and the digest of the file.

    Raises:
        UsageError: there are none, it is a folder, or `context.offline` forbids asking.
        UnavailableError: the server does not answer.
        VpatchError: the server sends too much, or leads to a less safe address.
    """
    if is_url(name):
        with NamedTemporaryFile() as file:
            _fetch(context, name, file)
            return _read_with_digest(Path(file.name), redact(name))
    if not Path(name).is_file():
        raise UsageError(
            "is a folder" if Path(name).is_dir() else "there is no such file",
            where=name,
            hint="name a zip or another file of advisories, or a URL",
            code="security.no-advisories",
        )
    return _read_with_digest(Path(name), name)


def _read_with_digest(path: Path, where: str) -> tuple[list[Advisory], str]:
    try:
        digest = digest_of_file(path, _LARGEST_DOWNLOAD)
    except OSError as error:
        raise UsageError(
            f"cannot be read: {error.strerror}",
            where=where,
            hint="name a zip or another file of advisories, or a URL",
            code="security.wrong-advisory",
        ) from error
    return read_advisories(path, where), digest


def is_url(name: str) -> bool:
    """Whether the user names something to download."""
    return name.startswith(("https://", "http://"))


def _fetch(context: Context, name: str, file: IO[bytes]) -> None:
    if context.offline:
        raise UsageError(
            "--offline forbids asking for advisories",
            where=redact(name),
            hint="download the file before, and name it, or leave out --offline",
            code="security.offline-advisories",
        )
    # requests takes 0.2 s to import.
    from vpatch.source.document import fetch_document  # noqa: PLC0415

    fetch_document(
        name,
        file,
        limit=_LARGEST_DOWNLOAD,
        settings=context.pip_settings,
        progress=context.progress,
    )
    file.flush()
