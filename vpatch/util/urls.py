"""URLs that may carry credentials, which are never shown or stored."""

from __future__ import annotations

import re
from urllib.parse import unquote, urlsplit, urlunsplit

_USERINFO = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*://)(?P<user>[^/\s:@]*)(:[^/\s]*)?@")

_QUERY = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://[^\s?]*)\?[^\s@'\"]*")


def redact(text: str) -> str:
    """Remove the credentials of every URL in `text`; ssh's user name is not a secret.

    Queries go too: some hosts take tokens there.
    """

    def keep(match: re.Match[str]) -> str:
        is_ssh = "ssh" in match["scheme"].lower()
        return match["scheme"] + (f"{match['user']}@" if is_ssh and match["user"] else "")

    return _QUERY.sub(r"\1", _USERINFO.sub(keep, text))


def has_secret(url: str) -> bool:
    """Whether a URL holds more than ssh's user name: a password, or a token for a user."""
    _, credentials = split_credentials(url)
    if credentials is None:
        return False
    return bool(credentials[1]) or "ssh" not in urlsplit(url).scheme


def split_credentials(url: str) -> tuple[str, tuple[str, str] | None]:
    """Split `url` into the address and the user and password in it, if any."""
    parts = urlsplit(url)
    userinfo, at, host = parts.netloc.rpartition("@")
    if not at:
        return url, None
    user, _, password = userinfo.partition(":")
    return urlunsplit(parts._replace(netloc=host)), (unquote(user), unquote(password))
