"""Write patches of a target, or say why there are none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.commands.compat.judgement.release import JudgedRelease, own_part
from vpatch.commands.compat.proposals.draft import drafts_of
from vpatch.commands.compat.proposals.trial import written
from vpatch.commands.compat.surface.collect import surface_of
from vpatch.errors import MissingOptionError, UsageError
from vpatch.source.spec import parse_vllm

if TYPE_CHECKING:
    from pathlib import Path

    from vpatch.commands.compat.result import CompatResult
    from vpatch.commands.compat.target import CompatTarget
    from vpatch.workspace.context import Context


@dataclass(frozen=True)
class CompatProposal:
    """A proposed patch: where it is, and what it does. Without a folder, why there is none."""

    name: str
    folder: Path | None
    text: str


def write_proposals(
    context: Context, target: CompatTarget, result: CompatResult, folder: Path
) -> list[CompatProposal]:
    """Write a patch for each field and each moved name that a release lacks and the base has.

    A patch is written if it holds: it changes the target, a second run changes nothing, and what it
    makes breaks at no further place in the base or in the first release that lacks the name.

    Raises:
        UsageError: there is no base, or a folder is there already.
    """
    if result.base is None:
        raise MissingOptionError(
            "--propose compares with the release that the target is for, and nothing says which",
            hint="give --base VERSION",
        )
    surface = surface_of(target, context.progress)
    own = own_part(target, surface)
    proposals = []
    with context.tree(parse_vllm(result.base)) as tree:
        base = JudgedRelease(tree, own, surface, context.answers)
        drafts = list(drafts_of(base, target, surface, result))
    for draft in drafts:
        place = folder / draft.id
        if place.exists():
            raise UsageError(
                "there is something already",
                where=str(place),
                hint="name another folder with --propose, or remove it",
                code="compat.proposal-exists",
            )
        why = written(context, target, draft, result.base, place)
        proposals.append(CompatProposal(draft.id, None if why else place, why or draft.text))
    context.answers.save()
    return proposals
