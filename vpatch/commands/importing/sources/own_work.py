"""Whose work an import reads: what the user just wrote, or what may be somebody else's."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from vpatch.git.history import authors_since_base, is_committed
from vpatch.git.origin import identity

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vpatch.changes.change import SourceChange
    from vpatch.commands.importing.request import ImportRequest

_OTHER_SOURCES = {
    "pull": "it is a pull request",
    "range": "commits name an author, and do not prove who that is",
    "script": "a script wrote it",
    "module": "a module wrote it",
}


def why_not_own(
    request: ImportRequest, changes: Iterable[SourceChange], begun: str | None = None
) -> str | None:
    """Return why a source may be somebody else's work; None where it is the user's own.

    Own is a diff that no repository has, and a changed checkout that vpatch made. Neither may name
    another author than git's user. What vpatch itself committed are patches of anybody; but a
    change on top of `begun`, a commit of vpatch, has nothing of them.
    """
    if request.kind in _OTHER_SOURCES:
        return _OTHER_SOURCES[request.kind]
    source = Path(request.source)
    if request.kind == "tree":
        authors = authors_since_base(source, begun)
        if authors is None:
            return f"{source} is no checkout that vpatch made"
    else:
        if is_committed(source):
            return f"{source} is committed to a repository, which others may have done"
        authors = frozenset(change.message.author for change in changes if change.message.author)
    if not authors:
        return None
    user = identity(source if source.is_dir() else source.absolute().parent)
    others = sorted(authors - {user[1]} if user else authors)
    return f"its author is {others[0]}" if others else None
