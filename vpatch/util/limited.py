"""What servers answer, read up to a limit of size: an answer that never ends fills memory or disk.

Import this only where requests is imported anyway.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import requests
from requests.adapters import HTTPAdapter

from vpatch.util.untrusted import MEGABYTE

if TYPE_CHECKING:
    from collections.abc import Iterator

# The largest page of the public index has 20 MB, and vLLM's has one.
LARGEST_ANSWER = 64 * MEGABYTE


class TooLargeError(requests.RequestException):
    """An answer is larger than its limit."""

    def __init__(self, limit: int, response: requests.Response) -> None:
        super().__init__(f"the answer is larger than {limit // MEGABYTE} MB", response=response)


class LimitedAdapter(HTTPAdapter):
    """Sends requests, whose answers have `limit` bytes at most; `streamed` is for streamed ones."""

    def __init__(
        self, *, limit: int | None = None, streamed: int | None = None, **options: Any
    ) -> None:
        self._limit = limit or LARGEST_ANSWER
        self._streamed = streamed or self._limit
        super().__init__(**options)

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:  # type: ignore[override] # requests calls it by keyword
        response = super().send(request, **options)
        _limit(response, self._streamed if options.get("stream") else self._limit)
        return response


def _limit(response: requests.Response, limit: int) -> None:
    # As requests itself reads it, so that what is packed counts as it is unpacked.
    unlimited = response.raw.stream

    def stream(*args: Any, **options: Any) -> Iterator[bytes]:
        received = 0
        for piece in unlimited(*args, **options):
            received += len(piece)
            if received > limit:
                response.close()
                raise TooLargeError(limit, response)
            yield piece

    response.raw.stream = stream  # type: ignore[method-assign] # of this answer alone
