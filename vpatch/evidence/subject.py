"""What was run, in digests: evidence is for exactly this, and for nothing else."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from vpatch.checkout.commits import changed_files
from vpatch.evidence.documents import document_of
from vpatch.evidence.records import SubjectFile, SubjectPatch, SubjectPin, SubjectTree
from vpatch.planning.state import overall_changes
from vpatch.util.digest import short_digest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pydantic import BaseModel

    from vpatch.checkout.lockfile import LockFile
    from vpatch.evidence.records import EvidencePart
    from vpatch.planning.state import Plan


def subject_trees(plans: Sequence[Plan]) -> list[SubjectTree]:
    """Return each tree's pin, the patches that it takes, and the files that these touch."""
    return [
        SubjectTree(
            pin=SubjectPin.model_validate(asdict(plan.pin)),
            patches=[
                SubjectPatch(id=d.patch.id, digest=d.patch.digest, variant=d.variant)
                for d in plan.taken
            ],
            files=subject_files(plan),
        )
        for plan in plans
    ]


def subject_files(plan: Plan) -> list[SubjectFile]:
    """Return the files that the patches of a plan touch, in the order of their paths."""
    return [
        SubjectFile(path=file.path, before=file.before, after=file.after)
        for file in changed_files(overall_changes(plan))
    ]


def subject_trees_of_locks(*locks: LockFile) -> list[SubjectTree]:
    """Return the same of locks, as of the plans that they were made from."""
    return [
        SubjectTree(
            pin=SubjectPin.model_validate(asdict(lock.source.pin())),
            patches=[
                SubjectPatch(id=p.id, digest=p.digest, variant=p.variant) for p in lock.patches
            ],
            files=[SubjectFile(path=f.path, before=f.before, after=f.after) for f in lock.files],
        )
        for lock in locks
    ]


def subject_trees_of_records(records: Iterable[BaseModel]) -> list[SubjectTree]:
    """Return the same of records of benchmarks, which may lack what is not compared."""
    documents = (record.model_dump(exclude_unset=True) for record in records)
    return [
        SubjectTree.model_construct(
            pin=SubjectPin.model_construct(**tree["pin"]),
            patches=[SubjectPatch.model_construct(**one) for one in tree["patches"]],
            files=[SubjectFile.model_construct(**one) for one in tree["files"]],
        )
        for tree in documents
    ]


def digest_of_subject(subject: Sequence[SubjectTree]) -> str:
    """Return `sha256:HEX` of what a subject says, the same on any machine."""
    portable = [{**document_of(tree), "pin": _portable(tree.pin)} for tree in subject]
    text = json.dumps(portable, sort_keys=True, separators=(",", ":"))
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def differences(old: Sequence[SubjectTree], new: Sequence[SubjectTree]) -> Iterator[str]:
    """Say in words what of an old subject is not so any more; nothing where it all is."""
    before, after = ({tree.pin.tree: tree for tree in each} for each in (old, new))
    for name in sorted(before.keys() | after.keys()):
        if name not in before or name not in after:
            yield f"the tree {name} is {'new' if name in after else 'gone'}"
            continue
        ours, theirs = before[name], after[name]
        if _portable(ours.pin) != _portable(theirs.pin):
            pin = theirs.pin
            which = f"{pin.version or pin.ref}, {short_digest(pin.digest)}"
            yield f"{name} is another source: {which}"
        ids = [{patch.id: patch for patch in tree.patches} for tree in (ours, theirs)]
        yield from _of(ids[0], ids[1], "the patch ")
        paths = [{file.path: file for file in tree.files} for tree in (ours, theirs)]
        yield from _of(paths[0], paths[1], "")


def _of(
    before: Mapping[str, EvidencePart], after: Mapping[str, EvidencePart], what: str
) -> Iterator[str]:
    for name in [*before, *(name for name in after if name not in before)]:
        if name not in after:
            yield f"{what}{name} is not among them any more"
        elif name not in before:
            yield f"{what}{name} was not among them"
        elif before[name] != after[name]:
            yield f"{what}{name} has changed"
    if before.keys() == after.keys() and list(before) != list(after):
        yield f"{what.strip()} order has changed"


def _portable(pin: SubjectPin) -> dict[str, str | None]:
    """A pin without where it was found: the same bytes from elsewhere are the same."""
    return {"tree": pin.tree, "version": pin.version, "digest": pin.digest}
