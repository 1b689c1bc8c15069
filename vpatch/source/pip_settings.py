"""What pip is told about the package index, read as pip reads it but without running pip."""

from __future__ import annotations

import configparser
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from vpatch.errors import UsageError
from vpatch.util.home import in_home
from vpatch.util.urls import redact, split_credentials

if TYPE_CHECKING:
    from collections.abc import Mapping

_HINT = "correct pip's index-url, extra-index-url or proxy setting, such as PIP_INDEX_URL"
_TRUE = frozenset({"1", "on", "t", "true", "y", "yes"})


@dataclass(frozen=True)
class PipSettings:
    """`index_url` is None where nothing is set: the public index.

    The defaults are pip's own. URLs and the proxy may hold credentials: they stay out of the repr.
    """

    index_url: str | None = field(default=None, repr=False)
    extra_index_urls: tuple[str, ...] = field(default=(), repr=False)
    no_index: bool = False
    cert: str | None = None
    client_cert: str | None = None
    proxy: str | None = field(default=None, repr=False)
    timeout: float = 15.0
    retries: int = 5
    trusted_hosts: tuple[str, ...] = ()


def read_pip_settings(
    env: Mapping[str, str],
    *,
    etc: Path = Path("/etc"),
    prefix: Path = Path(sys.prefix),
) -> PipSettings:
    """Merge pip's configuration files and the PIP_* variables of `env`, the latter winning.

    As in pip, [download] wins over [global], whichever files have them, and an empty variable
    counts as not set.
    """
    sections: dict[str, dict[str, str]] = {"global": {}, "download": {}}
    origins: dict[str, str] = {}
    for path in _config_files(env, etc, prefix):
        parser = _parse(path)
        for section, values in sections.items():
            if parser.has_section(section):
                options = {_key(name): value for name, value in parser.items(section)}
                values.update(options)
                origins.update(dict.fromkeys(options, str(path)))
    merged = {**sections["global"], **sections["download"]}
    for name, value in env.items():
        if name.startswith("PIP_") and value:
            merged[_key(name.removeprefix("PIP_"))] = value
            origins[_key(name.removeprefix("PIP_"))] = name
    return PipSettings(
        index_url=merged.get("index-url") or None,
        extra_index_urls=tuple(merged.get("extra-index-url", "").split()),
        no_index=merged.get("no-index", "").strip().lower() in _TRUE,
        cert=merged.get("cert") or None,
        client_cert=merged.get("client-cert") or None,
        proxy=merged.get("proxy") or None,
        timeout=_number(merged, origins, "timeout", PipSettings.timeout),
        retries=int(_number(merged, origins, "retries", PipSettings.retries)),
        trusted_hosts=tuple(merged.get("trusted-host", "").split()),
    )


def split_index_url(url: str) -> tuple[str, tuple[str, str] | None]:
    """Split the URL of an index into the address, and the user and password in it, if any.

    Raises:
        UsageError: it is not a URL.
    """
    try:
        return split_credentials(url)
    except ValueError as error:
        raise wrong_url(url, error) from error


def wrong_url(url: str, error: Exception, hint: str = _HINT) -> UsageError:
    """Return what to raise for a URL in pip's settings, or one of a proxy, that cannot be used."""
    return UsageError(
        f"the address cannot be used: {redact(str(error))}",
        where=redact(url),
        hint=hint,
        code="source.wrong-url",
    )


def _config_files(env: Mapping[str, str], etc: Path, prefix: Path) -> list[Path]:
    """List pip's files, the weakest first: global, user, site, the one in PIP_CONFIG_FILE.

    pip leaves the user's files out when that variable names an existing file, and reads no file at
    all when it names the null device.
    """
    named = env.get("PIP_CONFIG_FILE")
    if named == "/dev/null":
        return []
    home = Path(env.get("HOME") or in_home(Path.home, "pip's settings"))
    system = env.get("XDG_CONFIG_DIRS") or str(etc / "xdg")
    files = [Path(folder) / "pip" / "pip.conf" for folder in reversed(system.split(":"))]
    files.append(etc / "pip.conf")
    if not (named and Path(named).exists()):
        user = Path(env.get("XDG_CONFIG_HOME") or home / ".config")
        files += [home / ".pip" / "pip.conf", user / "pip" / "pip.conf"]
    files.append(prefix / "pip.conf")
    if named:
        files.append(Path(named))
    return [path for path in files if path.is_file()]


def _parse(path: Path) -> configparser.RawConfigParser:
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(path.read_text(encoding="utf-8"), source=str(path))
    except (configparser.Error, OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"pip's configuration cannot be read: {error}",
            where=str(path),
            hint="correct the file, or name another one with PIP_CONFIG_FILE",
            code="source.pip-settings",
        ) from error
    return parser


def _key(name: str) -> str:
    return name.lower().replace("_", "-").removeprefix("--")


# Seconds, or tries.
_LARGEST_NUMBER = 1_000_000


def _number(
    merged: Mapping[str, str], origins: Mapping[str, str], key: str, default: float
) -> float:
    text = merged.get(key)
    if not text:
        return default
    with suppress(ValueError):
        number = float(text)
        # nan and 1e999 are floats, too.
        if 0 <= number <= _LARGEST_NUMBER:
            return number
    raise UsageError(
        f"pip's setting {key} is not a number from 0 to {_LARGEST_NUMBER}: {text[:60]!r}",
        where=origins[key],
        hint=f"set it to a number, for instance {default:g}",
        code="source.pip-settings",
    )
