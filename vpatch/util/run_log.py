"""What modules need to log: text without secrets, and how long a step took.

Modules log with `logging.getLogger(__name__)`. Only `vpatch.util.log_output` decides where
records go, and it passes each one through `redacted`.
"""

from __future__ import annotations

import os
import re
import shlex
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import quote

from vpatch.util.child_environment import SECRET_NAME
from vpatch.util.urls import redact, split_credentials

if TYPE_CHECKING:
    import logging
    from collections.abc import Iterator, Mapping, Sequence

REPLACEMENT = "***"

# A shorter value occurs in too many other words.
_SHORTEST = 4
# Some commands name thousands of files.
_LONGEST = 2000
# Values of variables such as TOKENIZERS_PARALLELISM, which are settings.
_SETTINGS = {"auto", "default", "empty", "false", "never", "none", "null", "true"}
_NAME = r"(?:[\w-]*[_-])?(?:api-?key|credentials?|key|passw(?:or)?d|secret|token)"
_SECRET_OPTION = re.compile(rf"--?{_NAME}", re.IGNORECASE)
_SECRET_NAME = re.compile(rf"(?:--?)?{_NAME}", re.IGNORECASE)
_PATTERNS = (
    # A header, as in git's http.extraHeader.
    re.compile(
        r"(?P<kept>\b(?:proxy-)?authorization\W{1,4})(?:(?:basic|bearer|token)\s+)?[^\s'\",]+",
        re.IGNORECASE,
    ),
    # NAME=VALUE and --option VALUE.
    re.compile(
        rf"(?P<kept>(?<![\w-]){_NAME}=|(?<![\w-])--?{_NAME}(?:=|['\",]*\s+['\"]?))"
        r"(?:'[^']*'|\"[^\"]*\"|[^\s'\",]+)",
        re.IGNORECASE,
    ),
    # The query of a request, whose line in a log of urllib3 begins with the path.
    re.compile(r"(?P<kept>[^\s?]\?)[\w.~%-]+=[^\s'\"<>]*"),
    # What the tokens of well-known hosts look like.
    re.compile(r"(?P<kept>)\b(?:gh[oprsu]_|github_pat_|glpat-|hf_|pypi-|sk-)[A-Za-z0-9_-]{16,}"),
)
_hidden: set[str] = set()


def hide(value: str | None) -> None:
    """Keep a token or password out of the log, wherever it came from."""
    if value and len(value) >= _SHORTEST and value.lower() not in _SETTINGS:
        # As it is, as a URL has it, and as a traceback shows it.
        _hidden.update({value, quote(value, safe=""), repr(value)[1:-1]})


def hide_environment(environment: Mapping[str, str] = os.environ) -> None:
    """Hide what variables with such names hold, and the passwords of URLs in any variable."""
    for name, value in environment.items():
        if SECRET_NAME.search(name):
            for part in {value, *value.splitlines()}:
                hide(part)
        for word in value.split():
            if "://" in word and "@" in word:
                _hide_credentials(word)


def _hide_credentials(url: str) -> None:
    try:
        _, credentials = split_credentials(url)
    except ValueError:
        return  # `redact` removes them where the whole URL is shown
    if credentials:
        user, password = credentials
        hide(password or user)


def redacted(text: str) -> str:
    """Return the text without tokens, passwords, and queries of URLs."""
    for value in sorted(_hidden, key=len, reverse=True):
        text = text.replace(value, REPLACEMENT)
    text = redact(text)
    for pattern in _PATTERNS:
        text = pattern.sub(rf"\g<kept>{REPLACEMENT}", text)
    return text


def command_line(words: Sequence[object]) -> str:
    """Return a command for the log; the values of secret options are left out."""
    shown: list[str] = []
    is_secret = False
    for word in map(str, words):
        option, equals, _ = word.partition("=")
        if is_secret:
            shown.append(REPLACEMENT)
        elif equals and _SECRET_NAME.fullmatch(option):
            shown.append(f"{option}={REPLACEMENT}")
        else:
            shown.append(word)
        is_secret = not is_secret and _SECRET_OPTION.fullmatch(word) is not None
    text = redacted(shlex.join(shown))
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."


@contextmanager
def timed(logger: logging.Logger, level: int, what: str) -> Iterator[None]:
    """Log what is done in the block, and how many seconds it took."""
    begun = time.monotonic()
    logger.debug("%s ...", what)
    try:
        yield
    except BaseException as error:
        seconds = time.monotonic() - begun
        logger.log(level, "%s: %s after %.2f s", what, type(error).__name__, seconds)
        raise
    logger.log(level, "%s: %.2f s", what, time.monotonic() - begun)
