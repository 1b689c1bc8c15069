"""A checkpoint on the Hugging Face Hub, read by ranges of bytes: the module that speaks to the Hub.

The client is huggingface_hub. HF_ENDPOINT, HF_TOKEN, HF_HUB_OFFLINE, HF_HOME and the proxies mean
what they mean to it. Source: https://huggingface.co/docs/huggingface_hub.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from huggingface_hub import (
    HfApi,
    hf_hub_url,
    is_offline_mode,
    snapshot_download,
    try_to_load_from_cache,
)
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.utils import build_hf_headers, hf_raise_for_status, http_stream_backoff

from vpatch import __version__
from vpatch.checkpoint.errors import CheckpointUnavailableError
from vpatch.checkpoint.files import REPOSITORY, FolderFiles
from vpatch.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vpatch.checkpoint.files import Files

# The base of all errors of the HTTP client, which huggingface_hub may replace by another one.
_TRANSPORT: type[Exception] = HfHubHTTPError.__mro__[1]
_SECONDS = 60
_PARTIAL = 206
_TOO_MANY = 429


class HubFiles:
    """The files of one commit. `root` is what the user typed."""

    def __init__(self, root: Path, repository: str, commit: str, sizes: Mapping[str, int]) -> None:
        self.root = root
        self._repository = repository
        self._commit = commit
        self._sizes = sizes

    def names(self) -> frozenset[str]:
        return frozenset(self._sizes)

    def size(self, name: str) -> int:
        return self._sizes[name]

    def start(self, name: str, count: int) -> bytes:
        """Return the first bytes of a file, from the cache of the Hub's client if it is there."""
        cached = try_to_load_from_cache(self._repository, name, revision=self._commit)
        if isinstance(cached, str):
            return FolderFiles(Path(cached).parent).start(Path(cached).name, count)
        count = min(count, self._sizes[name])
        return self._fetch(name, count) if count else b""

    def _fetch(self, name: str, count: int) -> bytes:
        url = hf_hub_url(
            self._repository, name, revision=self._commit, endpoint=os.environ.get("HF_ENDPOINT")
        )
        headers = build_hf_headers(library_name="vpatch", library_version=__version__)
        headers["range"] = f"bytes=0-{count - 1}"
        where = str(self.root / name)
        with (
            _told(where),
            # The client cannot begin again once it has handed over the answer.
            http_stream_backoff(
                "GET", url, headers=headers, timeout=_SECONDS, retry_on_exceptions=()
            ) as response,
        ):
            hf_raise_for_status(response)
            # Without a range, the whole file would come: gigabytes.
            if response.status_code != _PARTIAL:
                raise _unavailable(where, "the server does not send ranges of a file")
            found = b"".join(response.iter_bytes())
        if len(found) != count:
            raise _unavailable(where, f"the server sent {len(found)} of {count} bytes")
        return found


def open_repository(typed: str) -> Files:
    """Find the files of ORG/NAME[@REVISION], and fetch none of them.

    If the client is offline, they come from its cache.

    Raises:
        UsageError: there is no such repository or revision.
        CheckpointUnavailableError: the Hub does not answer, or does not let this user in.
    """
    match = REPOSITORY.fullmatch(typed)
    if match is None:
        raise _not_there(typed, "this is not the name of a repository: ORG/NAME[@REVISION]")
    repository, revision = match["repository"], match["revision"]
    if is_offline_mode():
        return _cached(typed, repository, revision)
    api = HfApi(
        endpoint=os.environ.get("HF_ENDPOINT"), library_name="vpatch", library_version=__version__
    )
    with _told(typed):
        found = api.model_info(repository, revision=revision, files_metadata=True, timeout=_SECONDS)
    sizes: dict[str, int] = {}
    for file in found.siblings or ():
        if "/" not in file.rfilename and file.size is not None:
            sizes[file.rfilename] = file.size
    return HubFiles(Path(typed), repository, found.sha or "main", sizes)


def _cached(typed: str, repository: str, revision: str | None) -> Files:
    try:
        return FolderFiles(
            Path(snapshot_download(repository, revision=revision, local_files_only=True))
        )
    except LocalEntryNotFoundError as error:
        raise _unavailable(
            typed,
            "HF_HUB_OFFLINE is set, and the cache of the Hub's client does not have it",
            "unset HF_HUB_OFFLINE, or name a folder",
        ) from error


@contextmanager
def _told(where: str) -> Iterator[None]:
    """Make errors of the client ours. None shows its text, which may have a signed address."""
    try:
        yield
    except (HFValidationError, RepositoryNotFoundError, RevisionNotFoundError) as error:
        raise _refused(where, error) from error
    except HfHubHTTPError as error:
        status = error.response.status_code
        what = "too many requests" if status == _TOO_MANY else f"the Hub answers with {status}"
        raise _unavailable(where, what) from error
    except _TRANSPORT as error:
        raise _unavailable(where, f"the Hub does not answer: {type(error).__name__}") from error


def _refused(where: str, error: Exception) -> UsageError | CheckpointUnavailableError:
    if isinstance(error, GatedRepoError):
        return CheckpointUnavailableError(
            "the repository is gated, and this user may not read it",
            where=where,
            hint="ask for access on its page, then set HF_TOKEN",
            code="checkpoint.gated",
        )
    if isinstance(error, RevisionNotFoundError):
        return _not_there(where, "the repository has no such revision")
    return _not_there(
        where, "there is no such folder, and the Hub shows this user no such repository"
    )


def _not_there(where: str, what: str) -> UsageError:
    return UsageError(
        what,
        where=where,
        hint="correct the name; if the repository is private, set HF_TOKEN",
        code="checkpoint.no-such-repository",
    )


def _unavailable(where: str, what: str, hint: str | None = None) -> CheckpointUnavailableError:
    return CheckpointUnavailableError(
        what,
        where=where,
        hint=hint or "try again later; with HF_HUB_OFFLINE=1, vpatch reads what is in the cache",
        code="checkpoint.hub-unavailable",
    )
