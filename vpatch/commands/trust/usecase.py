"""What a user names to trust, as patches, recipes and targets."""

from __future__ import annotations

import shlex
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from vpatch.errors import BadValueError, UsageError
from vpatch.library.catalog import find_library
from vpatch.library.patch import DECLARATION
from vpatch.trust.store import content_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vpatch.trust.decision import State
    from vpatch.trust.store import Content, Store, TrustRecord
    from vpatch.workspace.context import Context


def paths_to_trust(context: Context, paths: Sequence[Path], hosts: Sequence[str]) -> list[Path]:
    if hosts and not paths:
        return []
    chosen = (one for path in paths or (context.project.folder,) for one in _items(path))
    return list(dict.fromkeys(chosen))


def trust_paths(
    context: Context, store: Store, paths: Sequence[Path], *, record: bool
) -> list[tuple[Path, State, Content]]:
    """Return the state and the content of each path; with `record`, trust what is not shipped.

    Raises:
        VpatchError: a path cannot be read, and nothing was recorded; or a record cannot be written.
    """
    # Read everything before the first record: an error must not leave half of it trusted.
    contents = [(path, content_of(path)) for path in paths]
    trusted: list[tuple[Path, State, Content]] = []
    for path, content in contents:
        state = context.trust.state(path, content)
        if state != "shipped" and record:
            store.add("path", str(path.resolve()), content.digest)
            state = "trusted"
        trusted.append((path, state, content))
    return trusted


def trust_folders(store: Store, paths: Sequence[Path], *, record: bool) -> list[Path]:
    """Return the real folders of paths; with `record`, trust all that is ever in them.

    Raises:
        UsageError: a path is not a folder, or everybody can write to it, and nothing was recorded.
        VpatchError: a record cannot be written.
    """
    folders = list(dict.fromkeys(path.resolve() for path in paths))
    for folder in folders:
        status = folder.stat()
        if not stat.S_ISDIR(status.st_mode):
            raise BadValueError(
                "is not a folder, so --folder cannot trust it",
                where=str(folder),
                hint="name a folder, or leave out --folder",
            )
        if status.st_mode & stat.S_IWOTH:
            raise UsageError(
                "everybody on this machine can write to this folder, so vpatch does not trust it",
                where=str(folder),
                hint=f"name a folder in it, or: chmod o-w {shlex.quote(str(folder))}",
                code="trust.unsafe-folder",
            )
    for folder in folders if record else ():
        store.add("folder", str(folder), "")
    return folders


def revoke_trust(store: Store, paths: Sequence[Path], hosts: Sequence[str]) -> list[TrustRecord]:
    """Remove all records of some hosts and of what lies in some folders; return them.

    Raises:
        UsageError: a path would still be trusted, as it lies in a folder that is.
    """
    roots = [path.resolve() for path in paths]
    for record in store:
        folder = Path(record.name)
        inside = [root for root in roots if root.is_relative_to(folder)]
        if record.kind == "folder" and inside and folder not in inside:
            raise UsageError(
                f"you trust all that is ever in {folder}",
                where=str(inside[0]),
                hint=f"take that back: vpatch trust --revoke {shlex.quote(str(folder))}",
                code="trust.still-trusted",
            )
    gone = [
        record
        for record in store
        if (record.kind == "host" and record.name in hosts)
        or (record.kind != "host" and any(Path(record.name).is_relative_to(r) for r in roots))
    ]
    for record in gone:
        store.remove(record.kind, record.name)
    return gone


def _items(path: Path) -> Iterator[Path]:
    """A patch's folder, a file, or all that a project has."""
    if path.is_file() or (path / DECLARATION).is_file():
        yield path
        return
    code = find_library(path.absolute()).code
    if not code:
        raise UsageError(
            "this folder has no patches, recipes or targets of its own",
            where=str(path),
            hint="name the folder of a project or of a patch",
            code="trust.nothing-to-trust",
        )
    yield from code
