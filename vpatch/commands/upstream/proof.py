"""Which evidence proves a patch as it is proposed, and why other evidence does not."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from vpatch.evidence.records import BehaviourTestRecord
from vpatch.evidence.store import tampered
from vpatch.planning.definitions import changed_names
from vpatch.util.digest import digest_of
from vpatch.util.matching import PatternFaultError, found_in
from vpatch.util.versions import utc_time

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from vpatch.declare.patch import Hardware, Proof, Proposal
    from vpatch.evidence.records import EvidenceRecord, SmokeRecord, SubjectPatch
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
    decide: Callable[[EvidenceRecord], Decision]

    def proven(self, candidates: Sequence[Evidence]) -> Proven:
        """Sort evidence; what is for other patches is passed over without a word."""
        tests: dict[str, Evidence] = {}
        smoke: list[Evidence] = []
        rejected = []
        for evidence in candidates:
            record = evidence.record
            if not self._concerns(record):
                continue
            reason = self._against(evidence)
            if reason is not None:
                rejected.append(f"{evidence.name}: {reason}")
            elif isinstance(record, BehaviourTestRecord):
                tests[record.test.file] = evidence  # the oldest come first
            else:
                smoke.append(evidence)
        return Proven(tests, tuple(smoke[-1:]), tuple(rejected))

    def _concerns(self, record: EvidenceRecord) -> bool:
        if isinstance(record, BehaviourTestRecord):
            return record.patch == self.patch.id
        return self._entry(record) is not None

    def _entry(self, record: EvidenceRecord) -> SubjectPatch | None:
        """What a record's subject says of the patch."""
        entries = (one for tree in record.subject for one in tree.patches)
        return next((one for one in entries if one.id == self.patch.id), None)

    def _against(self, evidence: Evidence) -> str | None:
        """Why evidence does not count."""
        changed = tampered(evidence)
        if changed:
            return f"it was changed since it was written ({changed[0]})"
        record = evidence.record
        if record.result != "passed":
            return "it is of a run that failed"
        entry = self._entry(record)
        if entry is None or entry.digest != self.patch.digest:
            return "it is for another content of the patch"
        if isinstance(record, BehaviourTestRecord):
            other = self._other_test(record)
        else:
            other = self._other_patches(record)
        reasons = self._too_old(record), unfit(self.proposal.needs, record), other
        return next((one for one in reasons if one), None) or self._other_code(record)

    def _too_old(self, record: EvidenceRecord) -> str | None:
        try:
            age = self.now - utc_time(record.made)
        except ValueError:
            return f"it does not say when it was made: {record.made[:_SHOWN]!r}"
        if age < -_AHEAD:
            return f"it says that it was made in the future: {record.made[:_SHOWN]}"
        if age <= timedelta(days=self.days):
            return None
        return f"it is {age.days} days old, and at most {self.days} count"

    def _other_test(self, record: BehaviourTestRecord) -> str | None:
        file = self.patch.folder / record.test.file
        if not file.is_file() or digest_of(file.read_bytes()) != record.test.digest:
            return "its test has changed since"
        declared = [p.model_dump(mode="json", exclude_defaults=True) for p in self._proofs]
        return None if record.proof in declared else "what is declared of its test has changed"

    @property
    def _proofs(self) -> Sequence[Proof]:
        return self.patch.declaration.proof

    def _other_patches(self, record: SmokeRecord) -> str | None:
        """A run with more than the patch shows what all of them do together."""
        mine = {self.patch.id, *self.patch.declaration.requires}
        mine |= {patch_id for proof in self._proofs for patch_id in proof.on_top_of}
        ran = [one.id for tree in record.subject for one in tree.patches]
        others = [patch_id for patch_id in ran if patch_id not in mine]
        return f"it is of a run with {', '.join(others)} as well" if others else None

    def _other_code(self, record: EvidenceRecord) -> str | None:
        """Evidence is of a release, and upstream moved on: what is changed must be the same."""
        after = {file.path: file.after for tree in record.subject for file in tree.files}
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
    return None if _edited_lines(ours) == _edited_lines(theirs) else path


def _edited_lines(change: Change) -> list[tuple[tuple[bytes, ...], tuple[bytes, ...]]]:
    """The lines that a change takes, and those that it gives for them, place by place."""
    before, after = (change.before or b"").splitlines(), change.after.splitlines()
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    return [
        (tuple(before[i:j]), tuple(after[k:m]))
        for tag, i, j, k, m in matcher.get_opcodes()
        if tag != "equal"
    ]


def unfit(needs: Hardware, record: EvidenceRecord) -> str | None:
    """Say why a record is not of the hardware that is needed; None where it is."""
    kind = record.engine.kind
    if kind != needs.engine:
        return f"it ran on {kind}, and the patch needs {needs.engine}"
    if needs.gpu is None:
        return None
    nodes = [] if isinstance(record, BehaviourTestRecord) else (record.machines or {}).values()
    machines = [node.machine for node in nodes] or [record.machine]
    gpus = [gpu.name for machine in machines for gpu in machine.gpus]
    try:
        if gpus and found_in(needs.gpu, gpus) == gpus:
            return None
    except PatternFaultError as error:
        return f"it cannot be told whether its GPU is {needs.gpu}: {error}"
    return f"it ran on {', '.join(gpus) or 'no GPU'}, and the patch needs {needs.gpu}"
