"""Addresses of repositories: which git may be handed, and what is done with those on this machine.

A project, a target and an answer of GitHub name addresses, and none of them may name a program.
"""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from vpatch.errors import UsageError
from vpatch.git.found import NoRepositoryError, opened_source
from vpatch.util.urls import redact

if TYPE_CHECKING:
    from collections.abc import Iterator

# For any other scheme, and for NAME::ADDRESS, git looks for a program of that name and runs it.
_SCHEMES = {"file", "git", "git+ssh", "http", "https", "ssh", "ssh+git"}
_SCHEME = re.compile(r"(?P<scheme>[A-Za-z0-9][A-Za-z0-9+.-]*)://")
_HELPER = re.compile(r"[A-Za-z0-9+.-]*::")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
# ssh would read such a host as an option.
_HOST_OPTION = re.compile(r"(?:[A-Za-z0-9+.-]+://)?(?:[^/@]*@)?\[?-")


def refuse_options(*values: str) -> None:
    """Refuse addresses and refs that git would read as options.

    Raises:
        UsageError: one is such.
    """
    for value in values:
        if value.startswith("-"):
            raise UsageError(
                f"git would read {redact(value)!r} as an option",
                hint="write a local path as ./PATH, and a ref by its full name (refs/tags/...)",
                code="git.option-like-name",
            )


def refuse_address(url: str) -> str:
    """Return an address as it is, if git reaches it without a program that the address names.

    Raises:
        UsageError: it names one, or is an option in disguise.
    """
    refuse_options(url)
    scheme = _SCHEME.match(url)
    reason = None
    if _HELPER.match(url):
        reason = "git would run a program that it names"
    elif scheme is not None and scheme["scheme"].lower() not in _SCHEMES:
        reason = f"git would run a program for {scheme['scheme']}://"
    elif _HOST_OPTION.match(url):
        reason = "ssh would read its host as an option"
    elif _CONTROL.search(url):
        reason = "it has control characters"
    if reason is not None:
        raise UsageError(
            f"the address is refused: {reason}",
            where=ascii(redact(url))[1:-1],
            hint="use https or ssh; url.BASE.insteadOf in your own settings for git can name "
            "another way to it",
            code="git.refused-address",
        )
    return url


def local_path(url: str) -> Path | None:
    """Return the path of a repository on this machine; None of one elsewhere.

    It tells them apart as git does: HOST:PATH is elsewhere, unless a slash comes first.
    """
    scheme = _SCHEME.match(url)
    if scheme is not None:
        if scheme["scheme"].lower() != "file":
            return None
        return Path("/" + unquote(url[scheme.end() :]).lstrip("/"))
    before, colon, _ = url.partition(":")
    return Path(url) if not colon or "/" in before else None


@contextmanager
def reachable(url: str, folder: Path = Path()) -> Iterator[str]:
    """Yield an address that git may be handed; a path is relative to `folder`.

    git runs in a repository on this machine by the settings and hooks of that one. So such a
    repository is behind a git folder of ours.

    Raises:
        UsageError: the address is refused.
        NoRepositoryError: there is no repository.
    """
    path = local_path(refuse_address(url))
    if path is None:
        yield url
        return
    place = folder / path
    if place.is_file():  # a bundle
        yield str(place.absolute())
        return
    # git completes a name so, too.
    dotted = place.with_name(f"{place.name}.git") if place.name else place
    if not place.is_dir() and dotted.is_dir():
        place = dotted
    with opened_source(place) as repo:
        if repo is None or not place.is_dir():
            raise NoRepositoryError(
                "is not a git repository",
                where=os.fspath(place),
                hint="correct the path, or run git init there",
            )
        yield str(repo.git_dir)
