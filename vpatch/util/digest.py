"""Digests as `sha256:` and 64 hexadecimal digits."""

from __future__ import annotations

import hashlib


def digest_of(text: bytes) -> str:
    return f"sha256:{hashlib.sha256(text).hexdigest()}"


def short_digest(digest: str) -> str:
    """Return the kind of a digest and its first 16 digits, for people."""
    kind, _, digits = digest.partition(":")
    return f"{kind}:{digits[:16]}" if digits else digest
