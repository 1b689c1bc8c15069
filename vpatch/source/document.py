"""A file that the user names by a URL: fetched as the archives of an index are, and not kept.

Import this only when something is to be fetched: see `network`.
"""

from __future__ import annotations

import logging
from typing import IO, TYPE_CHECKING
from urllib.parse import urlsplit

import requests
from requests.auth import HTTPBasicAuth

from vpatch.errors import UsageError
from vpatch.source.network import CHUNK, index_urls, open_session, promised_size
from vpatch.source.network_errors import cut_off, no_file, unusable_url
from vpatch.util.limited import TooLargeError
from vpatch.util.run_log import hide, timed
from vpatch.util.urls import redact, split_credentials

if TYPE_CHECKING:
    from vpatch.progress import Progress
    from vpatch.source.pip_settings import PipSettings

_log = logging.getLogger(__name__)


def fetch_document(
    url: str, file: IO[bytes], *, limit: int, settings: PipSettings, progress: Progress
) -> None:
    """Write what a URL has to `file`; that may be `limit` bytes.

    Raises:
        UnavailableError: the server cannot be reached or refuses, or the download was cut off.
        UsageError: the URL cannot be used, or the answer would come in the clear.
        UnsafeAnswerError: the answer is too large, or leads to a less safe address.
    """
    try:
        address, credentials = split_credentials(url)
        _refuse_clear(address, settings)
    except ValueError as error:
        raise unusable_url(url, error) from error
    hide((credentials[1] or credentials[0]) if credentials else None)
    shown = redact(address)
    task = progress.start(f"Downloading {shown}")
    received, promised = 0, None
    auth = HTTPBasicAuth(*credentials) if credentials else None
    # Only its own length can be checked, and not the length of what it unpacks to.
    plain = {"Accept-Encoding": "identity"}
    try:
        with timed(_log, logging.INFO, f"downloading {shown}"), open_session(settings) as session:
            try:
                with session.get(
                    address, stream=True, timeout=settings.timeout, headers=plain, auth=auth
                ) as response:
                    response.raise_for_status()
                    promised = promised_size(response)
                    if promised is not None:
                        task.resize(promised)
                    for chunk in response.iter_content(CHUNK):
                        received += len(chunk)
                        if received > limit:
                            raise TooLargeError(limit, response)
                        file.write(chunk)
                        task.advance(len(chunk))
            except requests.exceptions.ChunkedEncodingError as error:
                raise cut_off("file", address, received, promised) from error
    except requests.RequestException as error:
        raise no_file(address, error, settings) from error
    finally:
        task.done()


def _refuse_clear(address: str, settings: PipSettings) -> None:
    """Somebody on the way could change what comes without TLS, for instance withdraw an advisory.

    A host that pip's settings trust, or that an index by http is on, is the user's own choice.
    """
    parts = urlsplit(address)
    indexes = (urlsplit(split_credentials(one)[0]) for one in index_urls(settings))
    known = {one.netloc for one in indexes if one.scheme == "http"} | {*settings.trusted_hosts}
    if parts.scheme == "https" or known & {parts.hostname, parts.netloc}:
        return
    raise UsageError(
        "what comes without TLS can be changed on its way",
        where=redact(address),
        hint="use https, or name the host in pip's trusted-host setting",
        code="source.insecure-url",
    )
