"""Where a token for GitHub comes from: the environment, gh, or git's credential helper.

The variables are gh's (`gh help environment`): those for github.com go to it, to ghe.com and to the
API of GITHUB_API_URL alone, those for GitHub Enterprise to other hosts. A token goes only to a host
that the user has named, as a target is a project's, and may name any host. The user names one with
GH_HOST or GITHUB_API_URL, by a login of gh there, or with `vpatch trust --host`.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from vpatch.errors import UsageError
from vpatch.git import command
from vpatch.util.run_log import hide

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

_log = logging.getLogger(__name__)
_OWN = ("GH_TOKEN", "GITHUB_TOKEN")
_ENTERPRISE = ("GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN")
VARIABLES = frozenset({*_OWN, *_ENTERPRISE})
_LOCAL = {"localhost", "127.0.0.1", "::1"}
_HOST = re.compile(r"[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?(?::\d+)?")
_SECONDS = 20


@dataclass(frozen=True)
class Token:
    """A token and where it was found; its value is in no representation."""

    value: str = field(repr=False)
    source: str

    def __post_init__(self) -> None:
        hide(self.value)


def find_token(
    api: str, environment: Mapping[str, str] = os.environ, hosts: Collection[str] = ()
) -> Token | None:
    """Look for a token for an API's host; `hosts` are those that the user has named to vpatch.

    Raises:
        UsageError: it would be sent unencrypted.
    """
    parts = urlsplit(api)
    host = web_host(api)
    if is_named(api, environment, hosts):
        token = _from_environment(api, host, environment) or _from_gh(host) or _from_git(host)
    else:
        token = _from_gh(host)
    if token and parts.scheme != "https" and not is_local(api):
        raise UsageError(
            "the token would be sent unencrypted",
            where=api,
            hint="give the address with https",
            code="github.insecure-address",
        )
    return token


def is_named(
    api: str, environment: Mapping[str, str] = os.environ, hosts: Collection[str] = ()
) -> bool:
    """Say whether the user, and not only a project, has named an API's host."""
    host = web_host(api)
    if api.rstrip("/") == environment.get("GITHUB_API_URL", "").rstrip("/"):
        return True
    return host in {"github.com", environment.get("GH_HOST", "").lower() or None, *hosts}


def is_local(api: str) -> bool:
    """Say whether an API is on this machine, such as one for a rehearsal."""
    return urlsplit(api).hostname in _LOCAL


def host_named(text: str) -> str:
    """Return the host of what a user typed: a host, or an address there.

    Raises:
        UsageError: it is neither.
    """
    try:
        host = web_host(text if "://" in text else f"https://{text}")
    except ValueError:
        host = ""
    if not _HOST.fullmatch(host):
        raise UsageError(
            f"{text!r} is not a host",
            hint="write for instance github.example.com",
            code="github.wrong-host",
        )
    return host


def web_host(api: str) -> str:
    """Return the host that people know of an API's."""
    return urlsplit(api).netloc.lower().removeprefix("api.")


def _from_environment(api: str, host: str, environment: Mapping[str, str]) -> Token | None:
    # GitHub's runners set GITHUB_API_URL beside a GITHUB_TOKEN that is for it.
    own = host == "github.com" or host.endswith(".ghe.com")
    own = own or api == environment.get("GITHUB_API_URL", "").rstrip("/")
    for name in _OWN if own else _ENTERPRISE:
        if environment.get(name):
            return Token(environment[name], name)
    return None


def _from_gh(host: str) -> Token | None:
    if shutil.which("gh") is None:
        return None
    _log.info("asking gh for a token for %s", host)
    try:
        asked = subprocess.run(
            ["gh", "auth", "token", "--hostname", host],
            # It would send the variables' tokens to any host.
            env={k: v for k, v in os.environ.items() if k not in VARIABLES and k != "GH_HOST"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:  # its key store waits for somebody
        return None
    value = asked.stdout.strip()
    return Token(value, "gh") if asked.returncode == 0 and value else None


def _from_git(host: str) -> Token | None:
    value = command.credential(f"https://{host}")
    return Token(value, "git's credential helper") if value else None
