"""What was run, in digests: evidence is for exactly this, and for nothing else."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from vpatch.checkout.commits import changed_files
from vpatch.planning.state import overall_changes
from vpatch.util.digest import short_digest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from vpatch.checkout.lockfile import LockFile
    from vpatch.planning.state import Plan


def subject_of(plans: Sequence[Plan]) -> list[dict[str, Any]]:
    """Return each tree's pin, the patches that it takes, and the files that these touch."""
    return [
        {
            "pin": asdict(plan.pin),
            "patches": [
                {"id": d.patch.id, "digest": d.patch.digest, "variant": d.variant}
                for d in plan.taken
            ],
            "files": [asdict(file) for file in changed_files(overall_changes(plan))],
        }
        for plan in plans
    ]


def subject_of_locks(*locks: LockFile) -> list[dict[str, Any]]:
    """Return the same of locks, as of the plans that they were made from."""
    return [
        {
            "pin": asdict(lock.source.pin()),
            "patches": [
                {"id": p.id, "digest": p.digest, "variant": p.variant} for p in lock.patches
            ],
            "files": [file.model_dump() for file in lock.files],
        }
        for lock in locks
    ]


def digest_of_subject(subject: Sequence[Mapping[str, Any]]) -> str:
    """Return `sha256:HEX` of what a subject says, the same on any machine."""
    kept = [{**tree, "pin": _portable(tree["pin"])} for tree in subject]
    text = json.dumps(kept, sort_keys=True, separators=(",", ":"))
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def differences(old: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]]) -> list[str]:
    """Say in words what of an old subject is not so any more; nothing where it all is."""
    return list(_differences(old, new))


def _differences(
    old: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]]
) -> Iterator[str]:
    before, after = ({tree["pin"]["tree"]: tree for tree in each} for each in (old, new))
    for name in sorted(before.keys() | after.keys()):
        if name not in before or name not in after:
            yield f"the tree {name} is {'new' if name in after else 'gone'}"
            continue
        ours, theirs = before[name], after[name]
        if _portable(ours["pin"]) != _portable(theirs["pin"]):
            pin = theirs["pin"]
            which = f"{pin['version'] or pin['ref']}, {short_digest(pin['digest'])}"
            yield f"{name} is another source: {which}"
        yield from _of(ours["patches"], theirs["patches"], "id", "the patch ")
        yield from _of(ours["files"], theirs["files"], "path", "")


def _of(
    ours: Sequence[Mapping[str, Any]], theirs: Sequence[Mapping[str, Any]], key: str, what: str
) -> Iterator[str]:
    before, after = ({entry[key]: entry for entry in each} for each in (ours, theirs))
    for name in [*before, *(name for name in after if name not in before)]:
        if name not in after:
            yield f"{what}{name} is not among them any more"
        elif name not in before:
            yield f"{what}{name} was not among them"
        elif before[name] != after[name]:
            yield f"{what}{name} has changed"
    if before.keys() == after.keys() and list(before) != list(after):
        yield f"{what.strip()} order has changed"


def _portable(pin: Mapping[str, Any]) -> dict[str, Any]:
    """A pin without where it was found: the same bytes from elsewhere are the same."""
    return {key: pin[key] for key in ("tree", "version", "digest")}
