"""What vLLM writes into a log: lines behind prefixes, and which version it is."""

from __future__ import annotations

import codecs
import errno
import re
from typing import TYPE_CHECKING, BinaryIO

from vpatch.util.versions import read_version
from vpatch.util.visible import without_colours

if TYPE_CHECKING:
    from collections.abc import Iterator

# A line is far shorter, but hours of a progress bar are one line.
PIECE = 1 << 16
GIGABYTE = 10**9
# A day of debugging is a few GB, and to read so much takes half an hour.
LARGEST = 50 * GIGABYTE
# Ray's has an address behind the pid. The lengths keep a hostile line from costing its square.
_PROCESS = r"\([^()\n]{0,80}?\bpid=\d+[^()\n]{0,80}\)"
_RECORD = r"(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d \[[^\]\n]*:\d+\]"
_PREFIX = re.compile(rf"\s*((?:{_PROCESS}\s*)*)(?:{_RECORD})?")
# The engine's start and its end, headless workers, the servers, their logo, and collect_env.py. Not
# every version that is spoken of is vLLM's, or the one that speaks.
_VERSION = re.compile(
    r"(?:LLM engine \(v|Launching vLLM \(v|vLLM (?:API server|server|batch processing API) version "
    r"|█ +version +|vLLM Version *: )"
    r"v?(\d[\w.+!-]*\w|dev\b)"
)


def read_pieces(stream: BinaryIO) -> Iterator[tuple[int, str]]:
    """Yield each line with its number; an endless one in pieces, all of the same number.

    Raises:
        OSError: it cannot be read, or is larger than a log can be.
    """
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    number = 1
    remaining = LARGEST
    while piece := stream.readline(PIECE):
        remaining -= len(piece)
        if remaining < 0:
            raise OSError(errno.EFBIG, f"it is larger than {LARGEST // GIGABYTE} GB")
        yield number, decoder.decode(piece)
        number += piece.endswith(b"\n")


def split_prefix(line: str) -> tuple[str, str]:
    """Return which process wrote a line, "" where it does not say so, and what it wrote."""
    match = _PREFIX.match(line)
    return (match[1].strip(), line[match.end() :]) if match else ("", line)


def printed_version(text: str) -> str | None:
    """Return vLLM's version where this line tells it, as it is printed: 0.23.0+cpu, dev."""
    # Most lines have neither, and looking for all that may be before a version takes far longer.
    if "(v" not in text and "ersion" not in text:
        return None
    match = _VERSION.search(without_colours(text))
    return match[1] if match else None


def release_of(version: str) -> str | None:
    """Return the release that a printed version is a build of, or None if it is of none."""
    parsed = read_version(version)
    return None if parsed is None or parsed.is_devrelease else parsed.public
