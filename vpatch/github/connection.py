"""The connections of PyGithub, with a limit for the size of what GitHub answers."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from github.Requester import (
    HTTPRequestsConnectionClass,
    HTTPSRequestsConnectionClass,
    Requester,
    RequestsResponse,
)

from vpatch.github.errors import UnreadableAnswer
from vpatch.util.limited import LimitedAdapter


class _Https(HTTPSRequestsConnectionClass):
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.session.mount("https://", _adapter(self.retry, self.pool_size))

    def getresponse(self) -> RequestsResponse:
        return _refused_later(super().getresponse())


class _Http(HTTPRequestsConnectionClass):
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.session.mount("http://", _adapter(self.retry, self.pool_size))

    def getresponse(self) -> RequestsResponse:
        return _refused_later(super().getresponse())


def _refused_later(response: RequestsResponse) -> RequestsResponse:
    """Refuse "later" as an answer: PyGithub would ask again for hours, and GitHub never says it."""
    if response.status == HTTPStatus.ACCEPTED:
        raise UnreadableAnswer
    return response


def _adapter(retry: Any, size: int) -> LimitedAdapter:
    return LimitedAdapter(max_retries=retry, pool_connections=size, pool_maxsize=size)


def limit_answers() -> None:
    """Let every session of PyGithub that is opened from now on refuse answers without end."""
    Requester.injectConnectionClasses(_Http, _Https)
    # It takes the classes for those of tests, and would open a connection for each request.
    Requester._Requester__persist = True  # type: ignore[attr-defined] # noqa: SLF001
