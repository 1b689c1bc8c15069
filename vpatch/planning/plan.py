"""Patches and a tree make decisions. Nothing here writes, fetches or prints."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from packaging.specifiers import SpecifierSet

from vpatch.codemods.base import Repeat
from vpatch.codemods.custom import CodemodError
from vpatch.codemods.pattern import TooManyGapsError
from vpatch.errors import UsageError
from vpatch.library.loading import where_named
from vpatch.planning import kept_decisions
from vpatch.planning.answers import Answers
from vpatch.planning.editing import (
    EditResult,
    Probed,
    describe,
    findings,
    lacks,
    probe,
    run_edit,
)
from vpatch.planning.footprint import definitions_read
from vpatch.planning.nearest import nearest
from vpatch.planning.postcondition import broken_promise
from vpatch.planning.shape import SHAPED, shape_of, watched
from vpatch.planning.state import Change, Decision, Finding, Plan, State
from vpatch.planning.view import UnparsableFile, View
from vpatch.trust.decision import UntrustedError
from vpatch.util.plural import counted

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

    from vpatch.codemods.bind import BoundEdit
    from vpatch.declare.edits import Predicate
    from vpatch.library.patch import BoundVariant, Patch
    from vpatch.planning.outcome import FoundSite
    from vpatch.source.tree import Tree

# Which decisions have findings.
FindingsFor = Literal["all", "stopping", "none"]
_log = logging.getLogger(__name__)
# What a patch may seem to be because an earlier one got at its code.
_DISPLACED = frozenset([State.CONFLICT, State.UPSTREAMED, State.ABSENT])
# How many places are shown that have the new code and do not show what it replaced.
_UNRECOGNISED = 3
_SATISFIED = frozenset([State.NEEDED, State.APPLIED, State.UPSTREAMED])


def order(patches: Sequence[Patch]) -> list[Patch]:
    """Put every patch behind those that it requires, and keep the given order otherwise.

    Raises:
        UsageError: patches require each other in a circle.
    """
    by_id = {patch.id: patch for patch in patches}
    placed: dict[str, Patch] = {}

    def place(patch: Patch, above: tuple[str, ...]) -> None:
        if patch.id in above:
            raise UsageError(
                f"patches require each other: {' -> '.join((*above, patch.id))}",
                where=where_named(by_id[above[-1]], "requires", patch.id),
                hint="remove one of these from `requires`",
                code="planning.circular-requires",
            )
        for required in patch.relations.requires:
            if required in by_id and required not in placed:
                place(by_id[required], (*above, patch.id))
        placed[patch.id] = patch

    for patch in patches:
        if patch.id not in placed:
            place(patch, ())
    return list(placed.values())


def plan(
    patches: Sequence[Patch],
    tree: Tree,
    *,
    findings_for: FindingsFor = "stopping",
    alone: Container[str] = (),
    answers: Answers | None = None,
    remember: bool = False,
    shapes: bool = True,
) -> Plan:
    """Decide on each patch, in order, each on the tree as its predecessors leave it.

    Args:
        patches: what to decide on.
        tree: the pristine tree.
        findings_for: which decisions have findings: `all`, those that are `stopping` an apply, or
            `none`. Findings have lines, which cost time. These are lines of the pristine files.
        alone: ids of patches that are decided as if there were only they and what they require.
        answers: what is known of the contents of files; None to find everything anew.
        remember: whether to take decisions from `answers`, and to keep them there. The tree's pin
            must tell its content.
        shapes: whether decisions have shapes, which cost most of the time.
    """
    answers = Answers() if answers is None else answers
    pristine = View(tree, answers=answers)
    decisions = _decide_series(
        patches, pristine, findings_for=findings_for, alone=alone, remember=remember, shapes=shapes
    )
    answers.save()
    compared = (replace(d, disagreement=_disagreement(d, tree)) for d in decisions.values())
    return Plan(tree.pin, tuple(compared))


def _decide_series(
    patches: Sequence[Patch],
    pristine: View,
    *,
    findings_for: FindingsFor,
    alone: Container[str] = (),
    remember: bool,
    shapes: bool,
) -> dict[str, Decision]:
    view, carried = pristine, pristine.tree.carried
    decisions: dict[str, Decision] = {}
    for patch in order(patches):
        if patch.id in alone:
            series = [*_required(patch, patches), patch]
            own = _decide_series(
                series, pristine, findings_for=findings_for, remember=remember, shapes=shapes
            )
            decisions[patch.id] = own[patch.id]
            continue
        decision, after = _decide_patch(
            patch, view, pristine, carried, findings_for, remember=remember, shapes=shapes
        )
        met = {other: d for other, d in decisions.items() if other not in alone}
        decision = _with_relations(decision, met)
        if decision.state in _DISPLACED and view is not pristine:
            decision = _blame(decision, pristine, met.values(), remember=remember)
        if decision.state is State.NEEDED:
            view = after
        if decision.state not in SHAPED:
            decision = replace(decision, shape=None)
        decisions[patch.id] = decision
    return decisions


def _decide_patch(
    patch: Patch,
    view: View,
    pristine: View,
    carried: frozenset[str],
    findings_for: FindingsFor,
    *,
    remember: bool,
    shapes: bool,
) -> tuple[Decision, View]:
    """The decision on one patch, and the view after it where it is needed."""
    key = kept_decisions.key_of(patch, view, carried) if remember and shapes else None
    if key is not None and findings_for != "all":
        known = kept_decisions.recall(key, patch, view)
        if known is not None and not (known.state.stops and findings_for == "stopping"):
            _log.info("%s is %s, as decided before", patch.id, known.state)
            return known, view.over({path: c.after for path, c in known.changes.items()})
    decider = _Decider(patch, view, carried, findings_for)
    decision, after = decider.decide()
    if shapes:
        decision = _with_shape(decision, decider, pristine)
    if key is not None:
        kept_decisions.keep(key, decision, view)
    return decision, after


def _required(patch: Patch, patches: Sequence[Patch]) -> list[Patch]:
    """Those of some patches that one requires, and that these require."""
    by_id = {other.id: other for other in patches}
    required: set[str] = set()
    pending = list(patch.relations.requires)
    while pending:
        patch_id = pending.pop()
        if patch_id in by_id and patch_id not in required:
            required.add(patch_id)
            pending += by_id[patch_id].relations.requires
    return [other for other in patches if other.id in required]


def _with_shape(decision: Decision, decider: _Decider, pristine: View) -> Decision:
    """The decision with the shape that it was read from; those that stop need none."""
    if decision.state not in SHAPED:
        return decision
    patch, tree = decision.patch, pristine.tree.pin.tree
    names = watched(patch.shapes, tree)
    definitions = definitions_read(decider.read, decision.changes, names, pristine, decider.tried)
    recorded = patch.shapes.shapes.get(tree, ()) if patch.shapes else ()
    stale = patch.shapes is not None and patch.shapes.patch_digest != patch.digest
    shape = shape_of(decision.state, decision.variant, definitions, recorded, stale=stale)
    return replace(decision, shape=shape)


def _with_relations(decision: Decision, earlier: dict[str, Decision]) -> Decision:
    if decision.state not in {State.NEEDED, State.CONFLICT}:
        return decision
    relations = decision.patch.relations
    missing = [
        required
        for required in relations.requires
        if required not in earlier or earlier[required].state not in _SATISFIED
    ]
    if missing:
        state = earlier[missing[0]].state if missing[0] in earlier else "not among the patches"
        reason = f"requires {missing[0]}, which is {state}"
        return replace(decision, state=State.BLOCKED, reason=reason, changes={}, places=0)
    for other in earlier.values() if decision.state is State.NEEDED else ():
        excluded = other.patch.id in relations.conflicts or (
            decision.patch.id in other.patch.relations.conflicts
        )
        if excluded and other.state in {State.NEEDED, State.APPLIED}:
            reason = f"excludes {other.patch.id}, which is {other.state}; take one of the two"
            return replace(decision, state=State.CONFLICT, reason=reason, changes={}, places=0)
    return decision


def _blame(
    decision: Decision, pristine: View, earlier: Iterable[Decision], *, remember: bool
) -> Decision:
    """Say so where a patch would fit the pristine tree and an earlier one is in its way.

    One that only finds its work done by an earlier patch is a conflict too: upstream has done none.
    """
    alone, _ = _decide_patch(
        decision.patch, pristine, pristine, frozenset(), "none", remember=remember, shapes=True
    )
    if alone.state is not State.NEEDED:
        return decision
    applied = [other for other in earlier if other.changes]
    others = [
        other.patch.id for other in applied if not other.changes.keys().isdisjoint(alone.changes)
    ] or [other.patch.id for other in applied]
    reason = f"fits the pristine tree, but not after {', '.join(others)}: {decision.reason}"
    return replace(decision, state=State.CONFLICT, reason=reason)


def _disagreement(decision: Decision, tree: Tree) -> str | None:
    claim = decision.patch.relations.needed_in.get(tree.pin.tree)
    if claim is None or tree.pin.version is None or decision.state is State.UNTRUSTED:
        return None
    claimed = SpecifierSet(claim).contains(tree.pin.version, prereleases=True)
    needed = decision.state in {State.NEEDED, State.APPLIED, State.BLOCKED, State.CONFLICT}
    if claimed == needed:
        return None
    verb = "is needed" if claimed else "is not needed"
    return f"declared that it {verb} in {tree.pin.label} ({claim!r}), but is {decision.state}"


@dataclass(frozen=True)
class _Attempt:
    """A variant tried on a view, as far as its edits fit."""

    variant: BoundVariant
    results: tuple[EditResult, ...]
    mismatch: str | None

    @property
    def view(self) -> View:
        return self.results[-1].view


class _Decider:
    """One patch on one view."""

    def __init__(
        self, patch: Patch, view: View, carried: frozenset[str], findings_for: FindingsFor
    ) -> None:
        self.patch = patch
        self.view = view
        self.carried = carried
        self.findings_for = findings_for
        # Whether places are to have lines.
        self.located = findings_for == "all"
        # All places that the decision was read from.
        self.read: list[FoundSite] = []
        # All edits that looked for places.
        self.tried: list[BoundEdit] = []

    def _probe(self, predicate: Predicate) -> Probed:
        probed = probe(predicate, self.view, located=self.located)
        self.read += probed.sites
        return probed

    def decide(self) -> tuple[Decision, View]:
        """The decision, and the view after the patch where it is needed."""
        begun = time.monotonic()
        try:
            decision, view = self._read_state()
        except UnparsableFile as error:
            decision, view = self._conflict(f"{error.where} {error.what}")
        except RecursionError:
            decision, view = self._conflict("the code that it is about is nested too deeply")
        except (UntrustedError, CodemodError, TooManyGapsError) as error:
            # One patch whose code fails, or may not run, says nothing of the others.
            reason = f"{error.where}: {error.what}\nnext: {error.hint}"
            untrusted = isinstance(error, UntrustedError)
            state = State.UNTRUSTED if untrusted else State.CONFLICT
            decision, view = Decision(self.patch, state, reason), self.view
        seconds = time.monotonic() - begun
        _log.info("%s is %s: %.2f s", self.patch.id, decision.state, seconds)
        return decision, view

    def _conflict(
        self, reason: str, notes: Iterable[Finding] = (), variant: str | None = None
    ) -> tuple[Decision, View]:
        return Decision(self.patch, State.CONFLICT, reason, tuple(notes), variant), self.view

    def _read_state(self) -> tuple[Decision, View]:
        declaration = self.patch.declaration
        concerned = self._probe(declaration.concerns)
        if not concerned.holds:
            reason = f"the tree {lacks(declaration.concerns, self.view)}"
            return Decision(self.patch, State.ABSENT, reason), self.view
        notes = (
            list(findings("what `concerns` names", concerned.sites, self.view))
            if self.located
            else []
        )
        if declaration.effect is not None:
            effect = self._probe(declaration.effect)
            if effect.holds:
                if self.located:
                    notes += findings("effect", effect.sites, self.view)
                return self._present(f"the tree has {describe(declaration.effect)}", notes)
        attempts = [
            self._attempt(variant)
            for variant in self.patch.variants
            if variant.when is None or self._probe(variant.when).holds
        ]
        fitting = [attempt for attempt in attempts if attempt.mismatch is None]
        for other in fitting[1:]:
            if other.view.files != fitting[0].view.files:
                names = f"{fitting[0].variant.name} and {other.variant.name}"
                return self._conflict(
                    f"the variants {names} both fit, with different results", notes
                )
        if fitting:
            return self._fitting(fitting[0], notes)
        return self._mismatching(attempts, sorted({site.path for site in concerned.sites}), notes)

    def _attempt(self, variant: BoundVariant) -> _Attempt:
        results: list[EditResult] = []
        view = self.view
        for edit in variant.edits:
            carried = self.patch.id in self.carried
            results.append(run_edit(edit, view, carried=carried, located=self.located))
            view = results[-1].view
            self.tried.append(edit)
            self.read += results[-1].sites
        mismatches = [r.mismatch for r in results if r.mismatch]
        return _Attempt(variant, tuple(results), mismatches[0] if mismatches else None)

    def _present(self, reason: str, notes: Sequence[Finding]) -> tuple[Decision, View]:
        carried = self.patch.id in self.carried
        state = State.APPLIED if carried else State.UPSTREAMED
        return Decision(self.patch, state, reason, tuple(notes)), self.view

    def _fitting(self, attempt: _Attempt, notes: list[Finding]) -> tuple[Decision, View]:
        name = attempt.variant.name
        if self.located:
            for result in attempt.results:
                notes += findings(result.edit.name, result.recognised, self.view)
        effect = self.patch.declaration.effect
        if not any(result.todo for result in attempt.results):
            if effect is not None:
                missing = lacks(effect, self.view)
                reason = f"every place is as the patch makes it, but the tree still {missing}"
                return self._conflict(reason, notes, name)
            decision, view = self._present("every place already is as the patch makes it", notes)
            return replace(decision, variant=name), view
        changes = {
            path: Change(self.view.read(path), text)
            for path, text in attempt.view.files.items()
            if text != self.view.read(path)
        }
        broken = broken_promise(attempt.variant, effect, changes, attempt.view)
        if broken is None and effect is None:
            broken = _repeated(attempt)
        if broken is not None:
            return self._conflict(broken, notes, name)
        if self.located:
            notes += _unused(changes)
        places = sum(site.todo for result in attempt.results for site in result.sites)
        if self.patch.id in self.carried:
            reason = f"the tree's lock names the patch, and {counted(places, 'place')} lack it"
            return self._conflict(reason, notes, name)
        reason = f"{counted(places, 'place')} to edit in {counted(len(changes), 'file')}"
        decision = Decision(self.patch, State.NEEDED, reason, tuple(notes), name, changes)
        return replace(decision, places=places), attempt.view

    def _in_pristine(self, finding: Finding) -> Finding:
        """The same finding in the view with its line in the pristine file."""
        if finding.path is None or finding.line is None:
            return finding
        text = self.view.read(finding.path) or b""
        line = self.view.pristine_line(finding.path, finding.line, text)
        return replace(finding, line=line)

    def _mismatching(
        self, attempts: Sequence[_Attempt], concerned: Sequence[str], notes: list[Finding]
    ) -> tuple[Decision, View]:
        if not attempts:
            names = ", ".join(str(variant.name) for variant in self.patch.variants)
            return self._conflict(
                f"the code is there, but in the shape of no variant ({names})", notes
            )
        if self.findings_for == "stopping" and not self.located:
            # Only now is it known that somebody wants to see the lines.
            self.located = True
            attempts = [self._attempt(attempt.variant) for attempt in attempts]
        reasons = []
        for attempt in attempts:
            prefix = f"variant {attempt.variant.name}: " if attempt.variant.name else ""
            for result in attempt.results:
                if result.mismatch is None:
                    continue
                reasons.append(f"{prefix}{result.edit.name}: {result.mismatch}")
                if self.findings_for != "none":
                    notes += findings(result.edit.name, result.recognised, self.view)
                if not result.recognised:
                    others = [site for site in result.sites if not site.recognised]
                    if others and self.patch.declaration.effect is None:
                        reasons[-1] += "; if this tree has the cure, declare an `effect`"
                    if self.findings_for == "none":
                        continue
                    notes += findings(result.edit.name, others[:_UNRECOGNISED], self.view)
                    notes += map(self._in_pristine, nearest(result.edit, self.view, concerned))
        return self._conflict("\n".join(dict.fromkeys(reasons)), dict.fromkeys(notes))


def _unused(changes: Mapping[str, Change]) -> Iterator[Finding]:
    # pyflakes takes its time to load, and only --why asks.
    from vpatch.planning.lint import unused_imports  # noqa: PLC0415

    for path, fault in unused_imports(changes):
        yield Finding(
            f"nothing uses the import of {fault.name} after the patch: {fault.code}", path
        )


def _repeated(attempt: _Attempt) -> str | None:
    """Say so where an insert's code is already there, but not at the insert's own place.

    Calls are often repeated, so for them this only counts where other work is done already.
    """
    half_done = any(not f.todo for result in attempt.results for f in result.recognised)
    for result in attempt.results:
        for site in result.sites:
            if site.repeat is Repeat.UNUSUAL or (site.repeat and half_done):
                return (
                    f"{result.edit.name}: {site.path}: the same code is at another place of "
                    f"this block, so the work may be done; declare an `effect` that tells"
                )
    return None
