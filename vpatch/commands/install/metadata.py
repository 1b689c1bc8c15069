"""METADATA of a distribution: its name and its version, and the same text with another version."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from vpatch.errors import VpatchError
from vpatch.util.versions import read_version

if TYPE_CHECKING:
    from vpatch.commands.install.wheels.names import WheelName

_END = re.compile(rb"\r?\n\r?\n")


class WheelMetadataError(VpatchError):
    """The metadata of a wheel does not fit its name."""

    code = "wheel.wrong-metadata"


def with_version(text: bytes, name: WheelName, version: str, where: str) -> bytes:
    """Return the text with another version; every other byte stays.

    Raises:
        WheelMetadataError: the text has not exactly one version, or another one than its wheel.
    """
    matches = [*_lines(text, b"Version")]
    if len(matches) != 1 or not _same(matches[0][1], name.version):
        raise WheelMetadataError(
            f"METADATA does not say the version {name.version}",
            where=where,
            hint="give the wheel the name that it has on the index",
        )
    (start, end), _ = matches[0]
    return text[:start] + version.encode() + text[end:]


def _lines(text: bytes, key: bytes) -> list[tuple[tuple[int, int], str]]:
    """Each value of a key in the head of the text, with where it is."""
    head = _END.split(text, 1)[0]
    pattern = re.compile(rb"^" + key + rb":[ \t]*([^\r\n]*?)[ \t]*\r?$", re.MULTILINE)
    return [(m.span(1), m[1].decode(errors="replace")) for m in pattern.finditer(head)]


def _same(found: str, version: str) -> bool:
    return (said := read_version(found)) is not None and said == read_version(version)
