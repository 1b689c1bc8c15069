"""What servers answer, read up to limits of size and of time: some answers never end.

Import this only where requests is imported anyway.
"""

from __future__ import annotations

import http.client
import io
import time
from typing import TYPE_CHECKING, Any

import requests
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import HTTPError, LocationValueError
from urllib3.util import Retry

from vpatch.util.untrusted import MEGABYTE

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator

    from urllib3.response import BaseHTTPResponse

# The largest page of the public index has 20 MB, and vLLM's has one.
LARGEST_ANSWER = 64 * MEGABYTE
# For one answer: 64 MB in five minutes, and 2 GB in an hour, are slow lines.
LONGEST_ANSWER = 300.0
LONGEST_DOWNLOAD = 3600.0
# requests reads what comes with a redirection as well. No server sends more than a page.
_LARGEST_REDIRECTION = MEGABYTE
# A server may ask for days.
_LONGEST_WAIT = 30.0


class TooLargeError(requests.RequestException):
    """An answer is larger than its limit."""

    def __init__(self, limit: int, response: requests.Response) -> None:
        super().__init__(f"the answer is larger than {limit // MEGABYTE} MB", response=response)


class TooSlowError(requests.Timeout):
    """An answer takes longer than its limit, though something of it comes again and again."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the answer takes longer than {seconds:g} s")


class PatientRetry(Retry):
    """Waits as long as a server asks for, up to a limit."""

    def get_retry_after(self, response: BaseHTTPResponse) -> float | None:
        try:
            asked = super().get_retry_after(response)
        except (ValueError, OverflowError, HTTPError):
            return None
        return None if asked is None else min(asked, _LONGEST_WAIT)


class LimitedAdapter(HTTPAdapter):
    """Sends requests, whose answers have `limit` bytes at most; `streamed` is for streamed ones.

    Likewise `seconds` and `streamed_seconds` are how long one answer may take, with its head.
    """

    def __init__(
        self,
        *,
        limit: int | None = None,
        streamed: int | None = None,
        seconds: float = LONGEST_ANSWER,
        streamed_seconds: float | None = None,
        **options: Any,
    ) -> None:
        self._limit = limit or LARGEST_ANSWER
        self._streamed = streamed or self._limit
        self._seconds = seconds
        self._streamed_seconds = streamed_seconds or seconds
        self._clock = _Clock()
        super().__init__(**options)

    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        super().init_poolmanager(*args, **options)
        self.poolmanager.pool_classes_by_scheme = _timed_pools(self._clock)

    def proxy_manager_for(self, proxy: Any, **options: Any) -> Any:
        manager = super().proxy_manager_for(proxy, **options)
        if not str(proxy).lower().startswith("socks"):
            manager.pool_classes_by_scheme = _timed_pools(self._clock)
        return manager

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:  # type: ignore[override] # requests calls it by keyword
        is_streamed = options.get("stream")
        self._clock.start(self._streamed_seconds if is_streamed else self._seconds)
        try:
            response = super().send(request, **options)
        except _LateError as error:
            raise TooSlowError(self._clock.seconds) from error
        except LocationValueError as error:
            raise requests.exceptions.InvalidURL(str(error), request=request) from error
        limit = self._streamed if is_streamed else self._limit
        _limit(response, _LARGEST_REDIRECTION if response.is_redirect else limit, self._clock)
        return response


def _limit(response: requests.Response, limit: int, clock: _Clock) -> None:
    # As requests itself reads it, so that what is packed counts as it is unpacked.
    unlimited = response.raw.stream

    def stream(*args: Any, **options: Any) -> Iterator[bytes]:
        received = 0
        try:
            for piece in unlimited(*args, **options):
                received += len(piece)
                if received > limit:
                    response.close()
                    raise TooLargeError(limit, response)
                clock.check()
                yield piece
        except _LateError as error:
            response.close()
            raise TooSlowError(clock.seconds) from error

    response.raw.stream = stream  # type: ignore[method-assign] # of this answer alone


class _LateError(Exception):
    """No OSError: urllib3 takes those for broken connections, and tries again."""


class _Clock:
    """Until when the answer that is read now must be there."""

    seconds = 0.0
    _end = 0.0

    def start(self, seconds: float) -> None:
        self.seconds, self._end = seconds, time.monotonic() + seconds

    def check(self) -> float:
        """Return how many seconds are left. Raises _LateError if there are none."""
        remaining = self._end - time.monotonic()
        if remaining <= 0:
            raise _LateError
        return remaining


class _TimedSocket(io.RawIOBase):
    """Reads from a socket. Its own timeout is for the next byte, the clock is for all."""

    def __init__(self, sock: socket.socket, clock: _Clock) -> None:
        self._socket = sock
        self._file = sock.makefile("rb", buffering=0)
        self._clock = clock

    def makefile(self, *_: Any) -> io.BufferedReader:
        """Return itself with a buffer: http.client asks a socket for a file."""
        return io.BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        remaining = self._clock.check()
        patience = self._socket.gettimeout()
        late = patience is None or remaining < patience
        self._socket.settimeout(remaining if late else patience)
        try:
            return self._file.readinto(buffer)
        except TimeoutError as error:
            if late:
                raise _LateError from error
            raise
        finally:
            self._socket.settimeout(patience)

    def close(self) -> None:
        self._file.close()
        super().close()


def _timed_pools(clock: _Clock) -> dict[str, type[HTTPConnectionPool]]:
    class Response(http.client.HTTPResponse):
        def __init__(self, sock: Any, *args: Any, **options: Any) -> None:
            super().__init__(_TimedSocket(sock, clock), *args, **options)  # type: ignore[arg-type]

    class Plain(HTTPConnection):
        response_class = Response

    class Secure(HTTPSConnection):
        response_class = Response

    class PlainPool(HTTPConnectionPool):
        ConnectionCls = Plain

    class SecurePool(HTTPSConnectionPool):
        ConnectionCls = Secure

    return {"http": PlainPool, "https": SecurePool}
