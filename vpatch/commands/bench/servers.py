"""Servers that were there before: what they say of themselves."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import requests

from vpatch.errors import UnavailableError, UsageError, VpatchError
from vpatch.harness.client import AnswerError, Client
from vpatch.util.urls import redact

# Of OpenSSL, and so what vLLM's own sender reads.
_AUTHORITIES = "SSL_CERT_FILE"
_START = "start it with vllm serve, without --disable-log-stats; OPENAI_API_KEY must have its key"


class ServerError(VpatchError):
    """A server answers, but not as vLLM's server does."""

    code = "bench.not-a-vllm-server"


@dataclass(frozen=True)
class RunningServer:
    """A server, its model's name there, where it was loaded from, and its vLLM's version."""

    client: Client
    served: str
    root: str | None
    version: str | None
    k: int


def look_at(url: str, patience: float, key: str | None) -> RunningServer:
    """Ask a server what it serves; each of its answers may take `patience` seconds.

    Raises:
        UsageError: it is not an address, or has a password, which the record would show.
        ServerError: it does not answer as vLLM's server does, or has no counters.
        UnavailableError: it does not answer at all, or TLS fails.
    """
    _refuse(url)
    client = Client(url.rstrip("/").removesuffix("/v1"), patience, math.inf, key)
    try:
        roots, k, version = client.roots(), client.speculative_tokens(), client.version()
    except requests.exceptions.SSLError as error:
        raise UnavailableError(
            f"the TLS connection fails: {error}",
            where=url,
            hint="check that it serves https under this name; if your own authority signed its "
            f"certificate, name the authority's file in {_AUTHORITIES}",
            code="bench.server-unreachable",
        ) from error
    except requests.RequestException as error:
        raise UnavailableError(
            f"the server does not answer: {error}",
            where=url,
            hint=_START,
            code="bench.server-unreachable",
        ) from error
    except AnswerError as error:
        raise _unknown(url, str(error)) from error
    if not roots:
        raise _unknown(url, "/v1/models names no model")
    if k is None:
        raise _unknown(url, "/metrics lacks the counters that tell k and acceptance")
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
            f"{redact(url)!r} is not the address of a server",
            hint="give one as http://localhost:8000",
            code="bench.bad-url",
        )
    if parts.username or parts.password or parts.query or parts.fragment:
        raise UsageError(
            "an address with a password or a query would be written into the record",
            where=f"{parts.scheme}://{parts.hostname}",
            hint="leave it out, and put the key into OPENAI_API_KEY",
            code="bench.bad-url",
        )
    named = os.environ.get(_AUTHORITIES) if parts.scheme == "https" else None
    # OpenSSL says nothing of a file that is not there, and loads are sent from another folder.
    if named and not (Path(named).is_absolute() and Path(named).is_file()):
        raise UsageError(
            f"{_AUTHORITIES} is not the absolute path of a file",
            where=named,
            hint="correct it, or leave it unset",
            code="bench.bad-certificates",
        )


def _unknown(url: str, why: str) -> ServerError:
    return ServerError(
        f"it does not answer as vLLM's server does: {why}",
        where=url,
        hint=_START,
    )
