"""What became of a patch's threads upstream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vpatch.errors import VpatchError
from vpatch.upstream.status import Known, PatchStatus
from vpatch.upstream.threads import UnknownThreadError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vpatch.app.context import Context
    from vpatch.library.patch import Patch
    from vpatch.planning.state import Decision, Plan
    from vpatch.upstream.threads import Answer, Threads


def ask_threads(
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


def patch_status(
    plan: Plan, decision: Decision, answers: Mapping[str, Answer | VpatchError]
) -> PatchStatus:
    known, unknown = [], []
    for one in decision.patch.declaration.upstream:
        answer = answers[one.ref]
        told = Known.as_declared(one) if isinstance(answer, UnknownThreadError) else None
        if told is not None:
            known.append(told)
        elif isinstance(answer, VpatchError):
            unknown.append((one, answer))
        else:
            known.append(Known(one, answer))
    return PatchStatus(plan, decision, tuple(known), tuple(unknown))
