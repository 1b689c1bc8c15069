"""What a wheel may hold beside its package, by the specification of wheels and by what Python runs.

https://packaging.python.org/en/latest/specifications/binary-distribution-format/
"""

from __future__ import annotations

import re
import unicodedata
from email.parser import BytesHeaderParser
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from vpatch.source.wheel.archive import WheelArchive
    from vpatch.source.wheel.names import WheelName

_METADATA = re.compile(r".*\.(dist-info|egg-info)", re.IGNORECASE)
# What Python runs when it starts, in a folder of packages.
_STARTED = re.compile(
    r".*\.(pth|start)|(site|user)customize(\.py[co]?|\..*\.so|\.so)?", re.IGNORECASE
)
_VERSION = re.compile(r"1\.\d{1,9}")
_SCHEMES = {"data", "headers", "platlib", "purelib", "scripts"}


def problems_of(archive: WheelArchive, name: WheelName) -> Iterator[tuple[str, str]]:
    """Yield each member that no wheel of that name may have, and why.

    Raises:
        VpatchError: WHEEL or METADATA cannot be read.
    """
    for member in archive.members:
        reason = _reason(member, name)
        if reason is not None:
            yield member, reason
    yield from _other_spelling(archive.members)
    wheel, metadata = f"{name.info}/WHEEL", f"{name.info}/METADATA"
    versions = _values(archive, wheel, "Wheel-Version")
    if wheel not in archive.members:
        yield wheel, "a wheel must have it, and it is missing"
    elif len(versions) != 1 or not _VERSION.fullmatch(versions[0]):
        shown = ", ".join(versions) or "none"
        yield wheel, f"vpatch knows Wheel-Version 1, and this is {shown[:60]}"
    names = _values(archive, metadata, "Name")
    wanted = canonicalize_name(name.distribution)
    if metadata in archive.members and [canonicalize_name(one) for one in names] != [wanted]:
        yield metadata, f"its name is {', '.join(names)[:60] or 'missing'}, not {wanted}"


def _reason(member: str, name: WheelName) -> str | None:
    top, *below = member.rstrip("/").split("/")
    if top == name.info:
        return None
    if top != name.data:
        if top.lower().endswith(".data"):
            return f"it is in another folder than {name.data}"
        below = [top]
    elif below and below[0] not in _SCHEMES:
        return f"no installer knows {name.data}/{below[0]}"
    # The scheme `data` lies above the folder of packages, so its files can be at any depth.
    if any(_METADATA.fullmatch(part) for part in below):
        return f"it is metadata of another distribution than {name.info}"
    if any(_STARTED.fullmatch(part) for part in below):
        return "Python would run it at each start"
    return None


def _other_spelling(members: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Members that have the place of another one on a system that knows no upper case."""
    spelt: dict[str, str] = {}
    for member in members:
        parts = member.rstrip("/").split("/")
        for depth in range(1, len(parts) + 1):
            path = "/".join(parts[:depth])
            first = spelt.setdefault(unicodedata.normalize("NFC", path).casefold(), path)
            if first != path:
                yield member, f"some systems take {path} for {first}"
                break


def _values(archive: WheelArchive, member: str, key: str) -> list[str]:
    if member not in archive.members:
        return []
    head = BytesHeaderParser().parsebytes(archive.read(member))
    return [str(value).strip() for value in head.get_all(key, [])]
