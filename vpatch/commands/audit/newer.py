"""Newer advisories in the user's folder: `--update` puts them there, and every audit reads them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import platformdirs
from pydantic import AwareDatetime, BaseModel, ConfigDict, ValidationError

from vpatch.commands.audit.advisories import is_url, read_named
from vpatch.errors import UsageError
from vpatch.library.advisories import Advisory
from vpatch.util.files import replace_file
from vpatch.util.home import in_home
from vpatch.util.untrusted import MEGABYTE, parse_json, read_file
from vpatch.util.urls import redact
from vpatch.util.validation import first_of

if TYPE_CHECKING:
    from vpatch.workspace.context import Context

# osv.dev's export of all that it has for PyPI.
OSV_EXPORT = "https://osv-vulnerabilities.storage.googleapis.com/PyPI/all.zip"
_LARGEST = 64 * MEGABYTE


class NewerAdvisories(BaseModel):
    """What the user's folder has: where it is from, its digest, and when it was taken."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal[1] = 1
    source: str
    digest: str
    taken: AwareDatetime
    advisories: tuple[Advisory, ...]

    @property
    def newest(self) -> datetime:
        return max(one.modified for one in self.advisories)


def newer_advisories() -> NewerAdvisories | None:
    """Read what `--update` took; None if it took nothing.

    Raises:
        UsageError: the file is damaged.
    """
    path = newer_file()
    try:
        return NewerAdvisories.model_validate(parse_json(read_file(path, _LARGEST)))
    except FileNotFoundError:
        return None
    except ValidationError as error:
        what = first_of(error)
    except (OSError, ValueError) as error:
        what = str(error)
    raise UsageError(
        f"the advisories that --update took are damaged: {what}",
        where=str(path),
        hint="remove the file, and run vpatch audit --update again",
        code="security.damaged-update",
    )


def take_newer(context: Context, name: str | None) -> NewerAdvisories:
    """Put the advisories about vLLM of a file or a URL into the user's folder.

    Without `name`, they are osv.dev's export of PyPI. All of them replace what was there.

    Raises:
        UsageError: the file has no advisories, or what is there is newer.
        UnavailableError: the server does not answer.
    """
    advisories, digest = read_named(context, name or OSV_EXPORT)
    newer = NewerAdvisories(
        source=_source(name or OSV_EXPORT),
        digest=digest,
        taken=datetime.now(UTC).replace(microsecond=0),
        advisories=tuple(advisories),
    )
    path = newer_file()
    before = newer_advisories()
    if before is not None and before.newest > newer.newest:
        raise UsageError(
            f"its newest advisory about vllm is of {newer.newest:%Y-%m-%d}, and what --update took "
            f"before has one of {before.newest:%Y-%m-%d}",
            where=newer.source,
            hint=f"name a newer export; to go back to this one, remove {path} first",
            code="security.older-update",
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    document = newer.model_dump(mode="json", by_alias=True)
    replace_file(path, json.dumps(document, indent=1) + "\n")
    return newer


def _source(name: str) -> str:
    return redact(name) if is_url(name) else str(Path(name).absolute())


def newer_file() -> Path:
    """Return the path of what `--update` takes."""
    folder = in_home(lambda: platformdirs.user_data_path("vpatch"), "your data")
    return folder / "advisories.json"
