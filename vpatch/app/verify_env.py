"""The use case `verify-env`: what the vLLM of a Python is, and which patches are in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.app.planned import planned
from vpatch.app.wheel import python_digests
from vpatch.errors import UsageError, VpatchError
from vpatch.planning.state import State
from vpatch.source.memory import ChangedTree
from vpatch.source.spec import PypiSpec
from vpatch.util.untrusted import LARGEST_FILE, read_file
from vpatch.wheel.environment import installed_vllm, package_of
from vpatch.wheel.overlaid import VerifiedOverlay, verified_overlay
from vpatch.wheel.verifying import VerifiedVllm, verify

if TYPE_CHECKING:
    from vpatch.app.context import Context
    from vpatch.checkout.lockfile import LockFile
    from vpatch.source.entry import CachedTree

# In these states, the code has what the patch would make.
_IN_IT = {State.UPSTREAMED, State.APPLIED}


@dataclass(frozen=True)
class VerifiedEnvironment:
    """What a Python has. `patches` are those that the code of changed files has, by their ids."""

    python: str
    vllm: VerifiedVllm | VerifiedOverlay
    patches: tuple[str, ...] = ()


def verify_env(context: Context, python: str) -> VerifiedEnvironment:
    """Compare the vLLM of a Python with its release, and with what vpatch put there.

    Raises:
        UsageError: it is not a Python, has no vLLM, or one that no distribution lists.
        VpatchError: the release cannot be read.
    """
    # With PYTHONPATH, as a server would find it: an overlay comes first there.
    package, _ = package_of(python, isolated=False)
    overlay = None if package is None else verified_overlay(package)
    if overlay is not None:
        return VerifiedEnvironment(python, overlay)
    found = installed_vllm(python)
    if package is not None and package != found.package.resolve():
        raise UsageError(
            f"PYTHONPATH makes this Python take vLLM from {package}",
            where=python,
            hint="unset PYTHONPATH to verify what is installed",
            code="wheel.editable",
        )
    with context.tree(PypiSpec("vllm", found.release)) as tree:
        task = context.progress.start(f"Reading {found.package}")
        verified = verify(found, python_digests(tree))
        task.done()
        patches = _patches_in(context, tree, verified)
    return VerifiedEnvironment(python, verified, patches)


def patched_environment(context: Context, python: str) -> LockFile:
    """Return the lock of a vLLM that is patched where it is installed, and as its lock says.

    Raises:
        UsageError: neither `vpatch install` nor a wheel of vpatch's patched it.
        VpatchError: its files are not those that its lock names.
    """
    found = verify_env(context, python).vllm
    lock = found.lock if isinstance(found, VerifiedVllm) else None
    if lock is None:
        raise UsageError(
            "its vLLM has no lock of vpatch's, so it does not say what is in it",
            where=python,
            hint="run vpatch install, or name it with --engine and give the patches",
            code="wheel.not-patched",
        )
    if not found.is_clean:
        raise VpatchError(
            "its vLLM is not as its lock says",
            where=python,
            hint=f"see which files differ: vpatch verify-env {python}",
            code="wheel.files-differ",
        )
    return lock


def _patches_in(context: Context, tree: CachedTree, verified: VerifiedVllm) -> tuple[str, ...]:
    """The patches that the release needs, and that the changed files have."""
    names = [one.path for one in verified.differences]
    names += verified.other_files if verified.is_fork else ()
    changed = {
        name: read_file(verified.found.site / name, LARGEST_FILE)
        for name in names
        if name in tree.package_files and verified.digests[name] is not None
    }
    if not changed:
        return ()
    patches = [p for p in context.library.load_all() if "vllm" in p.relations.needed_in]
    everything = [patch.id for patch in patches]
    pristine = planned(context, patches, tree, to_write=True, findings_for="none", alone=everything)
    touching = [
        d.patch
        for d in pristine.decisions
        if d.state is State.NEEDED and not changed.keys().isdisjoint(d.changes)
    ]
    if not touching:
        return ()
    there = ChangedTree(tree, changed, frozenset())
    made = planned(
        context,
        touching,
        there,
        to_write=False,
        findings_for="none",
        alone=[patch.id for patch in touching],
    )
    return tuple(d.patch.id for d in made.decisions if d.state in _IN_IT)
