"""The use case `verify-env`: what the vLLM of a Python is, and which patches are in it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from vpatch.commands.install.environment import installed_vllm
from vpatch.commands.install.journal import alone
from vpatch.commands.install.lock_proof import Claim, doubts_about, doubts_about_lock
from vpatch.commands.install.overlay import VerifiedOverlay, read_manifest, verified_overlay
from vpatch.commands.install.summary import summary_of
from vpatch.commands.install.verification import VerifiedVllm, verify
from vpatch.engine.asking import python_named
from vpatch.engine.import_path import ask_import_path
from vpatch.errors import UsageError, VpatchError
from vpatch.planning.state import State
from vpatch.source.memory import ChangedTree
from vpatch.source.spec import PypiSpec
from vpatch.util.untrusted import LARGEST_FILE, read_file
from vpatch.workspace.plans import planned

if TYPE_CHECKING:
    from vpatch.checkout.lockfile import LockFile
    from vpatch.commands.install.environment import InstalledVllm
    from vpatch.commands.install.overlay import OverlayManifest
    from vpatch.engine.import_path import ImportPath
    from vpatch.source.entry import CachedTree
    from vpatch.workspace.context import Context

# In these states, the code has what the patch would make.
_IN_IT = {State.UPSTREAMED, State.APPLIED}


@dataclass(frozen=True)
class VerifiedEnvironment:
    """What a Python has.

    Attributes:
        python: as the user named it.
        vllm: what its vLLM is.
        patches: those that the code of changed files has, by their ids.
        starting: the files whose code runs at each start of this Python; nobody has judged it.
    """

    python: str
    vllm: VerifiedVllm | VerifiedOverlay
    patches: tuple[str, ...] = ()
    starting: tuple[str, ...] = ()


def verify_env(context: Context, python: str) -> VerifiedEnvironment:
    """Compare the vLLM of a Python with its release, and with what vpatch put there.

    Raises:
        UsageError: it is not a Python, has no vLLM, or one that no distribution lists.
        VpatchError: the release cannot be read.
    """
    # With PYTHONPATH, as a server would find it: an overlay comes first there.
    asked = ask_import_path(python_named(python), python, isolated=False)
    manifest = None if asked.package is None else read_manifest(asked.package)
    installed = installed_vllm(python)
    if manifest is not None:
        overlay = _verified_overlay(context, manifest, asked, installed)
        return VerifiedEnvironment(python, overlay, starting=asked.starting)
    package = None if asked.package is None else asked.package.resolve()
    if package != installed.package.resolve():
        raise UsageError(
            f"PYTHONPATH makes this Python take vLLM from {package or asked.origin}",
            where=python,
            hint="unset PYTHONPATH to verify what is installed",
            code="wheel.editable",
        )
    with (
        context.tree(PypiSpec("vllm", installed.release)) as tree,
        alone(installed.info, reading=True),
    ):
        task = context.progress.start(f"Reading {installed.package}")
        # Another vpatch may have changed it while this one waited.
        installed = installed_vllm(python)
        seen = replace(installed, asked=asked)
        verified = _verify(context, tree, seen)
        task.done()
        patches = _patches_in(context, tree, verified)
    return VerifiedEnvironment(python, verified, patches, asked.starting)


def _verify(context: Context, tree: CachedTree, vllm: InstalledVllm) -> VerifiedVllm:
    """Compare an installed vLLM with all files that the release's archive has in the package."""
    released = {
        path: f"sha256:{tree.records[path].sha256}"
        for path in tree.paths()
        if path.startswith("vllm/")
    }
    return verify(vllm, released, partial(doubts_about_lock, context, tree))


def patched_environment(context: Context, python: str) -> LockFile:
    """Return the lock of a vLLM that is patched where it is installed, and as its lock says.

    Raises:
        UsageError: neither `vpatch install` nor a wheel of vpatch's patched it.
        VpatchError: its files are not those that its lock names, or the lock is not proven.
    """
    vllm = verify_env(context, python).vllm
    lock = vllm.lock if isinstance(vllm, VerifiedVllm) else None
    if lock is None:
        raise UsageError(
            "its vLLM has no lock of vpatch's, so it does not say what is in it",
            where=python,
            hint="run vpatch install, or name it with --engine and give the patches",
            code="wheel.not-patched",
        )
    if not vllm.is_clean:
        if vllm.state == "unproven":
            what = f"what its lock says is not proven: {vllm.doubts[0]}"
        elif vllm.state == "changed":
            what = "its vLLM is not as its lock says"
        else:
            what = summary_of(vllm)
        raise VpatchError(
            what,
            where=python,
            hint=f"see which files differ: vpatch verify-env {python}",
            code="wheel.files-differ",
        )
    return lock


def _verified_overlay(
    context: Context, manifest: OverlayManifest, asked: ImportPath, installed: InstalledVllm
) -> VerifiedOverlay:
    """Compare an overlay with the release that is installed below it."""
    release = installed.release
    claim = Claim(manifest.source, manifest.patches, dict(manifest.files))
    with context.tree(PypiSpec("vllm", release)) as tree:
        doubts = doubts_about(context, tree, claim, lambda path: path.startswith("vllm/"))
        if manifest.release != release:
            doubts = (f"it is of vLLM {manifest.release}, and {release} is installed", *doubts)
        return verified_overlay(manifest, asked, _verify(context, tree, installed), doubts)


def _patches_in(context: Context, tree: CachedTree, verified: VerifiedVllm) -> tuple[str, ...]:
    """The patches that the release needs, and that the changed files have."""
    names = [one.path for one in verified.differences]
    names += verified.other_files if verified.is_fork else ()
    if verified.state == "unproven" and verified.lock is not None:
        names += [file.path for file in verified.lock.files]
    changed = {
        name: read_file(verified.found.site / name, LARGEST_FILE)
        for name in names
        if name in tree.package_files and verified.digests.get(name) is not None
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
    ids = [patch.id for patch in touching]
    plan = planned(context, touching, there, to_write=False, findings_for="none", alone=ids)
    return tuple(d.patch.id for d in plan.decisions if d.state in _IN_IT)
