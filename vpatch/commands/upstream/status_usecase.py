"""What became of a patch's threads upstream."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.commands.upstream.status import Known, PatchStatus
from vpatch.errors import ExitCode, VpatchError, distinct
from vpatch.github.threads import UnknownThreadError
from vpatch.workspace import selection
from vpatch.workspace.plans import planned

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vpatch.github.threads import Answer, Threads
    from vpatch.library.patch import Patch
    from vpatch.planning.state import Decision, Plan
    from vpatch.workspace.context import Context


@dataclass(frozen=True)
class UpstreamStatus:
    """A row for each patch that names threads; `note` says why answers are old, if they are."""

    rows: tuple[PatchStatus, ...]
    note: str | None

    @property
    def errors(self) -> tuple[VpatchError, ...]:
        """Why threads are unknown; an error that several patches meet is there once."""
        return tuple(distinct(error for row in self.rows for _, error in row.unknown))

    @property
    def exit_code(self) -> ExitCode:
        """What needs a person goes before what a retry may cure."""
        if any(row.needs_a_person for row in self.rows):
            return ExitCode.FINDINGS
        return ExitCode.ENVIRONMENT if self.errors else ExitCode.CLEAN


def upstream_status(context: Context, request: selection.Request) -> UpstreamStatus:
    """Ask what became of the threads of each patch.

    Raises:
        UsageError: a version, a recipe or a patch is not there.
        VpatchError: a source cannot be read.
    """
    rows: list[PatchStatus] = []
    answers: dict[str, Answer | VpatchError] = {}
    with ExitStack() as stack:
        threads = context.threads(stack)
        selections = selection.resolve(request, context.library, whole_library=True, unsettled=True)
        selection.note_library(context, selections)
        for job in selections:
            with context.tree(job.spec, job.expected_digest) as tree:
                plan = planned(context, job.patches, tree, to_write=False, alone=job.alone)
            named = [d for d in plan.decisions if d.patch.declaration.upstream]
            _ask_threads(context, threads, [d.patch for d in named], answers)
            rows += [_patch_status(plan, decision, answers) for decision in named]
    unreachable = threads.unreachable
    note = f"{unreachable.what}; these are its last answers" if unreachable else None
    return UpstreamStatus(tuple(rows), note)


def _ask_threads(
    context: Context,
    threads: Threads,
    patches: Sequence[Patch],
    answers: dict[str, Answer | VpatchError],
) -> None:
    """Ask for all threads that were not asked for yet; one that fails does not hide the others."""
    refs = dict.fromkeys(one.ref for p in patches for one in p.declaration.upstream)
    task = context.progress.start("Asking for threads upstream")
    for ref in [ref for ref in refs if ref not in answers]:
        try:
            answers[ref] = threads.answer(ref)
        except VpatchError as error:
            answers[ref] = error
    task.done()


def _patch_status(
    plan: Plan, decision: Decision, answers: Mapping[str, Answer | VpatchError]
) -> PatchStatus:
    known, unknown = [], []
    for one in decision.patch.declaration.upstream:
        answer = answers[one.ref]
        as_declared = Known.as_declared(one) if isinstance(answer, UnknownThreadError) else None
        if as_declared is not None:
            known.append(as_declared)
        elif isinstance(answer, VpatchError):
            unknown.append((one, answer))
        else:
            known.append(Known(one, answer))
    return PatchStatus(plan, decision, tuple(known), tuple(unknown))
