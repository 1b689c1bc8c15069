"""What goes wrong with Docker, as one clear error each."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import requests
import urllib3
from docker.credentials.errors import StoreError
from docker.errors import APIError, DockerException, StreamParseError

from vpatch.errors import UnavailableError, VpatchError
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

# Of the 4xx, the answers that may pass: what is gone, slow, in use by another, or asked too often.
_LATER = (404, 408, 409, 429)

# What an engine says of a registry that it cannot reach, or that has had enough for now.
_UNREACHABLE = (
    "dial tcp",
    "i/o timeout",
    "handshake timeout",
    "Client.Timeout",
    "connection re",  # refused, reset
    "toomanyrequests",
)


class DockerError(UnavailableError):
    """The Docker Engine, or a registry that it asks, does not do what vpatch asks for."""

    code = "docker.failed"


class RefusedError(VpatchError):
    """The Docker Engine refuses a request, such as one for a name that no image can have."""

    code = "docker.refused"


class NoSuchImageError(VpatchError):
    """There is no image of that name, neither here nor in its registry."""

    code = "docker.no-such-image"


class BuildFailedError(VpatchError):
    """A step of a build failed."""

    code = "docker.build-failed"


@contextmanager
def asking(what: str) -> Iterator[None]:
    """Turn what the engine answers, or does not answer any more, into one clear error.

    Raises:
        RefusedError: the engine refuses the request, and would refuse it again.
        DockerError: the engine failed, or its disk is full.
    """
    try:
        yield
    except ERRORS as error:
        gist = gist_of(error) or type(error).__name__
        hint = "see the message of the engine, and whether it still runs"
        if NO_SPACE in gist:
            raise DockerError(gist, where=what, hint=_FREE, code="docker.disk-full") from error
        if _is_refusal(error):
            hint = "see the message of the engine, and correct the name or the option"
            raise RefusedError(gist, where=what, hint=hint) from error
        raise DockerError(gist, where=what, hint=hint) from error


def _is_refusal(error: Exception) -> bool:
    if not isinstance(error, APIError):
        return False
    return error.is_client_error() and error.status_code not in _LATER


def no_image(name: str, why: str) -> VpatchError:
    """Return what to raise for an image that cannot be pulled; `why` is the engine's message."""
    why = why.strip()
    if NO_SPACE in why:
        return DockerError(
            f"it cannot be pulled: {why}", where=name, hint=_FREE, code="docker.disk-full"
        )
    what = f"there is no such image here, and it cannot be pulled: {why}"
    if any(sign in why for sign in _UNREACHABLE):
        return DockerError(
            what,
            where=name,
            hint="check the name of the registry and the network, then try again",
            code="docker.registry-unreachable",
        )
    return NoSuchImageError(
        what,
        where=name,
        hint="check the name and the platform, or log in to its registry with docker login",
    )


def gist_of(error: Exception) -> str:
    """What an error says, without the layers of those who passed it on, and without passwords."""
    text = error.explanation if isinstance(error, APIError) else None
    return redact(str(text or error).strip())
