"""Finding the checkout that diff and check are about, and planning again what its lock says."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from vpatch.checkout.apply import ApplyRequest
from vpatch.checkout.transaction import ELSEWHERE, CheckoutTransaction, writing
from vpatch.errors import ConflictingOptionsError, UsageError, VpatchError, combine
from vpatch.planning.shape import describe_shape
from vpatch.planning.state import State, none_taken
from vpatch.source.spec import (
    EnvironmentSpec,
    FolderSpec,
    GitSpec,
    ImageSpec,
    PypiSpec,
    TreeSpec,
    wheel_named,
)
from vpatch.source.tree import BUILT, LOCK_FILE
from vpatch.util.home import expanded
from vpatch.workspace.context import refuse_link
from vpatch.workspace.plans import planned

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from contextlib import ExitStack
    from pathlib import Path

    from vpatch.checkout.lockfile import LockedPin, LockFile
    from vpatch.library.patch import Patch
    from vpatch.planning.state import Decision, Plan
    from vpatch.source.entry import CachedTree
    from vpatch.workspace.context import Context
    from vpatch.workspace.selection import Selection


def find_lock(
    context: Context, version: str | None, checkout: Path | None, lock: Path | None
) -> tuple[Path, LockFile]:
    """The lock named, that of the checkout named, or of the only checkout there is.

    Raises:
        UsageError: it is not clear which is meant.
    """
    # `vpatch apply` comes to this module too, and to write a lock needs no pydantic.
    from vpatch.checkout.lockfile import read_lock  # noqa: PLC0415

    if lock is not None:
        return lock, read_lock(lock)
    if checkout is None:
        checkout = _only_checkout(context.checkouts, version)
    return checkout / LOCK_FILE, read_lock(checkout / LOCK_FILE)


def _only_checkout(checkouts: Path, version: str | None) -> Path:
    folders = sorted(path.parent for path in checkouts.glob(f"*/{LOCK_FILE}"))
    if version is not None:
        prefix = f"vllm-{version}"
        folders = [p for p in folders if p.name == prefix or p.name.startswith(f"{prefix}.")]
    if len(folders) == 1:
        return folders[0]
    if not folders:
        which = f"of vLLM {version} " if version else ""
        raise UsageError(
            f"there is no checkout {which}in {checkouts}",
            hint="run vpatch apply first, or name its folder with --checkout",
            code="checkout.not-found",
        )
    names = ", ".join(map(str, folders))
    raise UsageError(
        f"there are several checkouts: {names}",
        hint="name one with --vllm or --checkout",
        code="checkout.several",
    )


@contextmanager
def planned_again(
    context: Context, lock: LockFile, patches: Sequence[Patch] | None = None
) -> Iterator[tuple[CachedTree, Plan]]:
    """The tree that a lock pins, and a plan of patches, by default those of the lock.

    Raises:
        UntrustedError: code of a patch may not run, so that there is nothing to compare.
    """
    if patches is None:
        patches = context.library.load([patch.id for patch in lock.patches])
    # As above, and what is remembered needs no libcst.
    from vpatch.planning import plan as planning  # noqa: PLC0415

    with context.tree(spec_of_pin(lock.source, context.library.folder), lock.source.digest) as tree:
        plan = planning.plan(patches, tree)
        context.require_trust(d.patch for d in plan.decisions if d.state is State.UNTRUSTED)
        yield tree, plan


def refuse_stopping(plans: Sequence[Plan], *, asked_for: bool, strict: bool = False) -> None:
    """Refuse plans that need a decision first; see `Plan.stopping`.

    Raises:
        VpatchError: there is such a thing, and it names all of them; or patches were `asked_for`,
            and none is left to apply.
    """
    causes: dict[tuple[str, State, str], list[Decision]] = {}
    for plan in plans:
        for decision in plan.stopping(asked_for=asked_for, strict=strict):
            # One reason for several patches is one error.
            reason = why_stopping(decision).replace(decision.patch.id, "")
            causes.setdefault((plan.pin.label, decision.state, reason), []).append(decision)
    errors = [
        VpatchError(
            f"{_listed_ids(decisions)} {state}: {why_stopping(decisions[0])}",
            where=label,
            hint=f"see vpatch status --why {decisions[0].patch.id}",
            code="checkout.patch-stops",
        )
        for (label, state, _), decisions in causes.items()
    ]
    if errors:
        raise combine(errors)
    if asked_for and none_taken(plans):
        raise VpatchError(
            f"there is no patch to apply: {states_of(plans)}",
            where=", ".join(plan.pin.label for plan in plans),
            hint="name a patch that is needed there, or name none",
            code="checkout.nothing-to-apply",
        )


def note_unsure(context: Context, plans: Iterable[Plan]) -> None:
    """Say which states of a build may be wrong: its code is not that of a release on record."""
    for decision in (d for plan in plans if plan.pin.kind in BUILT for d in plan.decisions):
        if decision.shape is not None and decision.may_be_wrong:
            shape = describe_shape(decision.shape)
            context.progress.note(f"{decision.patch.id} is {decision.state}: {shape}")


def _listed_ids(decisions: Sequence[Decision]) -> str:
    ids = ", ".join(decision.patch.id for decision in decisions)
    return f"{ids} {'is' if len(decisions) == 1 else 'are all'}"


def why_stopping(decision: Decision) -> str:
    """Return the reason of a decision, and its new shape if it would not stop otherwise."""
    if decision.shape is None or decision.missed:
        return decision.reason
    return f"{decision.reason}; {describe_shape(decision.shape)}"


def states_of(plans: Iterable[Plan]) -> str:
    """Return which patch is in which state, in a line."""
    return ", ".join(f"{d.patch.id} is {d.state}" for plan in plans for d in plan.decisions)


def spec_of_pin(source: LockedPin, root: Path) -> TreeSpec:
    """Return the source that a pin names; `root` is the folder that paths are seen from."""
    match source.kind:
        case "pypi":
            if source.version is None:
                from vpatch.checkout.lockfile import LockError  # noqa: PLC0415 - as above

                raise LockError(
                    "it is not a lock: it names a release without a version",
                    hint="make it anew with vpatch apply --force",
                    code="checkout.lock-without-version",
                )
            return PypiSpec(source.tree, source.version)
        case "git":
            return GitSpec(source.tree, source.origin, source.digest.partition(":")[2], root)
        case "folder":
            return FolderSpec(source.tree, source.origin, root)
        case "wheel":
            return wheel_named(source.tree, source.origin, root)
        case "environment":
            return EnvironmentSpec(source.tree, source.origin, root)
        case "image":
            return ImageSpec(source.tree, source.origin)


def refuse_one_folder(checkout: Path | None, asked: Sequence[Selection]) -> None:
    """Refuse one folder for the checkouts of several trees.

    Raises:
        UsageError: there is such a folder, and several selections.
    """
    if checkout is not None and len(asked) > 1:
        raise ConflictingOptionsError(
            "--checkout names one folder, but there are several trees",
            hint="leave out --checkout, and each tree gets a folder in .vpatch",
        )


def request_for(
    job: Selection, checkout: Path | None, context: Context, stack: ExitStack
) -> ApplyRequest:
    tree = stack.enter_context(context.tree(job.spec, job.expected_digest))
    if checkout is None:
        hide_from_git(context.checkouts)
    where = real_folder(checkout) if checkout else refuse_link(context.checkouts / tree.pin.label)
    source = context.project.folder / expanded(tree.pin.origin)
    if tree.pin.kind != "pypi" and source.resolve() == where.resolve():
        raise UsageError(
            "the checkout would be written over its own source",
            where=str(where),
            hint="name another folder with --checkout",
            code="checkout.source-is-target",
        )
    transaction = stack.enter_context(CheckoutTransaction(where, tree, context.progress))
    plan = planned(context, job.patches, tree, to_write=True, before=transaction.begin)
    return ApplyRequest(plan, job.recipe, transaction, job.chosen, job.security)


def hide_from_git(checkouts: Path) -> None:
    """Keep checkouts out of the repository that they may lie in, as virtual environments do."""
    with writing(checkouts):
        try:
            checkouts.mkdir()
        except FileExistsError:
            return  # by an earlier apply, or one that runs beside this
        (checkouts / ".gitignore").write_text("*\n", encoding="ascii")


def real_folder(checkout: Path, elsewhere: str = ELSEWHERE) -> Path:
    """The folder behind a link or a dot: it is replaced as a whole.

    `elsewhere` is how the user names another one.

    Raises:
        WrongTargetError: no folder can have this path.
        UnwritableTargetError: permissions are missing.
    """
    # Ask first: where links lead in a circle, `resolve` raises RuntimeError.
    with writing(checkout, elsewhere), suppress(FileNotFoundError):
        checkout.stat()
    return checkout.resolve() if checkout.is_symlink() or checkout.name in {"", ".."} else checkout
