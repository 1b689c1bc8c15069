"""The text of a lock, and of the names and versions in it."""

from __future__ import annotations

import json

from packaging.utils import canonicalize_name

from vpatch.util.versions import read_version


def lock_text(**content: object) -> str:
    """Return the text of a lock with all its keys; those that came later are left out if empty."""
    later = ("chosen", "security", "image")
    written = {key: value for key, value in content.items() if value or key not in later}
    return json.dumps(written, indent=2) + "\n"


def plain_name(value: str) -> str:
    """Return the name of a tree, which must be canonical; else raise ValueError."""
    if not value or canonicalize_name(value) != value or "/" in value:
        raise ValueError("is not a name of a tree")
    return value


def plain_version(value: str) -> str:
    """Return a version in its normal form; ValueError for other text."""
    if (version := read_version(value)) is None:
        raise ValueError("is not a version")
    return str(version)
