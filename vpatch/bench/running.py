"""Servers that were there before: what they say of themselves."""

from __future__ import annotations

import math
from dataclasses import dataclass
from urllib.parse import urlsplit

import requests

from vpatch.errors import UsageError, VpatchError
from vpatch.smoke.client import AnswerError, Client


class ServerError(VpatchError):
    """A server that does not answer, or not as one of vLLM's."""


@dataclass(frozen=True)
class Running:
    """A server, its model's name there, where it was loaded from, and its vLLM's version."""

    client: Client
    served: str
    root: str | None
    version: str | None
    k: int

    @property
    def described(self) -> dict[str, str | int | None]:
        return {
            "url": self.client.url,
            "model": self.served,
            "root": self.root,
            "vllm": self.version,
            "k": self.k,
        }


def look_at(url: str, patience: float, key: str | None) -> Running:
    """Ask a server what it serves; each of its answers may take `patience` seconds.

    Raises:
        UsageError: the address has a password, which would be written down.
        ServerError: it does not answer as vLLM's does, or does not count.
    """
    parts = urlsplit(url)
    if parts.username or parts.password:
        raise UsageError(
            "an address with a password would be written into the record",
            where=f"{parts.scheme}://{parts.hostname}",
            todo="leave it out; a key goes into OPENAI_API_KEY",
        )
    client = Client(url.rstrip("/").removesuffix("/v1"), patience, math.inf, key)
    try:
        roots, k, version = client.roots(), client.speculative_tokens(), client.version()
    except (requests.RequestException, AnswerError) as error:
        raise _unknown(url, str(error)) from error
    if not roots:
        raise _unknown(url, "/v1/models names none")
    if k is None:
        raise _unknown(url, "/metrics has none of its counters, which tell k and acceptance")
    served, root = next(iter(roots.items()))
    return Running(client, served, root, version, k)


def _unknown(url: str, why: str) -> ServerError:
    return ServerError(
        f"it does not answer as a server of vLLM's does: {why}",
        where=url,
        todo="start it with vllm serve, without --disable-log-stats; OPENAI_API_KEY has its key",
    )
