"""Read what a shared library needs, and write one that replaces others.

It runs inside an engine's Python, where vpatch is not. Only what torch's libraries for Linux have
is read: 64 bits, little-endian. The format is in the System V ABI, chapters 4 and 5, and in the
symbol versioning chapter of the Linux Standard Base.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# A name and its version; None where it has none.
Function = tuple[str, str | None]
X86_64, AARCH64 = 62, 183
# A function that does nothing and returns 1.
_RETURN_ONE = {
    X86_64: bytes.fromhex("b801000000 c3"),
    AARCH64: bytes.fromhex("20008052 c0035fd6"),
}
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_DYNAMIC = struct.Struct("<qQ")
_NEED, _NEED_VERSION = struct.Struct("<HHIII"), struct.Struct("<IHHII")
_DEFINITION, _DEFINED_NAME = struct.Struct("<HHHHIII"), struct.Struct("<II")
_SECTION_DYNAMIC, _SECTION_SYMBOLS = 6, 11
_SECTION_NEEDS, _SECTION_VERSIONS = 0x6FFFFFFE, 0x6FFFFFFF
_NEEDED, _HASH, _STRINGS, _SYMBOLS, _STRINGS_SIZE, _SYMBOL_SIZE, _SONAME = 1, 4, 5, 6, 10, 11, 14
_VERSIONS, _DEFINITIONS, _DEFINITION_COUNT = 0x6FFFFFF0, 0x6FFFFFFC, 0x6FFFFFFD
_GLOBAL, _GLOBAL_FUNCTION = 1, 0x12
_PAGE = 65536  # the largest that a kernel for these machines has


class SharedLibrary:
    """A shared library: `needed` are the files that it links, `machine` is what it is built for."""

    def __init__(self, file: Path) -> None:
        with file.open("rb") as opened:
            self._data = data = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
        header = _HEADER.unpack_from(data)
        self.machine: int = header[2]
        sections = [_SECTION.unpack_from(data, header[6] + 64 * n) for n in range(header[12])]
        # Type -> offset, size and the number of the section with its strings.
        self._sections = {one[1]: (one[4], one[5], one[6]) for one in sections}
        offset, size, strings = self._sections[_SECTION_DYNAMIC]
        self._strings: int = sections[strings][4]
        tags = _DYNAMIC.iter_unpack(data[offset : offset + size])
        self.needed = [self._text(value) for tag, value in tags if tag == _NEEDED]

    def missing(self) -> Iterator[Function]:
        """Yield each symbol that another library must have."""
        versions = dict(self._versions())
        offset, size, _ = self._sections[_SECTION_SYMBOLS]
        of_symbols = self._sections.get(_SECTION_VERSIONS)
        for number, symbol in enumerate(_SYMBOL.iter_unpack(self._data[offset : offset + size])):
            name, info, _, section, _, _ = symbol
            if section or info >> 4 != _GLOBAL:
                continue
            version = None
            if of_symbols:
                (index,) = struct.unpack_from("<H", self._data, of_symbols[0] + 2 * number)
                version = versions.get(index)
            yield self._text(name), version

    def _versions(self) -> Iterator[tuple[int, str]]:
        """Yield the number and the name of each version that another library must have."""
        place = self._sections.get(_SECTION_NEEDS, (0,))[0]
        while place:
            _, count, _, first, following = _NEED.unpack_from(self._data, place)
            entry = place + first
            for _ in range(count):
                _, _, index, name, further = _NEED_VERSION.unpack_from(self._data, entry)
                yield index, self._text(name)
                entry += further
            place = place + following if following else 0

    def _text(self, offset: int) -> str:
        start = self._strings + offset
        return self._data[start : self._data.find(b"\0", start)].decode()


def can_stand_in(machine: int) -> bool:
    return machine in _RETURN_ONE


def stand_in(soname: str, machine: int, functions: set[Function]) -> bytes:
    """Return a shared library with these functions; each one only returns 1."""
    strings = _Strings()
    ordered = sorted(functions, key=lambda one: (one[0], one[1] or ""))
    names = [strings.place(name) for name, _ in ordered]
    versions = sorted({version for _, version in functions if version})
    code = _RETURN_ONE[machine]
    definitions = _definitions([soname, *versions], strings)
    own_name = strings.place(soname)
    blocks = [
        (0, code),
        (_HASH, _hash_table(len(names) + 1)),
        (_VERSIONS, _numbers(ordered, versions)),
        (_DEFINITIONS, definitions),
        (_STRINGS, bytes(strings.data)),
    ]
    image = bytearray(_HEADER.size + 3 * _SEGMENT.size)
    tags: list[tuple[int, int]] = [(_SONAME, own_name)]
    code_at = _append(image, code)
    tags += [(tag, _append(image, block)) for tag, block in blocks[1:]]
    symbols = [_SYMBOL.pack(name, _GLOBAL_FUNCTION, 0, 1, code_at, len(code)) for name in names]
    tags.append((_SYMBOLS, _append(image, bytes(_SYMBOL.size) + b"".join(symbols))))
    tags += [(_STRINGS_SIZE, len(strings.data)), (_SYMBOL_SIZE, _SYMBOL.size)]
    tags += [(_DEFINITION_COUNT, len(versions) + 1), (0, 0)]
    end = len(image)
    # The loader writes into this part, so it lies on a page of its own.
    dynamic = b"".join(_DYNAMIC.pack(*tag) for tag in tags)
    dynamic_at = _append(image, dynamic, _PAGE)
    identity = b"\x7fELF\x02\x01\x01"
    header = (identity, 3, machine, 1, 0, _HEADER.size, 0, 0, _HEADER.size, _SEGMENT.size, 3)
    _HEADER.pack_into(image, 0, *header, _SECTION.size, 0, 0)
    segments: list[tuple[Any, ...]] = [
        (1, 5, 0, 0, 0, end, end, _PAGE),
        (1, 6, *[dynamic_at] * 3, *[len(dynamic)] * 2, _PAGE),
        (2, 6, *[dynamic_at] * 3, *[len(dynamic)] * 2, 8),
    ]
    for number, segment in enumerate(segments):
        _SEGMENT.pack_into(image, _HEADER.size + number * _SEGMENT.size, *segment)
    return bytes(image)


class _Strings:
    """A table of strings, and where in it each of them is."""

    def __init__(self) -> None:
        self.data = bytearray(b"\0")

    def place(self, text: str) -> int:
        offset = len(self.data)
        self.data += text.encode() + b"\0"
        return offset


def _append(image: bytearray, block: bytes, alignment: int = 16) -> int:
    image += bytes(-len(image) % alignment)
    place = len(image)
    image += block
    return place


def _hash_table(symbols: int) -> bytes:
    """Return a table with one bucket, in which all symbols are."""
    chain = [0, *range(2, symbols), 0][:symbols]
    return struct.pack(f"<{3 + symbols}I", 1, symbols, int(symbols > 1), *chain)


def _numbers(functions: list[Function], versions: list[str]) -> bytes:
    """Return the number of each symbol's version; 1 is for what has no version."""
    numbers = {None: 1} | {version: number for number, version in enumerate(versions, 2)}
    version_numbers = [numbers[version] for _, version in functions]
    return struct.pack(f"<{1 + len(version_numbers)}H", 0, *version_numbers)


def _definitions(versions: list[str], strings: _Strings) -> bytes:
    """Return the versions that a library has; the first is the library itself."""
    table = b""
    size = _DEFINITION.size + _DEFINED_NAME.size
    for number, name in enumerate(versions, 1):
        base, last = number == 1, number == len(versions)
        head = (1, int(base), number, 1, _hash_of(name), _DEFINITION.size, 0 if last else size)
        table += _DEFINITION.pack(*head) + _DEFINED_NAME.pack(strings.place(name), 0)
    return table


def _hash_of(name: str) -> int:
    digest = 0
    for letter in name.encode():
        digest = (digest << 4) + letter
        high = digest & 0xF0000000
        digest = (digest ^ high >> 24) & ~high
    return digest
