"""What the VEX that lies in an image says, in numbers."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

from vpatch.image.context import DOCUMENTS

if TYPE_CHECKING:
    from collections.abc import Mapping


def statuses_of(documents: Mapping[str, str]) -> dict[str, int]:
    """How many advisories have each status of VEX; `documents` are texts by paths in the image."""
    path, _ = DOCUMENTS["vpatch.vex"]
    statements = json.loads(documents[path])["statements"]
    return dict(Counter(statement["status"] for statement in statements))
