"""Servers that were there before: what they say of themselves."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import requests

from vpatch.errors import UsageError, VpatchError
from vpatch.harness.client import AnswerError, Client
from vpatch.util.urls import redact

# Of OpenSSL, and so what vLLM's own sender reads.
_AUTHORITIES = "SSL_CERT_FILE"


class ServerError(VpatchError):
    """A server that does not answer, or not as one of vLLM's."""


@dataclass(frozen=True)
class RunningServer:
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


def look_at(url: str, patience: float, key: str | None) -> RunningServer:
    """Ask a server what it serves; each of its answers may take `patience` seconds.

    Raises:
        UsageError: it is not an address, or has a password, which the record would show.
        ServerError: it does not answer as vLLM's does, or does not count, or is not trusted.
    """
    _refuse(url)
    client = Client(url.rstrip("/").removesuffix("/v1"), patience, math.inf, key)
    try:
        roots, k, version = client.roots(), client.speculative_tokens(), client.version()
    except requests.exceptions.SSLError as error:
        raise ServerError(
            f"there is no connection by TLS: {error}",
            where=url,
            hint="see that it serves https under this name; if an authority of your own signed its "
            f"certificate, name the file of that in {_AUTHORITIES}",
        ) from error
    except (requests.RequestException, AnswerError) as error:
        raise _unknown(url, str(error)) from error
    if not roots:
        raise _unknown(url, "/v1/models names none")
    if k is None:
        raise _unknown(url, "/metrics has none of its counters, which tell k and acceptance")
    served, root = next(iter(roots.items()))
    return RunningServer(client, served, root, version, k)


def _refuse(url: str) -> None:
    try:
        parts = urlsplit(url)
        known = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:
        known = False
    if not known:
        raise UsageError(
            f"{redact(url)!r} is no address of a server", hint="give one as http://localhost:8000"
        )
    if parts.username or parts.password or parts.query or parts.fragment:
        raise UsageError(
            "an address with a password or a query would be written into the record",
            where=f"{parts.scheme}://{parts.hostname}",
            hint="leave it out; a key goes into OPENAI_API_KEY",
        )
    named = os.environ.get(_AUTHORITIES) if parts.scheme == "https" else None
    # OpenSSL says nothing of a file that is not there, and loads are sent from another folder.
    if named and not (Path(named).is_absolute() and Path(named).is_file()):
        raise UsageError(
            f"{_AUTHORITIES} is no absolute path of a file",
            where=named,
            hint="correct it, or leave it unset",
        )


def _unknown(url: str, why: str) -> ServerError:
    return ServerError(
        f"it does not answer as a server of vLLM's does: {why}",
        where=url,
        hint="start it with vllm serve, without --disable-log-stats; OPENAI_API_KEY has its key",
    )
