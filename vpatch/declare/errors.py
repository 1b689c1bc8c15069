"""What is wrong with a declaration. To say so needs no parser."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from vpatch.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


class DeclarationError(UsageError):
    """A declaration does not follow its schema."""

    code = "declare.wrong-value"


def unreadable(path: Path, error: OSError, most: str) -> DeclarationError:
    """Return what to raise where a file cannot be read, or is larger than `most`."""
    return DeclarationError(
        f"cannot be read: {error.strerror}",
        where=str(path),
        hint=f"make it a readable file of at most {most}",
        code="declare.unreadable",
    )


def unknown_key(key: str, known: Sequence[str], where: str) -> DeclarationError:
    """Return what to raise for a key that is not known."""
    near = difflib.get_close_matches(key, known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"valid keys: {', '.join(known)}"
    what = f"unknown key {key!r}"
    return DeclarationError(what, where=where, hint=hint, code="declare.unknown-key")
