"""What each patch means for one version or for several."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from vpatch.app import selection
from vpatch.planning.plan_cache import cached_plan, kept_plan, reasons_to_decide_anew

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vpatch.app.context import Context
    from vpatch.planning.state import Plan
    from vpatch.source.entry import CachedTree


@dataclass(frozen=True)
class StatusRow:
    """What the patches mean for one tree.

    `moved` is a recipe that is asked against another vLLM than its own. `strict` says that a new
    shape is a finding. `diffs` are lines by patch: how a new shape differs from the nearest known
    one, where that was asked for.
    """

    plan: Plan
    recipe: str | None
    moved: bool
    strict: bool = False
    diffs: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def has_findings(self) -> bool:
        """Whether a patch stops an apply, contradicts its claim, or is on a new shape if strict."""
        return any(
            d.state.stops or d.disagreement or (self.strict and d.new_shape)
            for d in self.plan.decisions
        )


def status(
    context: Context,
    versions: Sequence[str | None],
    request: selection.Request,
    *,
    located: bool,
    explained: bool = False,
) -> list[StatusRow]:
    """Decide a request for each version; None means the version that a recipe pins.

    With `located`, the findings have line numbers, and nothing is cached. With `explained`, new
    shapes come with a diff.

    Raises:
        VpatchError: the request names nothing that is there, or a source cannot be read.
    """
    rows: list[StatusRow] = []
    slow: set[str] = set()
    for number, version in enumerate(versions):
        # Further trees are the same for each version.
        trees = request.trees if number == 0 else ()
        asked = replace(request, vllm=version, trees=trees)
        # The question is what the library means for a version, not what a recipe takes of it.
        found = selection.resolve(asked, context.library, whole_library=True)
        for job in found if number == 0 else found[:1]:
            for reason in reasons_to_decide_anew(job.patches):
                if reason not in slow:
                    slow.add(reason)
                    context.progress.note(reason)
            diffs: dict[str, tuple[str, ...]] = {}
            made = None if located or explained else _kept(context, job, request.patches)
            if made is None:
                with context.tree(job.spec, job.expected_digest) as tree:
                    made = _plan(context, job, tree, request.patches, located=located)
                    diffs = _diffs(context, made, tree) if explained else {}
            rows.append(StatusRow(made, job.recipe, version is not None, job.strict, diffs))
    return rows


def _diffs(context: Context, made: Plan, tree: CachedTree) -> dict[str, tuple[str, ...]]:
    # What is remembered needs no libcst, which takes 0.3 s to import.
    from vpatch.app.shape_diff import shape_diff  # noqa: PLC0415

    return {d.patch.id: tuple(shape_diff(context, d, tree)) for d in made.decisions}


def remarks(rows: Sequence[StatusRow]) -> list[str]:
    """Why decisions stop an apply or contradict a claim: a line for all versions alike."""
    versions: dict[tuple[str, str, str], list[str]] = {}
    for row in rows:
        pin = row.plan.pin
        for decision in row.plan.decisions:
            reason = decision.reason if decision.state.stops else None
            for text in filter(None, (decision.disagreement, reason)):
                said = decision.patch.id, pin.tree, text.replace(f" in {pin.label}", "")
                versions.setdefault(said, []).append(pin.label.removeprefix(f"{pin.tree}-"))
    return [
        f"{patch_id} in {tree} {', '.join(those)}: {text}"
        for (patch_id, tree, text), those in versions.items()
    ]


def _kept(context: Context, job: selection.Selection, chosen: Sequence[str]) -> Plan | None:
    """The plan that an earlier run has kept for a cached release: its tree need not be opened."""
    pin = context.cached_pin(job.spec, job.expected_digest)
    if pin is None:
        return None
    alone = selection.decided_alone(job, chosen)
    return kept_plan(context.plans, job.patches, pin, alone=alone)


def _plan(
    context: Context,
    job: selection.Selection,
    tree: CachedTree,
    chosen: Sequence[str],
    *,
    located: bool,
) -> Plan:
    alone = selection.decided_alone(job, chosen)
    if located:
        # As above.
        from vpatch.planning.plan import plan  # noqa: PLC0415

        return plan(job.patches, tree, located=True, reparse=False, alone=alone)
    return cached_plan(context.plans, job.patches, tree, to_write=False, alone=alone)
