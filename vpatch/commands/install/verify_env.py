"""The use case `verify-env`: what the vLLM of a Python is, and which patches are in it."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
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
from vpatch.engine.installed import PACKAGE
from vpatch.errors import UsageError, VpatchError
from vpatch.planning.state import State, overall_changes
from vpatch.source.environment import InstalledDistribution
from vpatch.source.memory import ChangedTree
from vpatch.source.resolve import open_distribution
from vpatch.source.spec import EnvironmentSpec, PypiSpec
from vpatch.util.digest import digest_of
from vpatch.util.untrusted import LARGEST_FILE, read_file
from vpatch.workspace.plans import planned

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vpatch.checkout.lockfile import LockFile
    from vpatch.commands.install.environment import InstalledVllm
    from vpatch.commands.install.overlay import OverlayManifest
    from vpatch.engine.import_path import ImportPath
    from vpatch.library.patch import Patch
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
        _released(context, installed.release) as tree,
        alone(installed.info, reading=True),
    ):
        task = context.progress.start(f"Reading {installed.package}")
        # Another vpatch may have changed it while this one waited.
        installed = installed_vllm(python)
        seen = replace(installed, asked=asked)
        verified = _verify(context, tree, seen)
        task.done()
        patches = () if tree is None else _patches_in(context, tree, verified)
        explained = {} if tree is None else _explained(context, tree, verified, patches)
        verified = replace(verified, explained=explained)
    ids = tuple(patch.id for patch in patches)
    return VerifiedEnvironment(python, verified, ids, asked.starting)


@contextmanager
def _released(context: Context, release: str) -> Iterator[CachedTree | None]:
    """Open the archive of a release; None where the index has no such release."""
    with ExitStack() as stack:
        try:
            tree = stack.enter_context(context.tree(PypiSpec("vllm", release)))
        except UsageError as error:
            if error.code != "source.no-such-release":
                raise
            yield None
        else:
            yield tree


def _verify(context: Context, tree: CachedTree | None, vllm: InstalledVllm) -> VerifiedVllm:
    """Compare an installed vLLM with all files that the release's archive has in the package."""
    released = None
    if tree is not None:
        released = {
            path: f"sha256:{tree.records[path].sha256}"
            for path in tree.paths()
            if path.startswith("vllm/")
        }
    return verify(vllm, released, partial(doubts_about_lock, context, vllm, tree))


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
    claim = Claim(manifest.source.digest, manifest.patches, dict(manifest.files))
    with _released(context, release) as tree, _below(context, manifest, installed, tree) as below:
        doubts = doubts_about(context, below, claim, lambda path: path.startswith("vllm/"))
        if manifest.release not in (release, installed.version):
            doubts = (f"it is of vLLM {manifest.release}, and {release} is installed", *doubts)
        return verified_overlay(manifest, asked, _verify(context, tree, installed), doubts)


@contextmanager
def _below(
    context: Context,
    manifest: OverlayManifest,
    installed: InstalledVllm,
    released: CachedTree | None,
) -> Iterator[CachedTree]:
    """Open what an overlay says that its patches are for: a release, or the vLLM below it."""
    if manifest.source.kind != "environment" and released is not None:
        yield released
        return
    spec = EnvironmentSpec("vllm", manifest.source.origin)
    # As `vpatch run` found it: an install that lies there stays.
    one = InstalledDistribution(installed.site, PACKAGE, installed.info.name, installed.version)
    with open_distribution(spec, one, context.cache, context.progress) as tree:
        yield tree


def _explained(
    context: Context, tree: CachedTree, verified: VerifiedVllm, patches: Sequence[Patch]
) -> dict[str, tuple[str, ...]]:
    """The changed files that are exactly what some patches make of the release's."""
    if not patches:
        return {}
    plan = planned(context, patches, tree, to_write=True, findings_for="none")
    changes = overall_changes(plan)
    changed = {*verified.other_files, *(one.path for one in verified.differences)}
    return {
        path: tuple(d.patch.id for d in plan.taken if path in d.changes)
        for path in sorted(changed & changes.keys())
        if verified.digests.get(path) == digest_of(changes[path].after)
    }


def _patches_in(context: Context, tree: CachedTree, verified: VerifiedVllm) -> tuple[Patch, ...]:
    """The patches that the release needs, and that the changed files have."""
    names = [one.path for one in verified.differences]
    names += verified.other_files
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
    return tuple(d.patch for d in plan.decisions if d.state in _IN_IT)
