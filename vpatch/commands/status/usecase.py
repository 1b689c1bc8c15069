"""What each patch means for one version or for several."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from vpatch.planning.names import plain_name
from vpatch.planning.plan_cache import reasons_to_decide_anew
from vpatch.planning.state import State
from vpatch.workspace import selection
from vpatch.workspace.plan_pool import plans_for

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vpatch.planning.state import Decision, FindingsFor, Plan
    from vpatch.workspace.context import Context


@dataclass(frozen=True)
class StatusRow:
    """What the patches mean for one tree.

    `moved` is a recipe that is asked against another vLLM than its own. `strict` says that a state
    that is unsure is a finding. `diffs` are lines by patch: how a new shape differs from the
    nearest known one, or what is around it, where that was asked for. `changed` are the patches
    whose code differs between the recipe's own vLLM, `since`, and this one, and that both need;
    None without such a comparison.
    """

    plan: Plan
    recipe: str | None
    moved: bool
    strict: bool = False
    diffs: Mapping[str, Sequence[str]] = field(default_factory=dict)
    changed: frozenset[str] | None = None
    since: str | None = None

    @property
    def has_findings(self) -> bool:
        """Whether a patch stops an apply, contradicts its claim, or is unsure if strict.

        What a recipe lists stops an apply of that recipe, too, if it is not declared. Where only
        the sources tell, nothing is contradicted.
        """
        is_asked_for = self.recipe is not None and not self.moved
        return any(
            d.state.stops
            or (is_asked_for and d.state.is_open)
            or (d.disagreement and not d.needs_sources)
            or (self.strict and d.stops_if_strict)
            for d in self.plan.decisions
        )


def status(
    context: Context,
    versions: Sequence[str | None],
    request: selection.Request,
    *,
    why: str | None = None,
    findings_for: FindingsFor | None = None,
) -> list[StatusRow]:
    """Decide a request for each version; None means the version that a recipe pins.

    `why` names the one patch to explain, decided after the patches before it: all its findings have
    line numbers, a new shape comes with a diff, and nothing is cached. Otherwise `findings_for`
    says which decisions have findings; by default those that stop an apply, where there is one
    tree, and none of several.

    Raises:
        VpatchError: the request names nothing that is there, or a source cannot be read.
    """
    jobs: list[tuple[selection.Selection, bool]] = []
    slow: dict[str, None] = {}
    for number, version in enumerate(versions):
        # Further trees are the same for each version.
        trees = request.trees if number == 0 else ()
        asked = replace(request, vllm=version, trees=trees)
        # The question is what the library means for a version, not what a recipe takes of it.
        selections = _selections(context, asked, why)
        selection.note_library(context, selections)
        for job in selections if number == 0 else selections[:1]:
            slow |= dict.fromkeys(reasons_to_decide_anew(job.patches))
            jobs.append((job, version is not None))
    for reason in slow:
        context.progress.note(reason)
    if why is not None:
        rows = [_explained_row(context, job, why, moved) for job, moved in jobs]
    else:
        # What a table does not show need not be found.
        findings_for = findings_for or ("stopping" if len(jobs) == 1 else "none")
        plans = plans_for(context, [job for job, _ in jobs], findings_for=findings_for)
        rows = [
            StatusRow(plan, job.recipe, moved, job.strict)
            for (job, moved), plan in zip(jobs, plans, strict=True)
        ]
    return _compare_with_pinned(context, request, rows)


def _selections(
    context: Context, request: selection.Request, why: str | None
) -> list[selection.Selection]:
    selections = selection.resolve(request, context.library, whole_library=True, unsettled=True)
    if why is None:
        return selections
    # In a series, patches before it may have changed its places.
    series = [job for job in selections if why in {patch.id for patch in job.patches}]
    if series and not any(job.alone for job in series):
        return series
    named = replace(request, patches=(why,))
    return selection.resolve(named, context.library, whole_library=True, unsettled=True)


def _compare_with_pinned(
    context: Context, request: selection.Request, rows: list[StatusRow]
) -> list[StatusRow]:
    """Compare the code of each patch with that in the vLLM that the recipe pins, if it is shown."""
    if request.recipe is None:
        return rows
    recipe = context.library.recipe_selection(context.library.recipe(request.recipe))
    source = recipe.vllm.source
    pinned = next(
        (r.plan for r in rows if (r.plan.pin.tree, r.plan.pin.version) == ("vllm", source)), None
    )
    if pinned is None:
        return rows
    before = {d.patch.id: _code(d) for d in pinned.decisions if d.state is State.NEEDED}
    return [
        replace(
            row,
            changed=frozenset(
                d.patch.id
                for d in row.plan.decisions
                if d.state is State.NEEDED and before.get(d.patch.id, _code(d)) != _code(d)
            ),
            since=pinned.pin.label,
        )
        if row.plan is not pinned and row.plan.pin.tree == pinned.pin.tree
        else row
        for row in rows
    ]


def _code(decision: Decision) -> Counter[tuple[str, str]]:
    """The definitions that a patch reads, in whatever file."""
    definitions = decision.shape.definitions if decision.shape else {}
    # A statement has no name, and a file that is not Python has one definition.
    return Counter((plain_name(key), digest) for key, digest in definitions.items())


def remarks(rows: Sequence[StatusRow]) -> list[str]:
    """Why decisions stop an apply or contradict a claim: a line for all versions alike."""
    versions: dict[tuple[str, str, str], list[str]] = {}
    for row in rows:
        pin = row.plan.pin
        for decision in row.plan.decisions:
            reason = decision.reason if decision.state.stops else None
            for text in filter(None, (decision.disagreement, reason)):
                key = decision.patch.id, pin.tree, text.replace(f" in {pin.label}", "")
                versions.setdefault(key, []).append(pin.label.removeprefix(f"{pin.tree}-"))
    return [
        f"{patch_id} in {tree} {', '.join(those)}: {text}"
        for (patch_id, tree, text), those in versions.items()
    ]


def _explained_row(
    context: Context,
    job: selection.Selection,
    why: str,
    moved: bool,  # noqa: FBT001
) -> StatusRow:
    # What is remembered needs no libcst, which takes 0.3 s to import.
    from vpatch.commands.status.shape_diff import shape_diff  # noqa: PLC0415
    from vpatch.planning.plan import plan as plan_anew  # noqa: PLC0415

    with context.tree(job.spec, job.expected_digest) as tree:
        plan = plan_anew(job.patches, tree, findings_for="all", alone=job.alone)
        # Of those before it, only what they change counts here.
        plan = replace(plan, decisions=tuple(d for d in plan.decisions if d.patch.id == why))
        diffs = {d.patch.id: tuple(shape_diff(context, d, tree)) for d in plan.decisions}
    return StatusRow(plan, job.recipe, moved, job.strict, diffs)
