"""What goes wrong with a package index, as errors. Import this only with `network`: see there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import requests
from urllib3.exceptions import NewConnectionError
from urllib3.exceptions import TimeoutError as Urllib3TimeoutError

from vpatch.errors import UnavailableError, UsageError, VpatchError
from vpatch.source.index import IndexAccessError
from vpatch.source.pip_settings import wrong_url
from vpatch.util.limited import TooLargeError, TooSlowError
from vpatch.util.urls import redact

if TYPE_CHECKING:
    from vpatch.source.pip_settings import PipSettings

# Request timeout, too early, too many requests: of the 4xx, the answers that pass.
_LATER = (408, 425, 429)
# requests raises these before it sends anything. InvalidURL is also for the address of a proxy.
_WRONG_URL = (
    requests.exceptions.MissingSchema,
    requests.exceptions.InvalidSchema,
    requests.exceptions.InvalidURL,
)
# An InvalidSchema as well, but the address is right: another machine may have the package.
_LACKS_SOCKS = "Missing dependencies for SOCKS"


_HINTS = {
    "index": "check pip's index-url, extra-index-url and proxy settings, or use --offline",
    "server": "check the URL and pip's proxy setting, or download the file yourself and name it",
}


class DownloadError(UnavailableError):
    """The download of an archive, or of another file, was cut off."""

    code = "source.download-cut-off"


class DigestMismatchError(VpatchError):
    """A downloaded archive does not have the digest that the index or a recipe gives."""

    code = "source.digest-mismatch"


class UnsafeAnswerError(VpatchError):
    """A server answers with too much, or leads to a less safe address."""

    code = "source.unsafe-answer"


class InsecureRedirectError(requests.RequestException):
    """A server leads its client to a less safe address."""


def cut_off(what: str, url: str, received: int, size: int | None) -> DownloadError:
    of = f" of {size}" if size else ""
    return DownloadError(
        f"the {what} was cut off: {received} bytes{of} were received",
        where=redact(url),
        hint="run the command again; nothing was kept",
    )


def no_index(url: str, error: Exception) -> IndexAccessError:
    return IndexAccessError(
        f"the response is not from a package index: {redact(str(error))}",
        where=redact(url),
        hint="check pip's index-url and extra-index-url settings",
        code="source.not-an-index",
    )


def no_answer(
    url: str, error: requests.RequestException, settings: PipSettings
) -> IndexAccessError | UnsafeAnswerError | UsageError:
    """Return what to raise where an index gives no answer that can be used."""
    if _is_wrong_url(error):
        return wrong_url(url, error)
    return _unsafe(url, error, "index") or IndexAccessError(
        _answer(error, settings, "index"),
        where=redact(url),
        hint=_HINTS["index"],
        code="source.index-refused" if _is_refused(error) else "source.index-unreachable",
    )


def no_file(
    url: str, error: requests.RequestException, settings: PipSettings
) -> UnavailableError | UnsafeAnswerError | UsageError:
    """Return what to raise where a URL of a file gives no answer that can be used."""
    if _is_wrong_url(error):
        return unusable_url(url, error)
    return _unsafe(url, error, "server") or UnavailableError(
        _answer(error, settings, "server"),
        where=redact(url),
        hint=_HINTS["server"],
        code="source.url-refused" if _is_refused(error) else "source.url-unreachable",
    )


def _is_wrong_url(error: requests.RequestException) -> bool:
    return isinstance(error, _WRONG_URL) and _LACKS_SOCKS not in str(error)


def _is_refused(error: requests.RequestException) -> bool:
    status = 0 if error.response is None else error.response.status_code
    return 400 <= status < 500 and status not in _LATER  # noqa: PLR2004 - of HTTP


def _unsafe(url: str, error: requests.RequestException, asked: str) -> UnsafeAnswerError | None:
    if isinstance(error, (TooLargeError, InsecureRedirectError)):
        return UnsafeAnswerError(str(error), where=redact(url), hint=_HINTS[asked])
    return None


def unusable_url(url: str, error: Exception) -> UsageError:
    """Return what to raise for a URL of a file that cannot be used."""
    return wrong_url(url, error, hint="correct the URL, or pip's proxy setting")


def _answer(error: requests.RequestException, settings: PipSettings, asked: str) -> str:
    who = f"the {asked}"
    if isinstance(error, requests.TooManyRedirects):
        return f"{who} redirects too often: {redact(str(error))}"
    if isinstance(error, TooSlowError):
        return f"{who} is too slow: {error}"
    if error.response is not None:
        return f"{who} answered {error.response.status_code} {error.response.reason}"
    # requests wraps what urllib3 met last in the tale of its retries.
    cause = error.args[0] if error.args else error
    cause = getattr(cause, "reason", None) or cause
    timed_out = isinstance(cause, Urllib3TimeoutError) and not isinstance(cause, NewConnectionError)
    if timed_out or isinstance(error, requests.Timeout):
        return f"{who} did not answer within {settings.timeout:g} s (pip's timeout setting)"
    return f"{who} cannot be reached: {redact(str(cause))}"
