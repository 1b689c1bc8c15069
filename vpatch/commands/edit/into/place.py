"""Where a new patch goes among the others, and what these mean with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.commands.edit.states import states_between
from vpatch.planning.plan import plan
from vpatch.planning.relations import order
from vpatch.planning.state import State

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from vpatch.commands.edit.into.ground import Ground
    from vpatch.commands.edit.states import StateChange
    from vpatch.library.patch import Patch
    from vpatch.workspace.context import Context


@dataclass(frozen=True)
class PlaceInSeries:
    """Where a new patch goes.

    Attributes:
        recipe: the recipe of the project that is to have it; None without one.
        after: the patch that it comes behind there.
        failure: why it does not apply there; None if it does.
        series: the other patches, without it and with it.
    """

    recipe: Path | None
    after: str | None
    failure: str | None
    series: tuple[StateChange, ...]

    @property
    def stops(self) -> bool:
        """Whether the new patch or another one stops an apply now."""
        return self.failure is not None or any(one.is_worse for one in self.series)


def place_for(context: Context, ground: Ground, new: Patch) -> PlaceInSeries:
    """The first place for a new patch at which nothing stops: behind those below it, or last."""
    places = list(_places(context, ground, new))
    return next((one for one in places if not one.stops), places[0])


def _places(context: Context, ground: Ground, new: Patch) -> Iterator[PlaceInSeries]:
    library, all_patches = context.library, [*ground.below, *ground.later]
    path = library.own_recipes.get(ground.recipe or "")
    ids = () if path is None else library.recipe_selection(path).patches
    listed = [one.id for one in all_patches if one.id in ids]
    below = [one.id for one in ground.below if one.id in ids]
    if path is None or not below:
        # Without a recipe, patches come in the order of their ids.
        by_id = sorted([*all_patches, new], key=lambda one: one.id)
        yield _place(context, ground, new, order(by_id))
        return
    for after in dict.fromkeys([below[-1], listed[-1]]):
        at = 1 + next(number for number, one in enumerate(all_patches) if one.id == after)
        patches = order([*all_patches[:at], new, *all_patches[at:]])
        yield _place(context, ground, new, patches, path, after)


def _place(
    context: Context,
    ground: Ground,
    new: Patch,
    patches: Sequence[Patch],
    recipe: Path | None = None,
    after: str | None = None,
) -> PlaceInSeries:
    decided = plan(patches, ground.tree, answers=context.answers, shapes=False)
    own = next(one for one in decided.decisions if one.patch.id == new.id)
    failure = None if own.state is State.NEEDED else f"{own.state}: {own.reason}"
    return PlaceInSeries(recipe, after, failure, states_between(ground.plan, decided))
