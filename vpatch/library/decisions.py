"""decisions.json: what the patches of a folder mean for releases, so that nobody decides it again.

`vpatch test --record` writes it into the folder that has the patches. It holds only for the code by
which it was decided. Nobody edits it by hand.
"""

from __future__ import annotations

import hashlib
import json
import logging
from typing import TYPE_CHECKING, Self

from pydantic import BaseModel, ConfigDict

from vpatch.util.files import replace_file
from vpatch.util.untrusted import MEGABYTE, read_file

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_log = logging.getLogger(__name__)
DECISIONS = "decisions.json"
_VERSION = 1
_LARGEST = 64 * MEGABYTE


class _TableModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class RecordedDecision(_TableModel):
    """What a patch means for some releases, without its findings and its shape."""

    releases: tuple[str, ...] = ()
    """The releases in which it means this alone, with only what it requires."""
    in_series: dict[str, tuple[str, ...]] = {}
    """By series, the releases in which it means this after those before it in the series."""
    state: str
    reason: str
    variant: str | None = None
    places: int = 0
    files: tuple[str, ...] = ()
    changes: dict[str, str] = {}
    """By release, a digest of what the patch makes of it alone; see `digest_of_changes`."""

    def same_as(self, other: Self) -> bool:
        """Whether it means the same, in whatever releases."""
        where: dict[str, object] = {"releases": (), "in_series": {}, "changes": {}}
        return self.model_copy(update=where) == other.model_copy(update=where)


class DecisionsOfPatch(_TableModel):
    """What one patch means for releases, and what that follows from."""

    digest: str
    """The digest of the patch."""
    requires: tuple[tuple[str, str], ...] = ()
    """The id and the digest of each patch that it requires, and that these require."""
    code: tuple[str, ...] = ()
    """Digests of its codemod.py; see `vpatch.planning.recorded_plan.code_of`."""
    decisions: tuple[RecordedDecision, ...]


class RecordedDecisions(_TableModel):
    """All that is recorded in one folder of patches, for one tree, such as `vllm`."""

    decider: str
    """A digest of the code that decided; see `decider_digest`."""
    archives: dict[str, str]
    """The digests of the archives of the releases."""
    series: dict[str, tuple[tuple[str, str], ...]]
    """By name, the id and the digest of each patch of a series, in the order of the decisions."""
    patches: dict[str, DecisionsOfPatch]
    """By the id of the patch."""


def read_decisions(folder: Path, decider: str) -> dict[str, RecordedDecisions]:
    """Read what is recorded in a folder of patches, by tree.

    Nothing is returned of a file that is not there, cannot be read, is damaged or changed by hand,
    or was made by other code than `decider` tells. Then everything is decided anew.
    """
    file = folder / DECISIONS
    try:
        sealed = json.loads(read_file(file, _LARGEST))
        trees = sealed["trees"]
        if sealed["schema_version"] != _VERSION or sealed["digest"] != _seal(trees):
            _log.info("%s is damaged or of another vpatch, and is not used", file)
            return {}
        return {
            tree: recorded
            for tree, one in trees.items()
            if (recorded := RecordedDecisions.model_validate(one)).decider == decider
        }
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        _log.info("%s cannot be read, and is not used: %s", file, error)
        return {}


def write_decisions(folder: Path, trees: Mapping[str, RecordedDecisions]) -> None:
    """Write what is recorded in a folder of patches, all of it or nothing."""
    rows = {name: one.model_dump(mode="json", exclude_defaults=True) for name, one in trees.items()}
    sealed = {"schema_version": _VERSION, "digest": _seal(rows), "trees": rows}
    text = json.dumps(sealed, indent=1, ensure_ascii=False)
    replace_file(folder / DECISIONS, f"{text}\n")


def _seal(trees: object) -> str:
    text = json.dumps(trees, sort_keys=True, ensure_ascii=False)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
