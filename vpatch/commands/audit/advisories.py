"""The advisories that the user names: in a file, in a folder, or behind a URL."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING

from vpatch.errors import UsageError
from vpatch.library.advisories import Advisories, read_advisories
from vpatch.util.plural import counted
from vpatch.util.untrusted import MEGABYTE
from vpatch.util.urls import redact

if TYPE_CHECKING:
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
    if not name.startswith(("https://", "http://")):
        return read_advisories(Path(name))
    if context.offline:
        raise UsageError(
            "--offline forbids asking for advisories",
            where=redact(name),
            hint="download the file before, and name it, or leave out --offline",
            code="security.offline-advisories",
        )
    # requests takes 0.2 s to import.
    from vpatch.source.document import fetch_document  # noqa: PLC0415

    with NamedTemporaryFile() as file:
        fetch_document(
            name,
            file,
            limit=_LARGEST_DOWNLOAD,
            settings=context.pip_settings,
            progress=context.progress,
        )
        file.flush()
        advisories = read_advisories(Path(file.name), redact(name))
    newest = max(one.modified for one in advisories)
    days = Advisories(tuple(advisories), newest).age(datetime.now(UTC))
    context.progress.note(
        f"{redact(name)}: {counted(len(advisories), 'advisory')} about vllm; the newest is of "
        f"{newest:%Y-%m-%d}, {counted(days, 'day')} ago; no copy was kept"
    )
    return advisories
