"""Regular expressions of others, matched with Python's `re` and a limit of time.

Checkpoints bring them along, where vLLM matches them in the same way, and so do patches and
upstream's tree.

An expression may never end, and there is no way to stop one from within. So each that might
runs in a process of its own, which the system ends when it has computed for too long.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import warnings
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

# Of computing, and not of waiting: other processes do not count.
_SECONDS = 10
_WAIT = 300
_TOO_LONG = f"it is not matched after {_SECONDS} s of computing"
# Behind a group, in which parts may be matched in many ways.
_REPEATED_GROUP = re.compile(r"\)\s*[*+{]")
_REPEATS = 2
_SHORT = 500
_SHORT_TO_SEARCH = 200
_CHILD = f"""
import json, re, resource, sys
resource.setrlimit(resource.RLIMIT_CPU, ({_SECONDS}, {_SECONDS + 1}))
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
pattern, names, how = json.load(sys.stdin)
match = getattr(re.compile(pattern), how)
json.dump([place for place, name in enumerate(names) if match(name)], sys.stdout)
"""


class PatternFaultError(Exception):
    """It is not a regular expression, or it takes too long."""


def check(pattern: str) -> None:
    """Raise PatternFaultError if `pattern` is not a regular expression."""
    if _is_quick(pattern):
        compiled(pattern)
    else:
        matching(pattern, ())


def found_in(pattern: str, texts: Iterable[str]) -> list[str]:
    """Return the texts in which a regular expression is found, anywhere in them.

    Raises:
        PatternFaultError: it is not one, or is not done in time.
    """
    return _matching(pattern, list(texts), "search")


def matching(pattern: str, names: Collection[str]) -> list[str]:
    """Return the names that a regular expression matches from their beginning.

    Raises:
        PatternFaultError: it is not one, or is not done in time.
    """
    return _matching(pattern, list(names), "match")


def _matching(pattern: str, texts: list[str], how: Literal["match", "search"]) -> list[str]:
    # A search begins anew at each letter.
    short = _SHORT if how == "match" else _SHORT_TO_SEARCH
    if _is_quick(pattern) and all(len(text) <= short for text in texts):
        match = getattr(compiled(pattern), how)
        return [text for text in texts if match(text)]
    try:
        ended = subprocess.run(
            [sys.executable, "-I", "-c", _CHILD],
            input=json.dumps([pattern, texts, how]),
            capture_output=True,
            text=True,
            timeout=_WAIT,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise PatternFaultError(_TOO_LONG) from error
    if ended.returncode < 0:
        raise PatternFaultError(_TOO_LONG)
    if ended.returncode > 0:
        message = ended.stderr.strip().rpartition("\n")[2]
        raise PatternFaultError(
            f"it is not a regular expression: {message.partition(': ')[2] or message}"
        )
    return [texts[place] for place in json.loads(ended.stdout)]


def compiled(pattern: str) -> re.Pattern[str]:
    """Compile a regular expression, and match nothing with it.

    Raises:
        PatternFaultError: it is not one.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what a later Python may take for something else
        try:
            return re.compile(pattern)
        except (re.error, OverflowError, RecursionError) as error:
            raise PatternFaultError(f"it is not a regular expression: {error}") from error


def _is_quick(pattern: str) -> bool:
    """Whether no name that is short can keep it busy: what nearly all lists have."""
    repeats = sum(pattern.count(sign) for sign in "*+{")
    return len(pattern) <= _SHORT and repeats <= _REPEATS and not _REPEATED_GROUP.search(pattern)
