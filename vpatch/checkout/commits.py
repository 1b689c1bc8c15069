"""A plan as commits, and what came of it as a lock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vpatch.checkout.new_lock import NewFile, NewLock, NewPatch, NewSkipped, plain_pin
from vpatch.git.checkout import NewCommit
from vpatch.planning.state import overall_changes
from vpatch.util.digest import digest_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from vpatch.planning.state import Change, Decision, Plan


def commits_of(plan: Plan) -> list[NewCommit]:
    """One commit for each patch that is needed, in order."""
    return [
        NewCommit(_message(d), {path: change.after for path, change in d.changes.items()})
        for d in plan.taken
    ]


def lock_of(
    plan: Plan,
    recipe: str | None,
    base: str,
    commits: Sequence[str],
    *,
    carried: Iterable[str] = (),
    chosen: Iterable[str] = (),
    security: str | None = None,
) -> NewLock:
    """The lock of a plan whose patches became `commits` on top of `base`.

    `carried` are ids of patches that the source had already, which the checkout goes on to carry.
    `chosen` are those that somebody named. `security` is how backports were asked for.
    """
    taken = {decision.patch.id for decision in plan.taken}
    return NewLock(
        recipe=recipe,
        source=plain_pin(plan.pin),
        base=base,
        head=commits[-1] if commits else base,
        patches=tuple(
            NewPatch(
                id=decision.patch.id,
                digest=decision.patch.digest,
                variant=decision.variant,
                commit=commit,
                files=changed_files(decision.changes),
            )
            for decision, commit in zip(plan.taken, commits, strict=True)
        ),
        skipped=tuple(
            NewSkipped(d.patch.id, d.state.value) for d in plan.decisions if d.patch.id not in taken
        ),
        files=changed_files(overall_changes(plan)),
        carried=tuple(sorted(carried)),
        chosen=tuple(chosen),
        security=security,
    )


def changed_files(changes: Mapping[str, Change]) -> tuple[NewFile, ...]:
    """Return what changes mean for each file, in the order of the paths."""
    return tuple(
        NewFile(
            path=path,
            before=None if change.before is None else digest_of(change.before),
            after=digest_of(change.after),
        )
        for path, change in sorted(changes.items())
    )


def _message(decision: Decision) -> str:
    """Return a message that says only what the patch's digest covers.

    So the same digest gives the same commit. Threads upstream are not in the digest, because they
    change while the patch stays what it is; `vpatch show` prints them.
    """
    patch = decision.patch
    trailers = [f"Vpatch-Id: {patch.id}", f"Vpatch-Digest: {patch.digest}"]
    if decision.variant is not None:
        trailers.append(f"Vpatch-Variant: {decision.variant}")
    return "\n\n".join([patch.title, patch.why.strip(), "\n".join(trailers)]) + "\n"
