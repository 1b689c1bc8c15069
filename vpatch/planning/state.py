"""What a patch means for a tree: the states of a decision, and the evidence for one."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Literal

from vpatch.planning.code_shape import UNSURE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from vpatch.library.patch import Patch
    from vpatch.planning.code_shape import CodeShape, Sureness
    from vpatch.source.tree import Pin

# Which decisions have findings.
FindingsFor = Literal["all", "stopping", "none"]


class State(StrEnum):
    """What a patch means for a tree."""

    NEEDED = "needed"
    APPLIED = "applied"
    UPSTREAMED = "upstreamed"
    ABSENT = "absent"
    # Its edits do not fit, in a version that it does not claim: `needed-in` leaves it out.
    NOT_DECLARED = "not declared"
    BLOCKED = "blocked"
    CONFLICT = "conflict"
    # Only code of the patch can tell, and the user has not trusted it.
    UNTRUSTED = "untrusted"

    @property
    def stops(self) -> bool:
        """Whether nothing can be applied while a patch is in this state."""
        return self in {State.BLOCKED, State.CONFLICT, State.UNTRUSTED}

    @property
    def is_open(self) -> bool:
        """Whether nobody can tell whether the code needs the patch."""
        return self.stops or self is State.NOT_DECLARED


@dataclass(frozen=True)
class Finding:
    """One thing that was looked for, and where it was found.

    `line` counts from 1; None where lines were not asked for, or the finding concerns a whole file.
    """

    what: str
    path: str | None = None
    line: int | None = None

    @property
    def where(self) -> str:
        if self.path is None:
            return ""
        return self.path if self.line is None else f"{self.path}:{self.line}"


@dataclass(frozen=True)
class Change:
    """A file before and after a patch; `before` is None for a file that the patch creates."""

    before: bytes | None
    after: bytes


@dataclass(frozen=True)
class Decision:
    patch: Patch
    state: State
    reason: str
    findings: tuple[Finding, ...] = ()
    variant: str | None = None
    changes: Mapping[str, Change] = field(default_factory=dict)
    disagreement: str | None = None
    # None where the decision stops an apply.
    shape: CodeShape | None = None
    # How many places the edits change; 0 unless the patch is needed.
    places: int = 0
    # The files that they change, sorted; also where the changes themselves are not at hand.
    files: tuple[str, ...] = ()
    # Whether a build does not have what the patch looks for, so that only its sources tell.
    needs_sources: bool = False
    # Whether the patch declares that it is needed in this version; None where nothing tells.
    claimed: bool | None = None

    @property
    def new_shape(self) -> bool:
        """Whether the patch is not recorded to mean this on exactly this code."""
        return self.shape is not None and not self.shape.known

    @property
    def sureness(self) -> Sureness | None:
        """How sure the state is; None where it stops an apply."""
        return None if self.shape is None else self.shape.sureness

    @property
    def is_unsure(self) -> bool:
        """Whether the code, or the code around it, is not as in a release on record."""
        return self.sureness in UNSURE

    @property
    def stops_if_strict(self) -> bool:
        """Whether a strict run stops at it.

        It does not where nothing of a patch is there, and the patch does not claim the version, or
        only the sources could tell: then no change can get lost.
        """
        is_absent = self.state is State.ABSENT and not (self.shape and self.shape.definitions)
        is_idle = is_absent and self.claimed is False
        return self.is_unsure and not is_idle and not self.needs_sources

    @property
    def may_be_wrong(self) -> bool:
        """Whether the patch is on record, and for other code, or with other code around it."""
        return self.is_unsure and self.shape is not None and self.shape.is_on_record

    @property
    def missed(self) -> bool:
        """Whether a patch says that it is needed here, and finds nothing that it is about."""
        return self.state is State.ABSENT and self.disagreement is not None


@dataclass(frozen=True)
class Plan:
    """The decisions for one tree, in the order in which the patches are applied."""

    pin: Pin
    decisions: tuple[Decision, ...]

    def stopping(self, *, asked_for: bool, strict: bool = False) -> tuple[Decision, ...]:
        """What must be settled before anything is applied.

        Of patches that were `asked_for`, in a recipe or by name, also those that are missed, or not
        declared for this version and do not fit: to leave one out without a word is how a carried
        change gets lost. A `strict` run stops at what is unsure too.
        """
        return tuple(
            d
            for d in self.decisions
            if d.state.stops
            or (asked_for and (d.missed or d.state.is_open))
            or (strict and d.stops_if_strict)
        )

    @property
    def taken(self) -> tuple[Decision, ...]:
        """What `apply` will commit."""
        return tuple(d for d in self.decisions if d.state is State.NEEDED)


def none_taken(plans: Iterable[Plan]) -> bool:
    """Whether there were patches to decide on, and no tree has one or gets one.

    Somebody who asked for these patches must be told: the result would be a plain vLLM.
    """
    states = {decision.state for plan in plans for decision in plan.decisions}
    return bool(states) and states.isdisjoint({State.NEEDED, State.APPLIED})


def overall_changes(plan: Plan) -> dict[str, Change]:
    """Each touched file from its pristine state to the last."""
    changes: dict[str, Change] = {}
    for decision in plan.taken:
        for path, change in decision.changes.items():
            first = changes.get(path, change).before
            changes[path] = type(change)(first, change.after)
    return changes
