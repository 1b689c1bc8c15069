"""What vLLM writes into a log: lines behind prefixes, and which version it is."""

from __future__ import annotations

import codecs
import errno
import html
import io
import json
import re
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from vpatch.util.versions import read_version
from vpatch.util.visible import without_colours

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# A line is far shorter, but hours of a progress bar are one line.
PIECE = 1 << 16
_BLOCK = 1 << 19
GIGABYTE = 10**9
# A day of debugging is a few GB, and to read so much takes a while.
LARGEST = 50 * GIGABYTE
# Ray's has an address behind the pid. The lengths keep a hostile line from costing its square.
_PROCESS = r"\([^()\n]{0,80}?\bpid=\d+[^()\n]{0,80}\)"
# Older releases have no bracket before the file, and uvicorn writes neither time nor file.
_RECORD = (
    r"(DEBUG|INFO|WARNING|ERROR|CRITICAL)"
    r"(?: \d\d-\d\d \d\d:\d\d:\d\d \[?[^\]\n ]{0,200}:\d{1,9}\]|: {2,8})"
)
_TIME = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[\d.,]{0,12}(?:Z|[+-]\d\d:?\d\d)?"
# A container's runtime (CRI), and who shows the logs of several containers: kubectl, Compose.
_CRI = re.compile(
    rf"{_TIME} (?P<stream>stdout|stderr) (?P<flag>[PF])(?::[^ \n]{{1,40}})? ".encode()
)
_CARRIER = rf"(?:\[pod/[^\]\n]{{1,200}}\] )?(?:[\w.-]{{1,80}} {{1,40}}\| ?)?(?:{_TIME}(?: |$))?"
# torch writes the rank before each line of a traceback, where there is a process group.
_PREFIX = re.compile(
    rf"[ \t]{{0,40}}{_CARRIER}[ \t]{{0,40}}((?:{_PROCESS}\s{{0,8}}){{0,4}})"
    rf"(?:\[rank\d{{1,6}}\]: ?)?(?:{_RECORD})?".encode()
)
_JSON_LOG = b'{"log":"'
# What a page escapes, and what nothing else in a log looks like.
_ENTITY = re.compile(rb"&(?:#\d{1,6}|#[xX][\da-fA-F]{1,6}|amp|lt|gt|quot|apos|nbsp);")
# The engine's start and its end, headless workers, the servers, their logo, and collect_env.py. Not
# every version that is spoken of is vLLM's, or the one that speaks.
_VERSION = re.compile(
    r"(?:LLM engine \(v|Launching vLLM \(v|vLLM (?:API server|server|batch processing API) version "
    r"|█ +version +|vLLM Version *: )"
    r"v?(\d[\w.+!-]*\w|dev\b)"
)
# With --enable-log-requests and --enable-log-outputs.
_QUOTING = re.compile(
    r"\s*(?:Received request \S+:|Request \S+ (?:details|JSON body):|Generated response \S+[ :])"
)
_WIDE = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
# Bytes that tell UTF-16 from others: in English every second one is zero.
_LOOKED_AT = 4096


class LogLine(NamedTuple):
    """A line, or a piece of an endless one.

    `process` is who wrote it, b"" where it does not say so. `message` is what follows all
    prefixes, `prefixed` says whether there was one. `record` is what vLLM writes before each line
    of one record, if it does, and `level` is its level.
    """

    number: int
    process: bytes
    message: bytes
    prefixed: bool
    level: bytes = b""
    prefix: bytes = b""
    record: bytes = b""


def read_pieces(stream: BinaryIO) -> Iterator[tuple[int, str]]:
    """Yield each line with its number; an endless one in pieces, all of the same number.

    Raises:
        OSError: it cannot be read, or is larger than a log can be.
    """
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    for number, piece in read_raw_pieces(stream):
        yield number, decoder.decode(piece)


