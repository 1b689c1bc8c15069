"""A checkpoint on the Hugging Face Hub, read by ranges of bytes: the module that speaks to the Hub.

The client is huggingface_hub. HF_ENDPOINT, HF_TOKEN, HF_HUB_OFFLINE, HF_HOME and the proxies mean
what they mean to it. Source: https://huggingface.co/docs/huggingface_hub.
"""

from __future__ import annotations

import os
import re
import threading
import time
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar
from urllib.parse import quote

from huggingface_hub import (
    constants,
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
from huggingface_hub.utils import (
    build_hf_headers,
    get_session,
    hf_raise_for_status,
    http_stream_backoff,
)
from pydantic import BaseModel, Field, StringConstraints, ValidationError

from vpatch import __version__
from vpatch.checkpoint.errors import CheckpointUnavailableError
from vpatch.checkpoint.files import REPOSITORY, FolderFiles
from vpatch.errors import UsageError
from vpatch.util.untrusted import MEGABYTE, parse_json
from vpatch.util.validation import first_of
from vpatch.util.versions import is_number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from vpatch.checkpoint.files import Files

# The base of all errors of the HTTP client, which huggingface_hub may replace by another one.
_TRANSPORT: type[Exception] = HfHubHTTPError.__mro__[1]
_T = TypeVar("_T")
# How long the Hub may be silent, how long one answer may take, and how long all of a checkpoint.
_SECONDS = 60
_LONGEST = 600.0
_LONGEST_OF_ALL = 3600.0
# What a repository has: 100,000 files take 20 MB.
_LARGEST_LIST = 64 * MEGABYTE
# An error or a redirection has a page at most. Its client reads that whole.
_LARGEST_REFUSAL = MEGABYTE
_PARTIAL = 206
_TOO_MANY = 429
_RANGE = re.compile(r"bytes (\d{1,15})-(\d{1,15})/(\d{1,15}|\*)")


class _Sibling(BaseModel):
    rfilename: str
    size: Annotated[int, Field(ge=0, lt=1 << 63)] | None = None


class _Repository(BaseModel):
    """What the Hub tells of a repository, as far as it is read."""

    sha: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40,64}$")] | None = None
    siblings: tuple[_Sibling, ...] | None = None


class _TooLargeError(Exception):
    """An answer is larger than what was asked for."""


class HubFiles:
    """The files of one commit. `root` is what the user typed."""

    def __init__(self, root: Path, repository: str, commit: str, sizes: Mapping[str, int]) -> None:
        self.root = root
        self._repository = repository
        self._commit = commit
        self._sizes = sizes
        self._end = time.monotonic() + _LONGEST_OF_ALL

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
        where = str(self.root / name)
        seconds = min(_LONGEST, self._end - time.monotonic())
        content = _within(seconds, where, lambda: _range(url, count, where))
        if len(content) != count:
            raise _unavailable(where, f"the server sent {len(content)} of {count} bytes")
        return content


def _range(url: str, count: int, where: str) -> bytes:
    with _translate_errors(where), _answer(url, range=f"bytes=0-{count - 1}") as response:
        # Without a range, the whole file would come: gigabytes.
        if response.status_code != _PARTIAL:
            raise _unavailable(where, "the server does not send ranges of a file")
        sent = _RANGE.fullmatch(response.headers.get("content-range", ""))
        if sent is None or (int(sent[1]), int(sent[2])) != (0, count - 1):
            raise _unavailable(where, "the server sends another range of the file")
        return _body(response, count)


