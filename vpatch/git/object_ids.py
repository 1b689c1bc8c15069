"""The ids that git gives to commits, computed without git and without a repository.

https://git-scm.com/book/en/v2/Git-Internals-Git-Objects has the form of objects.
"""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING

from vpatch.git.command import base_identity
from vpatch.git.files import REGULAR

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from vpatch.git.checkout import NewCommit
    from vpatch.git.files import SourceFile

# The mode and the id of each file, by its path.
Blobs = dict[str, tuple[int, str]]
_FOLDER = 0o40000


def blobs_of(files: Iterable[SourceFile]) -> Blobs:
    return {file.path: (file.mode, _id("blob", file.data)) for file in files}


def base_id(blobs: Mapping[str, tuple[int, str]], message: str) -> str:
    """Return the id of a first commit with these files."""
    return _commit(_tree(blobs), None, message)


def ids_on_top(
    blobs: Mapping[str, tuple[int, str]], base: str, commits: Sequence[NewCommit]
) -> list[str]:
    """Return the ids of commits on top of a commit with these files, as `add_commits` makes them.

    A file that was there keeps its mode.
    """
    files, parent, ids = dict(blobs), base, []
    for commit in commits:
        for path, content in commit.files.items():
            mode, _ = files.pop(path, (REGULAR, ""))
            if content is not None:
                files[path] = mode, _id("blob", content)
        parent = _commit(_tree(files), parent, commit.message)
        ids.append(parent)
    return ids


def _commit(tree: str, parent: str | None, message: str) -> str:
    who = base_identity()
    above = "" if parent is None else f"parent {parent}\n"
    text = f"tree {tree}\n{above}author {who}\ncommitter {who}\n\n{message}"
    return _id("commit", text.encode())


def _tree(files: Mapping[str, tuple[int, str]]) -> str:
    """Return the id of the tree with these files, by paths below it."""
    entries: list[tuple[bytes, int, str]] = []
    below: dict[str, dict[str, tuple[int, str]]] = {}
    for path, (mode, blob) in files.items():
        name, _, rest = path.partition("/")
        if rest:
            below.setdefault(name, {})[rest] = mode, blob
        else:
            entries.append((os.fsencode(name), mode, blob))
    entries += [(os.fsencode(name), _FOLDER, _tree(inner)) for name, inner in below.items()]
    # git sorts a folder as if its name ended with a slash.
    entries.sort(key=lambda entry: entry[0] + (b"/" if entry[1] == _FOLDER else b""))
    content = b"".join(b"%o %s\0%s" % (m, name, bytes.fromhex(i)) for name, m, i in entries)
    return _id("tree", content)


def _id(kind: str, content: bytes) -> str:
    # No secret depends on it: it is the name that git uses.
    header = f"{kind} {len(content)}\0".encode()
    return hashlib.sha1(header + content, usedforsecurity=False).hexdigest()