def read_raw_pieces(stream: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Do the same without reading the encoding.

    Raises:
        OSError: it cannot be read, or is larger than a log can be.
    """
    number = 1
    remaining = LARGEST
    while piece := stream.readline(PIECE):
        remaining -= len(piece)
        if remaining < 0:
            raise OSError(errno.EFBIG, f"it is larger than {LARGEST // GIGABYTE} GB")
        yield number, piece
        number += piece.endswith(b"\n")


def read_blocks(stream: BinaryIO) -> Iterator[tuple[int, list[bytes]]]:
    """Yield the lines of a log in blocks, each with the number of its first line.

    A line longer than a block comes in several blocks of one line, all of the same number.

    Raises:
        OSError: it cannot be read, or is larger than a log can be.
    """
    number, remaining, rest = 1, LARGEST, b""
    while block := stream.read(_BLOCK):
        remaining -= len(block)
        if remaining < 0:
            raise OSError(errno.EFBIG, f"it is larger than {LARGEST // GIGABYTE} GB")
        *lines, rest = (rest + block).split(b"\n")
        if lines:
            yield number, lines
            number += len(lines)
        if len(rest) > PIECE:
            yield number, [rest]
            rest = b""
    if rest:
        yield number, [rest]


def encoding_of(start: bytes) -> str:
    """Return the encoding of a text that starts so: UTF-16, with or without a mark, or UTF-8."""
    if start[:2] in _WIDE:
        return _WIDE[start[:2]]
    even, odd = start[0:_LOOKED_AT:2], start[1:_LOOKED_AT:2]
    if len(odd) > 1 and odd.count(0) * 2 > len(odd) and even.count(0) * 8 < len(even):
        return "utf-16-le"
    if len(odd) > 1 and even.count(0) * 2 > len(even) and odd.count(0) * 8 < len(odd):
        return "utf-16-be"
    return "utf-8"


class _Recoded(io.RawIOBase):
    """UTF-16 as UTF-8, piece by piece."""

    def __init__(self, stream: BinaryIO, encoding: str) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder(encoding)("replace")
        self._waiting = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        while not self._waiting:
            piece = self._stream.read(PIECE)
            text = self._decoder.decode(piece, final=not piece).removeprefix("\ufeff")
            self._waiting = text.encode("utf-8", "replace")
            if not piece:
                break
        size = min(len(buffer), len(self._waiting))
        buffer[:size] = self._waiting[:size]
        self._waiting = self._waiting[size:]
        return size


def as_utf8(stream: BinaryIO, start: bytes) -> BinaryIO:
    """Return a stream of UTF-8 for a text that starts so."""
    encoding = encoding_of(start)
    return stream if encoding == "utf-8" else io.BufferedReader(_Recoded(stream, encoding))


def read_lines(
    pieces: Iterable[tuple[int, bytes]], parts: dict[bytes, tuple[int, bytes]] | None = None
) -> Iterator[LogLine]:
    """Take what carried them off the lines of a log: prefixes, colours, JSON, HTML, CRI's parts.

    A line that a container's runtime wrote in parts is one line, with the number of its first part.
    Parts that still lack their end are in `parts`.
    """
    parts = {} if parts is None else parts
    current = 0
    for at, piece in pieces:
        if at == current:
            yield LogLine(at, b"", piece, prefixed=False)
            continue
        current = number = at
        line = _unpacked(piece) if piece.startswith(_JSON_LOG) else piece
        if b"\x1b" in line:
            line = _COLOUR.sub(b"", line)
        if b"&" in line and b";" in line:
            line = _ENTITY.sub(_plain, line)
        part = _CRI.match(line) if line.startswith(b"20") else None
        if part is not None:
            number, start = parts.pop(part["stream"], (number, b""))
            line = start + line[part.end() :]
            if part["flag"] == b"P" and len(line) < PIECE:
                parts[part["stream"]] = number, line.rstrip(b"\r\n")
                continue
        yield _split(number, line)
    for number, line in parts.values():
        yield _split(number, line)


def _split(number: int, line: bytes) -> LogLine:
    match = _PREFIX.match(line)
    if match is None:  # The pattern fits an empty text too.
        return LogLine(number, b"", line, prefixed=False)
    process, level = match.groups(b"")
    end = match.end()
    # Blanks alone are no prefix.
    prefixed = bool(process or level or line[:end].strip())
    record = line[match.start(2) : end] if level else b""
    return LogLine(number, process.rstrip(), line[end:], prefixed, level, line[:end], record)


_COLOUR = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")


def _plain(match: re.Match[bytes]) -> bytes:
    return html.unescape(match[0].decode()).encode("utf-8", "replace")


def _unpacked(line: bytes) -> bytes:
    """Return what Docker's json-file driver wraps."""
    try:
        record = json.loads(line)
    except ValueError:
        return line
    text = record.get("log")
    return text.encode("utf-8", "replace") if isinstance(text, str) else line


def split_prefix(line: str) -> tuple[str, str]:
    """Return which process wrote a line, "" where it does not say so, and what it wrote."""
    split = _split(0, line.encode("utf-8", "surrogatepass"))
    return split.process.decode().strip(), split.message.decode("utf-8", "surrogatepass")


def quotes_client(message: str) -> bool:
    """Return whether a message of vLLM has the text of a request, or of an answer."""
    return _QUOTING.match(message) is not None


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
