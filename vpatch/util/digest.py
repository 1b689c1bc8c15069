"""Digests as `sha256:` and 64 hexadecimal digits."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def digest_of(text: bytes) -> str:
    return f"sha256:{hashlib.sha256(text).hexdigest()}"


def digest_of_files(files: Mapping[str, bytes]) -> str:
    """Return the digest of files with their names, whatever their order."""
    lines = (f"{hashlib.sha256(files[name]).hexdigest()}  {name}\n" for name in sorted(files))
    # A name of a folder may not be UTF-8.
    return digest_of("".join(lines).encode(errors="surrogatepass"))


def short_digest(digest: str) -> str:
    """Return the kind of a digest and its first 16 digits, for people."""
    kind, _, digits = digest.partition(":")
    return f"{kind}:{digits[:16]}" if digits else digest
