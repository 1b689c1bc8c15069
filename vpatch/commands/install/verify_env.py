"""The use case `verify-env`: what the vLLM of a Python is, and which patches are in it."""

from __future__ import annotations

from contextlib import contextmanager
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
from vpatch.source.environment import InstalledDistribution
from vpatch.source.resolve import open_distribution
from vpatch.source.spec import EnvironmentSpec
from vpatch.util.untrusted import LARGEST_FILE, read_file
from vpatch.workspace.build_comparison import PatchesInFiles, patches_in, release_tree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vpatch.checkout.lockfile import LockFile
    from vpatch.commands.install.environment import InstalledVllm
    from vpatch.commands.install.overlay import OverlayManifest
    from vpatch.engine.import_path import ImportPath
    from vpatch.source.entry import CachedTree
    from vpatch.workspace.context import Context


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
        release_tree(context, installed.release) as tree,
        alone(installed.info, reading=True),
    ):
        task = context.progress.start(f"Reading {installed.package}")
        # Another vpatch may have changed it while this one waited.
        installed = installed_vllm(python)
        seen = replace(installed, asked=asked)
        verified = _verify(context, tree, seen)
        task.done()
        inside = PatchesInFiles() if tree is None else _patches_in(context, tree, verified)
        verified = replace(verified, explained=inside.explained)
    ids = tuple(patch.id for patch in inside.patches)
    return VerifiedEnvironment(python, verified, ids, asked.starting)


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
    with (
        release_tree(context, release) as tree,
        _below(context, manifest, installed, tree) as below,
    ):
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


def _patches_in(context: Context, tree: CachedTree, verified: VerifiedVllm) -> PatchesInFiles:
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
    return patches_in(context, tree, changed)
