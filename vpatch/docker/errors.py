"""What goes wrong with Docker, as one clear error each."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import requests
import urllib3
from docker.credentials.errors import StoreError
from docker.errors import APIError, DockerException, StreamParseError

from vpatch.errors import VpatchError
from vpatch.util.urls import redact

if TYPE_CHECKING:
    from collections.abc import Iterator

# Streams are read past requests, and credentials come from helpers.
ERRORS = (
    DockerException,
    requests.RequestException,
    urllib3.exceptions.HTTPError,
    StreamParseError,
    StoreError,
)
NO_SPACE = "no space left on device"
_FREE = "free space where the engine keeps its data: docker system df"


class DockerError(VpatchError):
    """Docker cannot do what it is asked for."""


class NoSuchImageError(DockerError):
    """There is no image of that name, here or in its registry."""


@contextmanager
def asking(what: str) -> Iterator[None]:
    """Turn what the engine answers, or does not answer any more, into one clear error."""
    try:
        yield
    except ERRORS as error:
        gist = gist_of(error) or type(error).__name__
        hint = "see the message of the engine, and whether it still runs"
        raise DockerError(gist, where=what, hint=_FREE if NO_SPACE in gist else hint) from error


def no_image(name: str, why: str) -> DockerError:
    if NO_SPACE in why:
        return DockerError(f"it cannot be pulled: {why.strip()}", where=name, hint=_FREE)
    return NoSuchImageError(
        f"there is no such image here, and it cannot be pulled: {why.strip()}",
        where=name,
        hint="check the name and the platform, or log in to its registry with docker login",
    )


def gist_of(error: Exception) -> str:
    """What an error says, without the layers of those who passed it on, and without passwords."""
    text = error.explanation if isinstance(error, APIError) else None
    return redact(str(text or error).strip())
