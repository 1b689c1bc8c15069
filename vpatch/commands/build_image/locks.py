"""Locks to build from: of checkouts, applied where they are not there yet, or kept elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from vpatch.checkout.apply import apply
from vpatch.checkout.drift import drift
from vpatch.checkout.lockfile import LockedImage, LockedTree, LockFile, read_lock
from vpatch.checkout.transaction import writing
from vpatch.commands.audit.usecase import documents_of
from vpatch.errors import UsageError, VpatchError
from vpatch.image.context import DOCUMENTS, Payload, TreePayload, digest_of_lock
from vpatch.image.mode import package_in, refuse_built
from vpatch.planning.state import State
from vpatch.source.tree import LOCK_FILE
from vpatch.util.digest import digest_of
from vpatch.util.files import replace_file
from vpatch.workspace import selection
from vpatch.workspace.checkout import planned_again, refuse_one_folder, refuse_stopping, request_for

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import ExitStack
    from pathlib import Path

    from vpatch.commands.audit.author import Author
    from vpatch.image.base import Choice
    from vpatch.image.inventory import Inventory
    from vpatch.planning.state import Plan
    from vpatch.source.tree import Tree
    from vpatch.workspace.context import Context


# Patches in these states have nothing to do with what is built.
_IDLE = frozenset([State.ABSENT, State.NOT_DECLARED])


@dataclass(frozen=True)
class Locked:
    """The lock of vLLM, where it lies, the plan that it is of, and its checkout if there is one.

    `documents` makes those for scanners, of the packages in the image; see
    `vpatch.image.context.Payload`. `others` are the trees beside vLLM, by the paths of their locks.
    """

    path: Path
    lock: LockFile
    plan: Plan
    checkout: Path | None
    documents: Callable[[Inventory], Mapping[str, str]]
    others: Mapping[Path, TreePayload] = field(default_factory=dict)

    @property
    def states(self) -> dict[str, dict[str, str]]:
        """The states of the patches by tree and id, without those that find nothing there."""
        plans = [self.plan, *(other.plan for other in self.others.values())]
        return {
            plan.pin.tree: {d.patch.id: d.state for d in plan.decisions if d.state not in _IDLE}
            for plan in plans
        }

    def payload(self, image: LockedImage) -> Payload:
        """Return what an image on such a base is to have."""
        trees = {}
        for other in self.others.values():
            locked = LockedTree(
                lock=digest_of_lock(other.lock),
                manifest=digest_of(other.manifest.encode()),
                source=other.lock.source.digest,
                name=other.package,
            )
            known = image.trees.get(other.tree)
            if known is not None and known.source == locked.source:
                places = {"package": known.package, "contents": known.contents}
                locked = locked.model_copy(update=places)
            trees[other.tree] = locked
        image = image.model_copy(update={"trees": trees})
        lock = self.lock.model_copy(update={"image": image})
        return Payload(lock, self.plan, image=image, others=tuple(self.others.values()))

    def refuse_trees(self, choice: Choice) -> None:
        """Refuse trees that cannot be in one image, and pins of a cpu image that had others.

        Raises:
            UsageError: two trees have one package, or pip would install another tree as well.
        """
        packages = ["vllm", *(one.package for one in self.others.values())]
        twice = next((name for name in packages if packages.count(name) > 1), None)
        if twice is not None:
            raise UsageError(
                f"two trees have the package {twice}",
                hint="leave one of them out",
                code="image.other-trees",
            )
        if choice.mode != "cpu" or choice.known is None:
            return
        sources = {one.tree: one.lock.source.digest for one in self.others.values()}
        gone = [
            name
            for name, tree in sorted(choice.known.trees.items())
            if sources.get(name) != tree.source
        ]
        if gone:
            raise UsageError(
                f"the locked image also has another {', '.join(gone)}, and pip's pins name it",
                where=str(self.path),
                hint="use --repin to resolve all packages again",
                code="image.other-trees",
            )

    def keep(self, lock: LockFile) -> None:
        """Write the lock with its base to its checkout; one that is kept elsewhere stays."""
        if self.checkout is not None and lock != self.lock:
            with writing(self.path):
                # git does not see .git: a kill leaves nothing that looks like a user's change.
                replace_file(self.path, lock.dump(), workdir=self.checkout / ".git")


def from_locks(
    context: Context,
    paths: Sequence[Path],
    stack: ExitStack,
    *,
    author: Author | None,
    before_planning: Callable[[], None],
) -> Locked:
    """Locks that are kept somewhere, whose patches must still make what they say.

    One is of vLLM; others are of the trees that its image has beside it. `before_planning` is
    called once the locks are known to be those of one image.

    Raises:
        UsageError: the locks are not those of one image.
        VpatchError: the patches no longer make what a lock says.
    """
    locks = {path: read_lock(path) for path in paths}
    main = _main_of(locks)
    before_planning()
    others = {}
    for path, lock in locks.items():
        tree, new_plan = stack.enter_context(planned_again(context, lock))
        differences = list(drift(lock, new_plan))
        if differences:
            lines = "".join(f"\n    {line}" for line in differences)
            raise VpatchError(
                f"the patches no longer make what the lock says:{lines}",
                where=str(path),
                hint="build without --lock, and keep the new lock",
                code="image.lock-outdated",
            )
        if path == main:
            plan, documents = new_plan, partial(_documents, context, author, tree, new_plan)
        else:
            others[path] = _beside(lock, new_plan, tree)
    return Locked(main, locks[main], plan, None, documents, others)


def _main_of(locks: Mapping[Path, LockFile]) -> Path:
    """Return the path of the lock of vLLM; the others must be those that it names, if it does."""
    by_tree: dict[str, Path] = {}
    for path, lock in locks.items():
        twin = by_tree.setdefault(lock.source.tree, path)
        if twin != path:
            raise _wrong_locks(
                f"this lock and {twin} are both of {lock.source.tree}", path, "leave one out"
            )
    if "vllm" not in by_tree:
        first = next(iter(locks))
        raise _wrong_locks("no lock is of vLLM", first, "give the lock of vLLM as well")
    main = by_tree.pop("vllm")
    image = locks[main].image
    if image is None:
        return main
    again = "build without --lock, and keep the new locks"
    for tree, path in by_tree.items():
        named = image.trees.get(tree)
        if named is None:
            raise _wrong_locks(f"{main} is of an image without {tree}", path, again)
        if named.lock != digest_of_lock(locks[path]):
            raise _wrong_locks(f"it is not the lock of {tree} that {main} names", path, again)
    missing = sorted(image.trees.keys() - by_tree.keys())
    if missing:
        trees = ", ".join(missing)
        hint = f"give the lock of {trees} as well: --lock FILE"
        raise _wrong_locks(f"its image has patches of {trees} as well", main, hint)
    return main


def _wrong_locks(reason: str, path: Path, hint: str) -> UsageError:
    return UsageError(reason, where=str(path), hint=hint, code="image.wrong-locks")


def applied(
    context: Context,
    request: selection.Request,
    checkout: Path | None,
    stack: ExitStack,
    *,
    force: bool,
    author: Author | None,
    before_planning: Callable[[], None],
) -> Locked:
    """What `vpatch apply` leaves, made where it is not there yet.

    `before_planning` is called once it is known what is asked for.
    """
    asked = selection.resolve(request, context.library)
    selection.note_library(context, asked)
    refuse_one_folder(checkout, asked)
    if all(job.spec.tree != "vllm" for job in asked):
        raise UsageError(
            f"an image needs a release of vLLM, and this names {asked[0].spec.tree} alone",
            hint="give --vllm VERSION",
            code="image.not-a-release",
        )
    before_planning()
    requests = [request_for(job, checkout, context, stack) for job in asked]
    plans = [one.plan for one in requests]
    refuse_stopping(plans, asked_for=asked[0].asked_for, strict=asked[0].strict)
    # vLLM first: its lock names the others.
    done = sorted(
        apply(requests, force=force, progress=context.progress),
        key=lambda one: one.lock.source.tree != "vllm",
    )
    main, *others = [(one.lock, one.request) for one in done]
    beside = {
        one.target / LOCK_FILE: _beside(lock, one.plan, one.transaction.tree)
        for lock, one in others
    }
    lock, own = main
    documents = partial(_documents, context, author, own.transaction.tree, own.plan)
    return Locked(own.target / LOCK_FILE, lock, own.plan, own.target, documents, beside)


def _beside(lock: LockFile, plan: Plan, tree: Tree) -> TreePayload:
    """A tree beside vLLM, which gives an image the Python files of its package."""
    package = package_in(lock, tree.paths())
    refuse_built(lock, package)
    return TreePayload(lock, plan, package=package)


def _documents(
    context: Context, author: Author | None, tree: Tree, plan: Plan, inventory: Inventory
) -> dict[str, str]:
    forms = [form for _, form in DOCUMENTS.values()]
    texts = documents_of(context, tree, plan, forms, inventory=inventory, author=author)
    return {path: texts[form] for path, form in DOCUMENTS.values()}
