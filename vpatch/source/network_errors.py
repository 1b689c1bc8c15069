"""What goes wrong with a package index, as errors. Import this only with `network`: see there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import requests
from urllib3.exceptions import NewConnectionError
from urllib3.exceptions import TimeoutError as Urllib3TimeoutError

from vpatch.errors import UnavailableError, UsageError, VpatchError
from vpatch.source.index import IndexAccessError
from vpatch.source.pip_settings import wrong_url
from vpatch.util.limited import TooLargeError
from vpatch.util.urls import redact

if TYPE_CHECKING:
    from vpatch.source.index import Release
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


class DownloadError(UnavailableError):
    """The download of an archive was cut off."""

    code = "source.download-cut-off"


class DigestMismatchError(VpatchError):
    """A downloaded archive does not have the digest that the index or a recipe gives."""

    code = "source.digest-mismatch"


class UnsafeAnswerError(VpatchError):
    """A server answers with too much, or leads to a less safe address."""

    code = "source.unsafe-answer"


class InsecureRedirectError(requests.RequestException):
    """A server leads its client to a less safe address."""


def cut_off(release: Release, received: int) -> DownloadError:
    of = f" of {release.size}" if release.size else ""
    return DownloadError(
        f"the archive was cut off: {received} bytes{of} were received",
        where=redact(release.url),
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
    hint = "check pip's index-url, extra-index-url and proxy settings, or use --offline"
    if isinstance(error, (TooLargeError, InsecureRedirectError)):
        return UnsafeAnswerError(str(error), where=redact(url), hint=hint)
    if isinstance(error, _WRONG_URL) and _LACKS_SOCKS not in str(error):
        return wrong_url(url, error)
    status = 0 if error.response is None else error.response.status_code
    refused = 400 <= status < 500 and status not in _LATER  # noqa: PLR2004 - of HTTP
    return IndexAccessError(
        _answer(error, settings),
        where=redact(url),
        hint=hint,
        code="source.index-refused" if refused else "source.index-unreachable",
    )


def _answer(error: requests.RequestException, settings: PipSettings) -> str:
    if error.response is not None:
        return f"the index answered {error.response.status_code} {error.response.reason}"
    # requests wraps what urllib3 met last in the tale of its retries.
    cause = error.args[0] if error.args else error
    cause = getattr(cause, "reason", None) or cause
    timed_out = isinstance(cause, Urllib3TimeoutError) and not isinstance(cause, NewConnectionError)
    if timed_out or isinstance(error, requests.Timeout):
        return f"the index did not answer within {settings.timeout:g} s (pip's timeout setting)"
    return f"the index cannot be reached: {redact(str(cause))}"
