"""A patch that does not fit a release, laid into it as far as it goes."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from packaging.version import Version

from vpatch.commands.bump.changes import ReleaseSide, changed_code
from vpatch.commands.bump.propose import with_proposal
from vpatch.commands.bump.verdict import judge
from vpatch.commands.edit.changed_patch import beside_of
from vpatch.commands.edit.checks import location_at
from vpatch.commands.edit.declaration.patch_text import Location, edits_at, read
from vpatch.commands.edit.doubts import doubts_of, predicates_in_new_names
from vpatch.commands.edit.series import Series, planned_series, required_series
from vpatch.commands.edit.workbench import Workbench
from vpatch.deriving.further_places import FurtherPlaces
from vpatch.errors import UsageError
from vpatch.git.merge import SideLabels
from vpatch.library.patch import DECLARATION
from vpatch.merging.settled_names import NewNames
from vpatch.merging.three_sides import LaidPatch, ThreeSides
from vpatch.planning.plan import plan
from vpatch.planning.relations import claims, claims_version
from vpatch.planning.state import State
from vpatch.planning.view import View
from vpatch.source.spec import PypiSpec
from vpatch.util.scratch import scratch_folder
from vpatch.util.unified_diff import unified_diff

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from vpatch.commands.bump.verdict import PatchProposal
    from vpatch.deriving.candidate import Declared
    from vpatch.library.patch import Patch
    from vpatch.planning.state import Decision
    from vpatch.source.tree import Pin
    from vpatch.workspace.context import Context


@dataclass(frozen=True)
class CarriedPatch:
    """A patch as it is in `release`, laid into another one.

    Attributes:
        release: the version of the release that it fits.
        variant: the variant that fits there.
        total: how many edits that has.
        failing: those that do not find their places in the other release, and why.
        proposal: what `vpatch bump` proposes, in words; None if that is nothing.
        start: the edits that a new variant begins with.
        laid: the files of the other release with the change in them.
        diff: the whole change in the release that it fits.
        predicates: `concerns` and `effect` in the names of the other release, where that is needed.
    """

    release: str
    variant: str | None
    total: int
    failing: tuple[str, ...]
    proposal: str | None
    start: tuple[Declared, ...]
    laid: LaidPatch
    diff: bytes
    predicates: Mapping[str, Declared] = field(default_factory=dict)


def may_be_carried(decision: Decision, pin: Pin) -> bool:
    """Whether a patch that is not needed in a release may be made to fit it."""
    if decision.state is State.ABSENT:
        return claims(decision.patch, pin) is not False
    return decision.state in {State.CONFLICT, State.NOT_DECLARED}


def carried(context: Context, patches: Sequence[Patch], new: Series) -> CarriedPatch:
    """Lay a patch into the release of `new`, as it is in the nearest release that it fits.

    Raises:
        UsageError: it fits no other release.
    """
    with ExitStack() as stack:
        old = _fitting(context, patches, new, stack)
        room = stack.enter_context(scratch_folder())
        return _carried(context, old, new, room)


def _fitting(context: Context, patches: Sequence[Patch], new: Series, stack: ExitStack) -> Series:
    """The series on the newest earlier release that the patch fits, or else on a later one."""
    name = new.tree.pin.tree
    for version in _nearest(context, new.patch, new.tree.pin):
        with ExitStack() as opened:
            tree = opened.enter_context(context.tree(PypiSpec(name, version)))
            old = planned_series(context, patches, new.patch.id, tree)
            if old.decision.state is State.NEEDED:
                stack.enter_context(opened.pop_all())
                return old
    raise UsageError(
        f"the patch {new.patch.id!r} is {new.decision.state} on {new.tree.pin.label}, and it fits "
        f"no other release whose change could be laid in: {new.decision.reason}",
        where=str(new.patch.folder / DECLARATION),
        hint="name a release that the patch applies to: vpatch status shows which",
        code="edit.not-needed",
    )


def _nearest(context: Context, patch: Patch, pin: Pin) -> Iterator[str]:
    """The other releases, the nearest earlier one first; those that nobody claims only if cached.

    After the earlier ones come the later ones.
    """
    cached = set(context.cache.versions(pin.tree))
    known = {*cached, *(context.releases() if pin.tree == "vllm" else ())} - {pin.version}
    versions = sorted(known, key=Version)
    own = Version(pin.version) if pin.version else None
    earlier = [one for one in versions if own is None or Version(one) < own]
    for version in [*reversed(earlier), *versions[len(earlier) :]]:
        if version in cached or claims_version(patch, pin.tree, version):
            yield version


def _carried(context: Context, old: Series, new: Series, room: Path) -> CarriedPatch:
    patch, answers = new.patch, context.answers
    location = location_at(patch, old)
    edits = edits_at((patch.folder / DECLARATION).read_bytes().decode(), location)
    views = _Views(
        Workbench(View(new.tree_below, answers=answers), {}, room),
        View(old.tree_below, answers=answers),
        View(new.tree_below, answers=answers),
        beside_of(patch.folder),
    )
    both = views.of_both(edits)
    release = old.tree.pin.version or old.tree.pin.label
    changes = sorted(old.decision.changes.items())
    diff = b"".join(
        line for path, one in changes for line in unified_diff(path, one.before, one.after)
    )
    theirs = views.whole(edits, views.old) or views.old
    variant, start = old.decision.variant, tuple(edits)
    nothing = LaidPatch({}, (), ())
    bare = CarriedPatch(release, variant, len(edits), both.failing, None, start, nothing, diff)
    ways: list[CarriedPatch] = []
    further = views.further(edits, {path: one.after for path, one in changes}, release)
    proposal = _proposal(context, old, new)
    if proposal is not None:
        start = _proposed_edits(proposal.text, location)
        view = views.whole(start, views.new)
        if view is not None:
            names = NewNames(views.old, views.new, theirs)
            notes = names.faults(view.files)
            laid = LaidPatch(dict(view.files), (), (), notes, proposal.names)
            proposed = replace(bare, proposal=proposal.said, start=start, laid=laid)
            ways.append(_with_doubts(proposed, old, new, further))
    if not ways or ways[0].laid.doubts:
        labels = SideLabels(new.tree.pin.label, f"vllm {release}", f"{patch.id} on {release}")
        # An edit that finds its places may do more than three sides can. Where it leaves more to
        # solve, three sides do without it.
        for base, ours in ((both.old, both.new), (views.old, views.new)):
            laid = ThreeSides(base, theirs, ours, labels).lay()
            ways.append(_with_doubts(replace(bare, laid=laid), old, new, further))
    return min(ways, key=lambda one: (one.laid.open_parts, len(one.laid.doubts)))


def _with_doubts(
    one: CarriedPatch, old: Series, new: Series, further: FurtherPlaces
) -> CarriedPatch:
    below = further.new
    predicates = predicates_in_new_names(new.patch, below, one.laid, one.laid.names)
    doubts = [*one.laid.doubts, *doubts_of(old, new, below, one.laid, predicates)]
    doubts += further.notes(one.laid.files, one.laid.names)
    laid = replace(one.laid, doubts=tuple(dict.fromkeys(doubts)))
    return replace(one, laid=laid, predicates=predicates)


@dataclass(frozen=True)
class _InBoth:
    """Both releases with the edits that find their places in both; `failing` are the others."""

    old: View
    new: View
    failing: tuple[str, ...]


@dataclass(frozen=True)
class _Views:
    """The two releases below the patch, and what is beside it."""

    bench: Workbench
    old: View
    new: View
    beside: dict[str, bytes]

    def whole(self, edits: Sequence[Declared], view: View) -> View | None:
        """A release with all edits; None if one does not find its places."""
        for edit in edits:
            stepped = self.bench.step(edit, self.beside, view)
            if isinstance(stepped, str):
                return None
            view = stepped
        return view

    def further(
        self, edits: Sequence[Declared], changes: Mapping[str, bytes], release: str
    ) -> FurtherPlaces:
        """What the places of the edits have in common in the old release."""
        bound = [part for parts in self.bench.bound(edits, self.beside) for part in parts]
        return FurtherPlaces.of(self.old, changes, bound, self.new, f"vllm {release}")

    def of_both(self, edits: Sequence[Declared]) -> _InBoth:
        old, new, failing = self.old, self.new, []
        for edit in edits:
            after = self.bench.step(edit, self.beside, new)
            before = self.bench.step(edit, self.beside, old)
            if isinstance(after, str):
                failing.append(after)
            elif not isinstance(before, str):
                old, new = before, after
        return _InBoth(old, new, tuple(failing))


def _proposal(context: Context, old: Series, new: Series) -> PatchProposal | None:
    """What `vpatch bump` proposes for the patch; None if nothing."""
    sides = []
    for one in (old, new):
        patches = required_series(context, one.patch)
        decisions = plan(patches, one.tree, answers=context.answers, surroundings=True).decisions
        (decision,) = (each for each in decisions if each.patch.id == one.patch.id)
        sides.append(ReleaseSide(decision, View(one.tree, answers=context.answers)))
    changed = changed_code(*sides)
    pins = old.tree.pin, new.tree.pin
    judged = judge(sides[0].decision, sides[1].decision, pins, changed)
    return with_proposal(context, judged, old.tree, new.tree).proposal


def _proposed_edits(text: str, location: Location) -> tuple[Declared, ...]:
    """The edits for the new release of a patch.yaml that bump proposes."""
    document = read(text)
    if location == ("edits",) and "variants" in document:
        location = ("variants", len(document["variants"]) - 1, "edits")
    return tuple(edits_at(text, location))
