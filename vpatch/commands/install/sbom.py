"""The CycloneDX document of a patched vLLM, kept: to make it takes longer than to write a wheel."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
from typing import TYPE_CHECKING

from vpatch.library.catalog import installed
from vpatch.util.own_code import code_digest
from vpatch.util.record_store import RecordStore
from vpatch.util.source_date import source_date_epoch

if TYPE_CHECKING:
    from pathlib import Path

    from vpatch.commands.audit.author import Author
    from vpatch.workspace.context import Context
    from vpatch.workspace.locked_plan import LockedPlan

_FORM = "cyclonedx"
_PACKAGE = "cyclonedx-python-lib"


def sbom_of(
    context: Context, locked: LockedPlan, name: str, version: str, author: Author | None
) -> str:
    """Return the document, from the cache if nothing that it is made of has changed.

    `name` and `version` are those of the package which scanners find.
    """
    store, key = RecordStore(context.plans), f"sbom-{_key(context, locked, name, version, author)}"
    known = store.get(key, str)
    if known is not None:
        return known
    # As said above.
    from vpatch.commands.audit.usecase import documents_of  # noqa: PLC0415

    names = ((name, version),)
    documents = documents_of(
        context, locked.tree, locked.plan, [_FORM], distributions=names, author=author
    )
    store.put(key, documents[_FORM])
    return documents[_FORM]


def _key(
    context: Context, locked: LockedPlan, name: str, version: str, author: Author | None
) -> str:
    """A digest of what the document depends on: the lock, the library, and the code of both."""
    folders = context.library.patches
    parts = [
        code_digest(),
        importlib.metadata.version(_PACKAGE),
        locked.lock.dump(),
        name,
        version,
        str(author or ""),
        source_date_epoch(),
        _digests(installed("advisories")),
        {name: _digests(folder) for name, folder in sorted(folders.items())},
    ]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def _digests(folder: Path) -> list[tuple[str, str]]:
    files = sorted(path for path in folder.iterdir() if path.is_file())
    return [(path.name, hashlib.sha256(path.read_bytes()).hexdigest()) for path in files]
