"""One patch and a tree, as other patches leave it, make a decision."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vpatch.codemods.base import Repeat
from vpatch.codemods.custom import CodemodError
from vpatch.codemods.pattern import TooManyGapsError
from vpatch.planning.editing import (
    EditResult,
    Probed,
    describe,
    findings,
    lacks,
    only_in_sources,
    probe,
    run_edit,
)
from vpatch.planning.nearest import nearest
from vpatch.planning.postcondition import broken_promise
from vpatch.planning.relations import claims
from vpatch.planning.state import Change, Decision, Finding, State
from vpatch.planning.view import UnparsableFile, View
from vpatch.trust.decision import UntrustedError
from vpatch.util.plural import counted, listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from vpatch.codemods.bind import BoundEdit
    from vpatch.declare.edits import Predicate
    from vpatch.library.patch import BoundVariant, Patch
    from vpatch.planning.outcome import FoundSite
    from vpatch.planning.state import FindingsFor

_log = logging.getLogger(__name__)
# How many places are shown that have the new code and do not show what it replaced.
_UNRECOGNISED = 3


@dataclass(frozen=True)
class _Attempt:
    """A variant tried on a view, as far as its edits fit."""

    variant: BoundVariant
    results: tuple[EditResult, ...]
    mismatch: str | None

    @property
    def view(self) -> View:
        return self.results[-1].view

    @property
    def finds_nothing(self) -> bool:
        """Whether an edit that must find a place finds none."""
        return any(one.mismatch and not one.recognised for one in self.results)


class Decider:
    """One patch on one view. After `decide`, `read` and `tried` say what it looked at."""

    def __init__(
        self,
        patch: Patch,
        view: View,
        carried: frozenset[str],
        findings_for: FindingsFor,
        *,
        imports: bool = True,
    ) -> None:
        self.patch = patch
        self.view = view
        self.carried = carried
        self.findings_for = findings_for
        # Whether what the code imports must be there.
        self.imports = imports
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
            missing = only_in_sources(declaration.concerns, self.view)
            if missing:
                reason = (
                    f"{listed(missing)} {'is' if len(missing) == 1 else 'are'} not in a built "
                    "package, so that only the sources tell whether the patch is needed"
                )
            absent = Decision(self.patch, State.ABSENT, reason, needs_sources=bool(missing))
            return absent, self.view
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
        broken = broken_promise(
            attempt.variant, effect, changes, attempt.view, imports=self.imports
        )
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
        return replace(decision, places=places, files=tuple(sorted(changes))), attempt.view

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
            return self._unfitting(
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
        return self._unfitting("\n".join(dict.fromkeys(reasons)), dict.fromkeys(notes), attempts)

    def _unfitting(
        self, reason: str, notes: Iterable[Finding], attempts: Iterable[_Attempt] = ()
    ) -> tuple[Decision, View]:
        """A conflict, or not declared: edits that find nothing in a version that nobody claims."""
        pin = self.view.tree.pin
        finds_nothing = all(attempt.finds_nothing for attempt in attempts)
        is_claimed = claims(self.patch, pin) is not False or self.patch.id in self.carried
        if is_claimed or not finds_nothing:
            return self._conflict(reason, notes)
        claim = self.patch.relations.needed_in[pin.tree]
        reason = f"not declared for {pin.label} ({claim!r}), and does not fit: {reason}"
        shown = tuple(notes) if self.findings_for == "all" else ()
        return Decision(self.patch, State.NOT_DECLARED, reason, shown), self.view


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
