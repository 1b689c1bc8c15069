"""Which evidence proves a patch as it is proposed, and why other evidence does not."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from vpatch.commits import digest_of
from vpatch.definitions import changed_names
from vpatch.smoke.evidence import is_test, tampered

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from vpatch.declare.patch import Hardware, Proposal
    from vpatch.outcome import Change, Decision
    from vpatch.patch import Patch
    from vpatch.smoke.evidence import Evidence


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


@dataclass(frozen=True)
class Judge:
    """What evidence is held against: a decision on upstream's tree, and the rules of a target.

    `decide` gives the decision on the patch for the source that a record names, or None where that
    cannot be had any more.
    """

    patch: Patch
    proposal: Proposal
    decision: Decision
    days: int
    now: datetime
    decide: Callable[[Mapping[str, Any]], Decision | None]

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
        return Proven(tests, tuple(smoke), tuple(rejected))

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
            self._other_test(record),
        )
        return next((one for one in reasons if one), None) or self._other_code(record)

    def _too_old(self, record: Mapping[str, Any]) -> str | None:
        age = self.now - datetime.fromisoformat(record["made"]).astimezone(UTC)
        if age <= timedelta(days=self.days):
            return None
        return f"it is {age.days} days old, and at most {self.days} count"

    def _other_test(self, record: Mapping[str, Any]) -> str | None:
        if not is_test(record):
            return None
        file = self.patch.folder / record["test"]["file"]
        if file.is_file() and digest_of(file.read_bytes()) == record["test"]["digest"]:
            return None
        return "its test has changed since"

    def _other_code(self, record: Mapping[str, Any]) -> str | None:
        """Evidence is of a release, and upstream moved on: what is changed must be the same."""
        if self._same_files(record):
            return None
        there = self.decide(record)
        if there is None:
            return "its source cannot be had any more, to compare it with upstream's"
        if there.variant != self.decision.variant:
            return f"there it was the variant {there.variant}, and is {self.decision.variant} here"
        ours, theirs = names_in(self.decision.changes), names_in(there.changes)
        other = sorted(name for name in ours if ours[name] != theirs.get(name))
        if not ours:
            return "upstream's files are others by now, and have no names to compare them by"
        if other:
            return f"what the patch makes of {other[0]} is not the same upstream"
        return None

    def _same_files(self, record: Mapping[str, Any]) -> bool:
        files = (file for tree in record["subject"] for file in tree["files"])
        after = {file["path"]: file["after"] for file in files}
        return all(after.get(p) == digest_of(c.after) for p, c in self.decision.changes.items())


def names_in(changes: Mapping[str, Change]) -> dict[str, str]:
    """Return what a patch defines anew in Python files, with the syntax of each."""
    return {
        f"{name} ({path})": text
        for path, change in changes.items()
        if path.endswith(".py")
        for (name, _), text in changed_names(change).items()
    }


def unfit(needs: Hardware, record: Mapping[str, Any]) -> str | None:
    """Say why a record is not of the hardware that is needed; None where it is."""
    kind = record["engine"]["kind"]
    if kind != needs.engine:
        return f"it ran on {kind}, and the patch needs {needs.engine}"
    if needs.gpu is None:
        return None
    gpus = [gpu["name"] for gpu in record["machine"]["gpus"]]
    if gpus and all(re.search(needs.gpu, gpu) for gpu in gpus):
        return None
    return f"it ran on {', '.join(gpus) or 'no GPU'}, and the patch needs {needs.gpu}"
