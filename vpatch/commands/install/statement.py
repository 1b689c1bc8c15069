"""The in-toto statement beside a wheel: what it was made from, by digests.

It is a Statement v1 (https://in-toto.io/Statement/v1) with the link predicate, version 0.3. The
subject is the wheel. The materials are the original wheel, the source archive of the release, the
lock, and each patch. It has no time and no path of a machine: the same wheel has the same one.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from vpatch import __version__
from vpatch.image.context import digest_of_lock

if TYPE_CHECKING:
    from vpatch.commands.install.layout import LaidOver
    from vpatch.source.wheel.archive import WheelArchive

STATEMENT = ".statement.json"
_TYPE = "https://in-toto.io/Statement/v1"
_PREDICATE = "https://in-toto.io/attestation/link/v0.3"


def statement_of(name: str, sha256: str, official: WheelArchive, laid: LaidOver) -> str:
    """Return the statement of a wheel with that name and that digest, as JSON."""
    lock = laid.lock
    materials = [
        _resource(official.path.name, f"sha256:{official.sha256}"),
        _resource(lock.source.origin, lock.source.digest),
        _resource("vpatch.lock", digest_of_lock(lock)),
        *(_resource(f"patch:{patch.id}", patch.digest) for patch in lock.patches),
    ]
    statement = {
        "_type": _TYPE,
        "subject": [_resource(name, f"sha256:{sha256}")],
        "predicateType": _PREDICATE,
        "predicate": {
            "name": "vpatch wheel",
            "command": ["vpatch", "wheel"],
            "materials": materials,
            "byproducts": {},
            "environment": {"vpatch": __version__},
        },
    }
    return json.dumps(statement, indent=1) + "\n"


def _resource(name: str, digest: str) -> dict[str, object]:
    algorithm, _, value = digest.partition(":")
    return {"name": name, "digest": {algorithm: value}}
