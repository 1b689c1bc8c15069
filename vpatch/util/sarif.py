"""Documents in SARIF 2.1.0, for code hosts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from urllib.parse import quote

from vpatch import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pydantic import JsonValue

_SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)


def sarif_document(
    rules: Sequence[Mapping[str, JsonValue]], results: Sequence[Mapping[str, JsonValue]]
) -> str:
    """Return the text of a document with one run."""
    driver = {"name": "vpatch", "version": __version__, "rules": rules}
    run = {"tool": {"driver": driver}, "results": results}
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def sarif_location(path: object, line: int | None) -> dict[str, JsonValue]:
    physical: dict[str, JsonValue] = {"artifactLocation": {"uri": quote(str(path))}}
    if line is not None:
        physical["region"] = {"startLine": line}
    return {"physicalLocation": physical}
