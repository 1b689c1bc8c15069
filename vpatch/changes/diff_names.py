"""The names of files in the headers of diffs: quoted, with times behind them, and of git's line."""

from __future__ import annotations

import re
from typing import NamedTuple

# git and GNU diff quote a name as C does if it has other characters than plain ones.
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
_ESCAPE = re.compile(rb"\\([0-7]{3}|.)")
_PLAIN = {
    b"a": b"\a", b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v",
}  # fmt: skip
_TIME = re.compile(r"\s+\d{4}-\d\d-\d\d[ T]\d\d:\d\d.*$")
# `diff -N` gives a file that is not there the time 0, in whatever time zone.
_EPOCH = re.compile(
    r"[\t ](?:1969-12-31|1970-01-01)[ T](?:1[2-9]|2[0-3]|0\d|1[0-4]):\d\d:00(?:\.0+)?(?:\s|$)"
)
# No path is that long.
LONGEST = 10_000
_NOWHERE = "/dev/null"


class FileName(NamedTuple):
    """A name in a diff; None if there is no file on that side.

    `has_epoch` says that its time is that of a file which is not there, and of some that are.
    """

    name: str | None
    is_utf8: bool = True
    has_epoch: bool = False


def name_of(text: str) -> FileName:
    """Read what is behind `---` or `+++`, without a time."""
    text = text[:LONGEST]
    if text.startswith('"') and (quoted := _QUOTED.match(text)):
        file_name, rest = _unquote(quoted[0]), text[quoted.end() :]
    else:
        name, tab, rest = text.partition("\t")
        file_name, rest = _readable_name(_TIME.sub("", name.rstrip())), tab + rest
        rest = rest or text
    if file_name.name == _NOWHERE:
        return FileName(None)
    return file_name._replace(has_epoch=_EPOCH.search(rest) is not None)


def git_names(text: str) -> tuple[FileName, FileName]:
    """Read the two names behind `diff --git`."""
    first = _QUOTED.match(text)
    if first is not None:
        return _unquote(first[0]), _read(text[first.end() + 1 :])
    if text.endswith('"') and (at := text.find(' "')) > 0:
        return _readable_name(text[:at]), _read(text[at + 1 :])
    # A name may have blanks in it: both are the same but for their prefixes.
    half = (len(text) - 1) // 2
    old, new = text[:half], text[half + 1 :]
    if text[half : half + 1] != " " or old.partition("/")[2] != new.partition("/")[2]:
        old, _, new = text.partition(" ")
    return _readable_name(old), _readable_name(new)


def plain_name(text: str) -> FileName:
    """Read a name that stands alone in its line, quoted or not."""
    return _read(text.rstrip())


def _read(text: str) -> FileName:
    return _unquote(text) if _QUOTED.fullmatch(text) else _readable_name(text)


def _unquote(text: str) -> FileName:
    raw = text[1:-1].encode(errors="surrogateescape")
    content = _ESCAPE.sub(_unescape, raw)
    return _readable_name(content.decode(errors="surrogateescape"))


def _unescape(match: re.Match[bytes]) -> bytes:
    code = match[1]
    if len(code) == 3:  # noqa: PLR2004 - octal digits
        return bytes([int(code, 8) & 0xFF])
    return _PLAIN.get(code, code)


def _readable_name(name: str) -> FileName:
    """The name, as people can read it if it is not UTF-8."""
    try:
        name.encode()
    except UnicodeEncodeError:
        raw = name.encode(errors="surrogateescape")
        return FileName(raw.decode(errors="backslashreplace"), is_utf8=False)
    return FileName(name)