@contextmanager
def _answer(url: str, *, max_retries: int = 5, **headers: str) -> Iterator[Any]:
    """Ask for a URL, as the Hub's client does."""
    sent = build_hf_headers(library_name="vpatch", library_version=__version__)
    # What is packed may unpack to anything.
    sent |= {"accept-encoding": "identity", **headers}
    hooks = get_session().event_hooks
    if _limit_refusal not in hooks["response"]:
        get_session().event_hooks = hooks | {"response": [*hooks["response"], _limit_refusal]}
    # The client cannot begin again once it has handed over the answer.
    with http_stream_backoff(
        *("GET", url),
        headers=sent,
        timeout=_SECONDS,
        retry_on_exceptions=(),
        max_retries=max_retries,
    ) as response:
        hf_raise_for_status(response)
        yield response


def _body(response: Any, limit: int) -> bytes:
    length = response.headers.get("content-length", "0")
    if not is_number(length) or int(length) > limit:
        raise _TooLargeError
    pieces, received = [], 0
    for piece in response.iter_raw():
        received += len(piece)
        if received > limit:
            raise _TooLargeError
        pieces.append(piece)
    return b"".join(pieces)


def _limit_refusal(response: Any) -> None:
    """Limit what comes with an error or a redirection: the client reads that whole."""
    if response.is_success:
        return
    unlimited = response.iter_raw
    response.headers.pop("content-encoding", None)

    def iter_raw(*args: Any, **options: Any) -> Iterator[bytes]:
        received = 0
        for piece in unlimited(*args, **options):
            received += len(piece)
            if received > _LARGEST_REFUSAL:
                raise _TooLargeError
            yield piece

    response.iter_raw = iter_raw


def _within(seconds: float, where: str, work: Callable[[], _T]) -> _T:
    """Do what may take so long. The client has limits for silence, and none for slow answers."""
    future: Future[_T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    try:
        return future.result(max(seconds, 0.0))
    except TimeoutError as error:
        raise _unavailable(where, f"the Hub takes longer than {max(seconds, 0):g} s") from error


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
        return _cached_files(typed, repository, revision)
    endpoint = os.environ.get("HF_ENDPOINT") or constants.ENDPOINT
    url = f"{endpoint.rstrip('/')}/api/models/{repository}"
    url += f"/revision/{quote(revision, safe='')}" if revision else ""
    listing = _within(_LONGEST, typed, lambda: _read_listing(f"{url}?blobs=true", typed))
    sizes = {
        file.rfilename: file.size
        for file in listing.siblings or ()
        if file.size is not None and _is_name(file.rfilename)
    }
    return HubFiles(Path(typed), repository, listing.sha or "main", sizes)


def _read_listing(url: str, where: str) -> _Repository:
    with _translate_errors(where), _answer(url, max_retries=0) as response:
        text = _body(response, _LARGEST_LIST)
    try:
        return _Repository.model_validate(parse_json(text))
    except ValidationError as error:
        what = first_of(error)
    except ValueError as error:
        what = f"it is not JSON: {error}"
    raise _unavailable(where, f"the answer is not that of a Hub: {what}")


def _is_name(text: str) -> bool:
    """Whether a file lies in the repository's own folder."""
    return text.isprintable() and text not in {"", ".", ".."} and not {*text} & {"/", "\\"}


def _cached_files(typed: str, repository: str, revision: str | None) -> Files:
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
def _translate_errors(where: str) -> Iterator[None]:
    """Make errors of the client ours. None shows its text, which may have a signed address."""
    try:
        yield
    except _TooLargeError as error:
        raise _unavailable(where, "the server sends more than was asked for") from error
    except (HFValidationError, RepositoryNotFoundError, RevisionNotFoundError) as error:
        raise _refusal(where, error) from error
    except HfHubHTTPError as error:
        status = error.response.status_code
        what = "too many requests" if status == _TOO_MANY else f"the Hub answers with {status}"
        raise _unavailable(where, what) from error
    except _TRANSPORT as error:
        raise _unavailable(where, f"the Hub does not answer: {type(error).__name__}") from error
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        # Its client reads the JSON of a refusal.
        raise _unavailable(where, "the answer is not that of a Hub") from error


def _refusal(where: str, error: Exception) -> UsageError | CheckpointUnavailableError:
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
