"""Whether the library's patches make what a lock or an overlay in an environment says.

Anybody can write such a file. It is true if the patches, applied to the release in memory, make the
same bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.checkout.commits import changed_files
from vpatch.commands.install.original import original_tree
from vpatch.errors import VpatchError
from vpatch.planning.state import State, overall_changes
from vpatch.source.spec import EnvironmentSpec
from vpatch.source.tree import BUILT
from vpatch.workspace.checkout import spec_of_pin
from vpatch.workspace.plans import planned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from vpatch.checkout.lockfile import LockFile
    from vpatch.commands.install.environment import InstalledVllm
    from vpatch.source.tree import Tree
    from vpatch.workspace.context import Context

# Digests of files before and after, by their paths; before is None for a new file.
Files = dict[str, tuple[str | None, str]]


@dataclass(frozen=True)
class Claim:
    """What a file says of a vLLM.

    Attributes:
        source: the digest of the release's archive, or of the build.
        patches: the digests of the patches, by their ids.
        files: what all patches together change.
    """

    source: str
    patches: Mapping[str, str]
    files: Files


def doubts_about(
    context: Context,
    tree: Tree,
    claim: Claim,
    is_meant: Callable[[str], bool] = lambda _: True,
) -> tuple[str, ...]:
    """Return why a claim about a release is not proven, in sentences; none if it is.

    `is_meant` says which files of the tree the claim is about.
    """
    if claim.source != tree.pin.digest:
        other = f"the archive of {tree.pin.label}" if tree.pin.kind == "pypi" else tree.pin.label
        return (f"it is of {claim.source}, and {other} is another",)
    if not claim.patches:
        return ("it names no patch",)
    unknown = sorted(claim.patches.keys() - context.library.patches.keys())
    if unknown:
        return (f"the library has no {', '.join(unknown)}: name their folder with --patches-dir",)
    try:
        patches = context.library.load(claim.patches)
    except VpatchError as error:
        return (f"the patches cannot be read: {str(error).splitlines()[0]}",)
    plan = planned(context, patches, tree, to_write=True, findings_for="none")
    changes = changed_files(overall_changes(plan))
    computed = {file.path: (file.before, file.after) for file in changes if is_meant(file.path)}
    return (
        *(
            f"{d.patch.id} of the library is another patch"
            for d in plan.decisions
            if d.patch.digest != claim.patches[d.patch.id]
        ),
        *(
            f"{d.patch.id} is {d.state} for {tree.pin.label}: {d.reason}"
            for d in plan.decisions
            if d.state is not State.NEEDED
        ),
        *_differing(claim.files, computed),
    )


def doubts_about_lock(
    context: Context, vllm: InstalledVllm, tree: Tree | None, lock: LockFile
) -> tuple[str, ...]:
    """Return why a lock in an environment is not proven; see `doubts_about`.

    Args:
        context: what all use cases share.
        vllm: the distribution that has the lock.
        tree: the release that its version names; None where there is no such release.
        lock: what it says.
    """
    patches = {patch.id: patch.digest for patch in lock.patches}
    if len(patches) != len(lock.patches):
        return ("it names a patch twice",)
    source = lock.source
    files = {file.path: (file.before, file.after) for file in lock.files}
    claim = Claim(source.digest, patches, files)
    if source.tree == "vllm" and source.kind in BUILT:
        return _doubts_about_build(context, vllm, lock, claim)
    if (source.tree, source.kind) != ("vllm", "pypi"):
        return (f"it is of a {source.kind}, {source.origin}, and not of a release",)
    if tree is None or source.version != tree.pin.version:
        return (f"it is of {source.version}, and {vllm.version} is installed",)
    return doubts_about(context, tree, claim)


def _doubts_about_build(
    context: Context, vllm: InstalledVllm, lock: LockFile, claim: Claim
) -> tuple[str, ...]:
    """Return why a lock of a build is not proven: its files are read, not those of a release."""
    spec = spec_of_pin(lock.source, context.library.folder)
    try:
        # Where it lies may have another name now; the digest tells.
        with (
            original_tree(context, spec, vllm)
            if isinstance(spec, EnvironmentSpec)
            else context.tree(spec, lock.source.digest)
        ) as tree:
            return doubts_about(context, tree, claim)
    except VpatchError as error:
        return (f"what it is of cannot be read: {str(error).splitlines()[0]}",)


def _differing(claimed: Files, computed: Files) -> Iterator[str]:
    for path in sorted({*claimed, *computed}):
        if path not in computed:
            yield f"{path}: no patch changes it"
        elif path not in claimed:
            yield f"{path}: a patch changes it, and that is not said"
        elif claimed[path] != computed[path]:
            yield f"{path}: the patches make other bytes"
