"""METADATA of a distribution: its name and its version, and the same text with another version."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from vpatch.errors import VpatchError
from vpatch.util.versions import read_version

if TYPE_CHECKING:
    from vpatch.source.wheel.names import WheelName

_END = re.compile(rb"\r?\n\r?\n")
_VERSION = re.compile(rb"^Version:[ \t]*([^\r\n]*?)[ \t]*\r?$", re.MULTILINE)


class WheelMetadataError(VpatchError):
    """The metadata of a wheel does not fit its name."""

    code = "wheel.wrong-metadata"


def with_version(text: bytes, name: WheelName, version: str, where: str) -> bytes:
    """Return the text with another version; every other byte stays.

    Raises:
        WheelMetadataError: the text has not exactly one version, or another one than its wheel.
    """
    head = _END.split(text, 1)[0]
    matches = [*_VERSION.finditer(head)]
    own = read_version(matches[0][1].decode(errors="replace")) if len(matches) == 1 else None
    if own is None or own != read_version(name.version):
        raise WheelMetadataError(
            f"METADATA does not say the version {name.version}",
            where=where,
            hint="give the wheel the name that it has on the index",
        )
    start, end = matches[0].span(1)
    return text[:start] + version.encode() + text[end:]
