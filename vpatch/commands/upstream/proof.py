"""Which evidence proves a patch as it is proposed, and why other evidence does not."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any

from vpatch.evidence.store import is_test, tampered
from vpatch.planning.definitions import changed_names
from vpatch.util.digest import digest_of
from vpatch.util.matching import PatternFaultError, found_in
from vpatch.util.versions import utc_time

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from vpatch.declare.patch import Hardware, Proof, Proposal
    from vpatch.evidence.store import Evidence
    from vpatch.library.patch import Patch
    from vpatch.planning.state import Change, Decision


# Clocks of machines differ, and not by more. Evidence of next year would always count.
_AHEAD = timedelta(days=1)
_SHOWN = 60


@dataclass(frozen=True)
class Proven:
    """Evidence that counts: of behaviour tests by their files, the newest each, and smoke runs.

    `rejected` says of other evidence for this patch why it does not count.
    """

    tests: Mapping[str, Evidence]
    smoke: tuple[Evidence, ...]
    rejected: tuple[str, ...] = ()

    @property
    def all_evidence(self) -> list[Evidence]:
        return [*self.tests.values(), *self.smoke]


class IncomparableError(Exception):
    """What evidence was made on cannot be made again, to compare it with upstream's."""


@dataclass(frozen=True)
class Judge:
    """What evidence is held against: a decision on upstream's tree, and the rules of a target.

    `decide` plans again what a record is of, and returns the decision on the patch there, or raises
    IncomparableError.
    """

    patch: Patch
    proposal: Proposal
    decision: Decision
    days: int
    now: datetime
    decide: Callable[[Mapping[str, Any]], Decision]

    def proven(self, found: Sequence[Evidence]) -> Proven:
        """Sort evidence; what is for other patches is passed over without a word."""
        tests: dict[str, Evidence] = {}
        smoke: list[Evidence] = []
        rejected = []
        for evidence in found:
            if not self._concerns(evidence.record):
                continue
            reason = self._against(evidence)
            if reason is not None:
                rejected.append(f"{evidence.name}: {reason}")
            elif is_test(evidence.record):
                tests[evidence.record["test"]["file"]] = evidence  # the oldest come first
            else:
                smoke.append(evidence)
        return Proven(tests, tuple(smoke[-1:]), tuple(rejected))

    def _concerns(self, record: Mapping[str, Any]) -> bool:
        if is_test(record):
            return bool(record.get("patch") == self.patch.id)
        return self._entry(record) is not None

    def _entry(self, record: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """What a record's subject says of the patch."""
        entries = (one for tree in record.get("subject", ()) for one in tree["patches"])
        return next((one for one in entries if one["id"] == self.patch.id), None)

    def _against(self, evidence: Evidence) -> str | None:
        """Why evidence does not count."""
        changed = tampered(evidence)
        if changed:
            return f"it was changed since it was written ({changed[0]})"
        record = evidence.record
        entry = self._entry(record)
        reasons = (
            None if record["result"] == "passed" else "it is of a run that failed",
            None
            if entry and entry["digest"] == self.patch.digest
            else "it is for another content of the patch",
            self._too_old(record),
            unfit(self.proposal.needs, record),
            self._other_test(record) if is_test(record) else self._other_patches(record),
        )
        return next((one for one in reasons if one), None) or self._other_code(record)

    def _too_old(self, record: Mapping[str, Any]) -> str | None:
        try:
            age = self.now - utc_time(record["made"])
        except ValueError:
            return f"it does not say when it was made: {record['made'][:_SHOWN]!r}"
        if age < -_AHEAD:
            return f"it says that it was made in the future: {record['made'][:_SHOWN]}"
        if age <= timedelta(days=self.days):
            return None
        return f"it is {age.days} days old, and at most {self.days} count"

    def _other_test(self, record: Mapping[str, Any]) -> str | None:
        file = self.patch.folder / record["test"]["file"]
        if not file.is_file() or digest_of(file.read_bytes()) != record["test"]["digest"]:
            return "its test has changed since"
        declared = [p.model_dump(mode="json", exclude_defaults=True) for p in self._proofs]
        return None if record["proof"] in declared else "what is declared of its test has changed"

    @property
    def _proofs(self) -> Sequence[Proof]:
        return self.patch.declaration.proof

    def _other_patches(self, record: Mapping[str, Any]) -> str | None:
        """A run with more than the patch shows what all of them do together."""
        mine = {self.patch.id, *self.patch.declaration.requires}
        mine |= {patch_id for proof in self._proofs for patch_id in proof.on_top_of}
        ran = [one["id"] for tree in record["subject"] for one in tree["patches"]]
        others = [patch_id for patch_id in ran if patch_id not in mine]
        return f"it is of a run with {', '.join(others)} as well" if others else None

    def _other_code(self, record: Mapping[str, Any]) -> str | None:
        """Evidence is of a release, and upstream moved on: what is changed must be the same."""
        files = [file for tree in record["subject"] for file in tree["files"]]
        after = {file["path"]: file["after"] for file in files}
        ours = self.decision.changes
        if all(after.get(path) == digest_of(change.after) for path, change in ours.items()):
            return None
        try:
            there = self.decide(record)
        except IncomparableError as error:
            return str(error)
        if there.variant != self.decision.variant:
            return f"there it was the variant {there.variant}, and is {self.decision.variant} here"
        for path in sorted(ours.keys() | there.changes.keys()):
            if path not in ours or path not in there.changes:
                return f"{path} is changed by the patch in one of the two alone"
            other = difference(ours[path], there.changes[path], path)
            if other is not None:
                return f"what the patch makes of {other} is not the same upstream"
        return None


def difference(ours: Change, theirs: Change, path: str) -> str | None:
    """Name what two changes of one file do not do alike; None where they are the same.

    In Python the lines taken and given must be the same, and so must all of each definition that
    they are in. Of other files nobody can tell where a change ends.
    """
    if ours == theirs:
        return None
    if not path.endswith(".py"):
        return path
    here, there = changed_names(ours), changed_names(theirs)
    for key in sorted(here.keys() | there.keys()):
        if here.get(key) != there.get(key):
            return f"{key[0]} ({path})"
    return None if _edited(ours) == _edited(theirs) else path


def _edited(change: Change) -> list[tuple[tuple[bytes, ...], tuple[bytes, ...]]]:
    """The lines that a change takes, and those that it gives for them, place by place."""
    before, after = (change.before or b"").splitlines(), change.after.splitlines()
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    return [
        (tuple(before[i:j]), tuple(after[k:m]))
        for tag, i, j, k, m in matcher.get_opcodes()
        if tag != "equal"
    ]


def unfit(needs: Hardware, record: Mapping[str, Any]) -> str | None:
    """Say why a record is not of the hardware that is needed; None where it is."""
    kind = record["engine"]["kind"]
    if kind != needs.engine:
        return f"it ran on {kind}, and the patch needs {needs.engine}"
    if needs.gpu is None:
        return None
    nodes = [node["machine"] for node in record.get("machines", {}).values()]
    gpus = [gpu["name"] for machine in nodes or [record["machine"]] for gpu in machine["gpus"]]
    try:
        if gpus and found_in(needs.gpu, gpus) == gpus:
            return None
    except PatternFaultError as error:
        return f"it cannot be told whether its GPU is {needs.gpu}: {error}"
    return f"it ran on {', '.join(gpus) or 'no GPU'}, and the patch needs {needs.gpu}"
