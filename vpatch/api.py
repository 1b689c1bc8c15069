"""The public API: what a script or a notebook may call.

Functions take a `Context`, return typed results, and print nothing. What goes wrong is a
`VpatchError` with `what`, `where`, `hint` (what to do next), `code` and `exit_code`. Names that are
not in `__all__` may change with any release.

Functions that are about a vLLM and patches for it take a `Request`: `plan(context, request)`. In
its place, a release or a folder is the vLLM, and keywords are the other fields, of `RequestFields`:
`plan(context, "0.23", patches=["mtp-proj-prefix"])`. Keywords beside a `Request` take the place of
its fields.

Hints name the options of the commands. Where a hint says `--vllm 0.23`, give `vllm="0.23"` here;
`--patch`, `--tree` and `--patches-dir` are `patches`, `trees` and `patches_dirs`.
"""

from __future__ import annotations

import importlib
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypedDict, TypeVar

from vpatch.checkout.apply import Applied
from vpatch.checkout.lockfile import LockFile
from vpatch.commands.apply import check as _check
from vpatch.commands.apply import diff as _diff
from vpatch.commands.apply import usecase as _apply
from vpatch.commands.apply.check import CheckResult
from vpatch.commands.status import usecase as _status
from vpatch.errors import ExitCode, UnavailableError, UsageError, VpatchError
from vpatch.planning.state import Change, Decision, Finding, Plan, State
from vpatch.progress import Progress, Silent
from vpatch.trust.decision import UntrustedError
from vpatch.util.extras import require as _require
from vpatch.util.recursion import allow_deep_syntax as _allow_deep_syntax
from vpatch.workspace import selection as _selection
from vpatch.workspace.checkout import refuse_stopping as _refuse_stopping
from vpatch.workspace.context import Context
from vpatch.workspace.context import below_project as _below_project
from vpatch.workspace.context import refuse_link as _refuse_link
from vpatch.workspace.plans import planned as _planned
from vpatch.workspace.selection import Request

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Unpack

    from vpatch.commands.audit.result import AuditResult
    from vpatch.commands.audit.usecase import AuditRequest
    from vpatch.commands.bench.usecase import BenchOptions, BenchResult
    from vpatch.commands.build_image.usecase import BuildOptions, BuiltImage, PlannedBuild
    from vpatch.commands.bump.conflict.abort import AbortedBump
    from vpatch.commands.bump.conflict.settle import SettledBump
    from vpatch.commands.bump.usecase import BumpOptions, BumpResult
    from vpatch.commands.compat.result import CompatResult
    from vpatch.commands.compat.usecase import CompatRequest
    from vpatch.commands.evidence.usecase import VerifiedEvidence
    from vpatch.commands.importing.lift.usecase import LiftedPatch
    from vpatch.commands.importing.request import ImportedPatch, ImportRequest
    from vpatch.commands.install.usecase import InstallResult
    from vpatch.commands.install.verify_env import VerifiedEnvironment
    from vpatch.commands.install.wheel import WheelOptions
    from vpatch.commands.install.wheels.build import MadeWheel
    from vpatch.commands.proofs.releases import ReleaseTest
    from vpatch.commands.proofs.shape_records import RecordedShapes
    from vpatch.commands.proofs.style import Style
    from vpatch.commands.proofs.usecase import ProvenTest
    from vpatch.commands.smoke.usecase import SmokeOptions, SmokeResult
    from vpatch.commands.source.usecase import SourceCheckout
    from vpatch.commands.upstream.status_usecase import UpstreamStatus
    from vpatch.image.verify import Verified
    from vpatch.workspace.examples import ExampleResult

# Only some scripts need these, and most of them take their time to import.
_LATER = {
    "vpatch.commands.audit.result": ("AuditResult",),
    "vpatch.commands.audit.usecase": ("AuditRequest",),
    "vpatch.commands.bench.usecase": ("BenchOptions", "BenchResult"),
    "vpatch.commands.build_image.usecase": ("BuildOptions", "BuiltImage", "PlannedBuild"),
    "vpatch.commands.bump.conflict.abort": ("AbortedBump",),
    "vpatch.commands.bump.conflict.settle": ("SettledBump",),
    "vpatch.commands.bump.usecase": ("BumpOptions", "BumpResult"),
    "vpatch.commands.compat.result": ("CompatResult",),
    "vpatch.commands.compat.usecase": ("CompatRequest",),
    "vpatch.commands.evidence.usecase": ("VerifiedEvidence",),
    "vpatch.commands.importing.lift.usecase": ("LiftedPatch",),
    "vpatch.commands.importing.request": ("ImportRequest", "ImportedPatch"),
    "vpatch.commands.install.usecase": ("InstallResult",),
    "vpatch.commands.install.verify_env": ("VerifiedEnvironment",),
    "vpatch.commands.install.wheel": ("WheelOptions",),
    "vpatch.commands.install.wheels.build": ("MadeWheel",),
    "vpatch.commands.proofs.releases": ("ReleaseTest",),
    "vpatch.commands.proofs.shape_records": ("RecordedShapes",),
    "vpatch.commands.proofs.style": ("Style",),
    "vpatch.commands.proofs.usecase": ("ProvenTest",),
    "vpatch.commands.smoke.usecase": ("SmokeOptions", "SmokeResult"),
    "vpatch.commands.source.usecase": ("SourceCheckout",),
    "vpatch.commands.upstream.status_usecase": ("UpstreamStatus",),
    "vpatch.image.verify": ("Verified",),
    "vpatch.workspace.examples": ("ExampleResult",),
}

__all__ = [
    "AbortedBump",
    "Applied",
    "AuditRequest",
    "AuditResult",
    "BenchOptions",
    "BenchResult",
    "BuildOptions",
    "BuiltImage",
    "BumpOptions",
    "BumpResult",
    "Change",
    "CheckResult",
    "CompatRequest",
    "CompatResult",
    "Context",
    "Decision",
    "ExampleResult",
    "ExitCode",
    "Finding",
    "ImportRequest",
    "ImportedPatch",
    "InstallResult",
    "LiftedPatch",
    "LockFile",
    "MadeWheel",
    "Plan",
    "PlannedBuild",
    "Progress",
    "ProvenTest",
    "RecordedShapes",
    "ReleaseTest",
    "Request",
    "RequestFields",
    "SettledBump",
    "SmokeOptions",
    "SmokeResult",
    "SourceCheckout",
    "State",
    "Style",
    "UnavailableError",
    "UntrustedError",
    "UpstreamStatus",
    "UsageError",
    "Verified",
    "VerifiedEnvironment",
    "VerifiedEvidence",
    "VpatchError",
    "WheelOptions",
    "abort_bump",
    "apply",
    "audit",
    "audit_document",
    "bench",
    "build_image",
    "bump",
    "check",
    "compat",
    "diff",
    "import_patches",
    "install",
    "judge_style",
    "lift_patch",
    "list_evidence",
    "open_context",
    "plan",
    "plan_image",
    "record_shapes",
    "run_behaviour_tests",
    "run_examples",
    "run_tests_on_recipe",
    "run_tests_on_releases",
    "settle_bump",
    "smoke",
    "source",
    "status",
    "uninstall",
    "upstream_status",
    "verify",
    "verify_env",
    "verify_evidence",
    "wheel",
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        for module, names in _LATER.items():
            if name in names:
                return getattr(importlib.import_module(module), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


_T = TypeVar("_T")


class RequestFields(TypedDict, total=False):
    """The fields of a `Request`, as keywords of the functions that take one.

    Attributes:
        vllm: a release of vLLM (`0.23`, `0.23.0`, `latest`), a folder, or URL@REF. A `Path` is
            always a folder.
        recipe: a recipe, by name or file.
        trees: a list of further trees, such as `vllm-ascend==0.23.0`.
        patches: a list of ids; by default those of the recipe, or all but those on request: the
            project's, or the library's if the project has none.
        strict: what writes or runs something refuses a patch whose code is not that of a release on
            record; a recipe may say so.
        security: `all` for every backport of a security fix that the code needs, too.
        library: the library's patches too, in a project that has its own.
    """

    vllm: str | Path | None
    recipe: str | Path | None
    trees: Iterable[str]
    patches: Iterable[str]
    strict: bool
    security: Literal["all"] | None
    library: bool


def open_context(
    folder: Path | str | None = None,
    *,
    patches_dirs: Iterable[Path | str] = (),
    recipes_dirs: Iterable[Path | str] = (),
    offline: bool = False,
    trust_everything: bool = False,
    progress: Progress | None = None,
) -> Context:
    """Open what the other functions share: a project, its library, the cache and the sources.

    Args:
        folder: vpatch looks for the project here and upwards; by default in the current folder.
        patches_dirs: a list of further folders with patches.
        recipes_dirs: a list of further folders with recipes.
        offline: use the cache alone.
        trust_everything: run a project's code without asking whether the user trusts it.
        progress: is told of steps that take long; by default nothing is.

    Returns:
        The context. Use it in a `with` block, or call its `close`: it may hold temporary copies of
        patches. A relative folder keeps its meaning when the current folder changes later.

    Raises:
        UsageError: `folder` is not a folder, or a single folder was given in place of a list.

    vpatch raises Python's recursion limit to 5000 where it is lower: syntax trees are deep.

    Examples:
        >>> context = open_context(offline=True)
        >>> sorted(context.library.recipes)[-1]
        'vllm-0.23'
    """
    _allow_deep_syntax()
    start = Path(folder or ".").absolute()
    if not start.is_dir():
        raise UsageError(
            "this is not a folder" if start.exists() else "there is no such folder",
            where=str(start),
            hint="give open_context the folder of a project, or nothing for the current folder",
            code="vpatch.not-a-folder",
        )
    return Context(
        tuple(Path(one).absolute() for one in _list("patches_dirs", patches_dirs)),
        tuple(Path(one).absolute() for one in _list("recipes_dirs", recipes_dirs)),
        offline,
        trust_everything,
        progress or Silent(),
        start,
    )


def status(
    context: Context,
    request: Request | str | Path | None = None,
    *versions: str | Path,
    **fields: Unpack[RequestFields],
) -> list[Plan]:
    """Decide what each patch means for one version or for several; nothing is written.

    Args:
        context: from `open_context`.
        request: the vLLM and its patches, or only the vLLM: a release, a folder, or URL@REF. A
            recipe's own vLLM counts where no version is given.
        *versions: more of vLLM, for the same patches.
        **fields: `recipe`, `patches` and the others of `RequestFields`.

    Returns:
        A plan for each tree. Its decisions have a state, a reason, and the names of the files that
        they would change. Those that stop an apply have findings with lines of the pristine files;
        for the changes themselves, see `plan`. `sureness` says how sure a state is: `on record`,
        `known shape`, `changed around`, or `new shape`.

    Raises:
        UsageError: a version, a recipe or a patch is not there, or a string is in place of a list.
        VpatchError: a source cannot be read.

    Examples:
        >>> (plan,) = status(open_context(), "0.23", patches=["mtp-proj-prefix"])
        >>> [(decision.patch.id, str(decision.state)) for decision in plan.decisions]
        [('mtp-proj-prefix', 'needed')]
    """
    asked = _request(request, fields)
    every = [asked.vllm, *map(_version, versions)]
    chosen: list[str | None] = [*filter(None, every)]
    rows = _status.status(context, chosen or [None], asked, findings_for="stopping")
    return [row.plan for row in rows]


def plan(
    context: Context,
    request: Request | str | Path | None = None,
    **fields: Unpack[RequestFields],
) -> list[Plan]:
    """Plan what `apply` would write; each decision has the changed files with their bytes.

    Args:
        context: from `open_context`.
        request: the vLLM and its patches, or only the vLLM: a release, a folder, or URL@REF.
        **fields: `recipe`, `patches` and the others of `RequestFields`.

    Returns:
        A plan for each tree.

    Raises:
        UsageError: a version, a recipe or a patch is not there, or a string is in place of a list.
        VpatchError: a source cannot be read.

    Examples:
        >>> (made,) = plan(open_context(), "0.23", patches=["mtp-proj-prefix"])
        >>> sorted(made.taken[0].changes)[0]
        'vllm/models/deepseek_v4/amd/mtp.py'
    """
    plans = []
    for chosen in _selection.resolve(_request(request, fields), context.library):
        with context.tree(chosen.spec, chosen.expected_digest) as tree:
            plans.append(_planned(context, chosen.patches, tree, to_write=True))
    return plans


def apply(
    context: Context,
    request: Request | str | Path | None = None,
    *,
    checkout: Path | str | None = None,
    force: bool = False,
    **fields: Unpack[RequestFields],
) -> list[Applied]:
    """Apply patches to pinned trees, a commit each, and write a lock file. All of it, or nothing.

    Args:
        context: from `open_context`.
        request: the vLLM and its patches, or only the vLLM: a release, a folder, or URL@REF.
        checkout: the folder to write; by default `.vpatch/TREE-VERSION` in the project.
        force: overwrite a checkout that holds changes by its user.
        **fields: `recipe`, `patches` and the others of `RequestFields`.

    Returns:
        For each tree its lock, and whether the checkout was created, replaced or unchanged.

    Raises:
        UsageError: a version, a recipe or a patch is not there, or a string is in place of a list.
        VpatchError: a patch cannot be applied, no patch is left to apply, or the checkout cannot
            be written or holds changes.
    """
    done = _apply.apply_patches(context, _request(request, fields), _path(checkout), force=force)
    if done.refused:
        plans = [one.plan for one in done.requests]
        _refuse_stopping(plans, asked_for=done.asked_for, strict=done.strict)
    return list(done.applied)


def check(
    context: Context,
    vllm: str | None = None,
    *,
    checkout: Path | str | None = None,
    lock: Path | str | None = None,
    strict: bool = False,
) -> CheckResult:
    """Apply the patches of a lock again, in memory, and compare every byte.

    Args:
        context: from `open_context`.
        vllm: the version of the checkout, where a project has several.
        checkout: the checkout's folder.
        lock: a lock kept elsewhere; without a checkout, only the patches are compared with it.
        strict: a patch whose code is not that of a release on record is a difference.

    Returns:
        What differs from the lock, and what to do next.

    Raises:
        UsageError: it is not clear which checkout is meant.
        VpatchError: the lock or a source cannot be read.
    """
    if lock is not None and vllm is not None:
        raise UsageError(
            "lock and vllm both name a lock",
            hint="give one of the two",
            code="vpatch.lock-named-twice",
        )
    return _check.check(
        context,
        vllm,
        _path(checkout),
        _path(lock),
        strict=strict,
    )


def diff(
    context: Context,
    *patches: str,
    vllm: str | None = None,
    checkout: Path | str | None = None,
) -> bytes:
    """Return what the patches of a checkout change, as a unified diff.

    Args:
        context: from `open_context`.
        patches: ids; by default all patches of the checkout, in one diff.
        vllm: the version of the checkout, where a project has several.
        checkout: the checkout's folder.

    Raises:
        UsageError: the checkout has no such patch, or it is not clear which checkout is meant.
        VpatchError: the lock or a source cannot be read.
    """
    return b"".join(_diff.diff(context, patches, vllm, _path(checkout)))


def verify(context: Context, image: str, *, lock: Path | str | None = None) -> Verified:
    """Compare an image with its lock; it is pulled if it is not here. Needs a Docker Engine.

    Args:
        context: from `open_context`.
        image: a tag, an id, or NAME@sha256:DIGEST.
        lock: what the image must have; by default the lock in the image.

    Returns:
        The problems that were found, and what could not be asked.

    Raises:
        UnavailableError: the extra `image` is not installed, or there is no Docker Engine.
        VpatchError: there is no such image, or the lock cannot be read.
    """
    _require("image", "vpatch.api.verify")
    from vpatch.commands.build_image import verify as _verify

    return _verify.verify(context, image, _path(lock))


def build_image(
    context: Context,
    request: Request | str | Path | None = None,
    *,
    options: BuildOptions | None = None,
    **fields: Unpack[RequestFields],
) -> BuiltImage:
    """Apply patches, build an image from the lock, and verify it. Needs a Docker Engine.

    Args:
        context: from `open_context`.
        request: the vLLM and its patches, or only the vLLM: a release, a folder, or URL@REF.
        options: the base, the mode, the tags and more; or locks to build from, without a request.
        **fields: `recipe`, `patches` and the others of `RequestFields`.

    Returns:
        The image, its base and its lock.

    Raises:
        UsageError: a version, a recipe or a patch is not there, arguments contradict each other, or
            a string is in place of a list.
        UnavailableError: the extra `image` is not installed, or there is no Docker Engine.
        VpatchError: a patch cannot be applied, no mode fits, or the build or a push failed.
    """
    _require("image", "vpatch.api.build_image")
    from vpatch.commands.build_image import usecase

    asked = _request(request, fields)
    return usecase.apply_and_build(context, asked, options or usecase.BuildOptions())


def plan_image(
    context: Context,
    request: Request | str | Path | None = None,
    *,
    options: BuildOptions | None = None,
    **fields: Unpack[RequestFields],
) -> PlannedBuild:
    """Apply patches, and return what `build_image` would build. Docker is not asked.

    Args:
        context: from `open_context`.
        request: the vLLM and its patches, or only the vLLM: a release, a folder, or URL@REF.
        options: as for `build_image`.
        **fields: `recipe`, `patches` and the others of `RequestFields`.

    Returns:
        The mode, the base, and the files that would be put over those of the base.

    Raises:
        UsageError: a version, a recipe or a patch is not there, arguments contradict each other, or
            a string is in place of a list.
        UnavailableError: the extra `image` is not installed.
        VpatchError: a patch cannot be applied, or no mode fits.
    """
    _require("image", "vpatch.api.plan_image")
    from vpatch.commands.build_image import usecase

    asked = _request(request, fields)
    return usecase.plan_build(context, asked, options or usecase.BuildOptions())


def wheel(
    context: Context,
    request: Request | str | Path | None = None,
    *,
    options: WheelOptions | None = None,
    **fields: Unpack[RequestFields],
) -> MadeWheel:
    """Make a wheel of vLLM with the patched files, from a published wheel.

    Args:
        context: from `open_context`.
        request: a release of vLLM and its patches, or only the release.
        options: the published wheel, if not that of the index, and the folder for the new one.
        **fields: `recipe`, `patches` and the others of `RequestFields`.

    Returns:
        The path of the wheel, its version, and what it is made of.

    Raises:
        UsageError: a version, a recipe or a patch is not there, arguments contradict each other, or
            a string is in place of a list.
        UnavailableError: the extra `audit` is not installed.
        VpatchError: a patch cannot be applied, or the wheel is not a published one.
    """
    _require("audit", "vpatch.api.wheel")
    from vpatch.commands.install import wheel as wheels

    return wheels.wheel(context, _request(request, fields), options or wheels.WheelOptions())


def install(
    context: Context,
    request: Request | str | Path | None = None,
    *,
    python: Path | str | None = None,
    **fields: Unpack[RequestFields],
) -> InstallResult:
    """Install patched files over the vLLM of a Python environment. Nothing of it may run then.

    Args:
        context: from `open_context`.
        request: a release of vLLM and its patches, or only the release.
        python: whose vLLM is patched; by default the Python that runs this.
        **fields: `recipe`, `patches` and the others of `RequestFields`.

    Returns:
        The environment, the lock and the files; `outcome` is installed, replaced or unchanged.

    Raises:
        UsageError: a version, a recipe or a patch is not there, arguments contradict each other, or
            a string is in place of a list.
        VpatchError: a patch cannot be applied, or the files are not those of the release.
    """
    from vpatch.commands.install import usecase

    return usecase.install(context, _request(request, fields), _python(python))


def uninstall(python: Path | str | None = None) -> InstallResult:
    """Restore the files that `install` replaced.

    Args:
        python: whose vLLM is restored; by default the Python that runs this.

    Returns:
        The environment, the lock that it had, and the files.

    Raises:
        UsageError: the Python has no vLLM, or nothing is installed there.
        VpatchError: a file was changed since.
    """
    from vpatch.commands.install import usecase

    return usecase.uninstall(_python(python))


def verify_env(context: Context, python: Path | str | None = None) -> VerifiedEnvironment:
    """Compare the vLLM of a Python with its release, and with what vpatch installed there.

    Args:
        context: from `open_context`.
        python: whose vLLM is meant; by default the Python that runs this.

    Returns:
        What the vLLM is; `vllm.is_clean` says that every file is as it should be.

    Raises:
        UsageError: it is not a Python, or has no vLLM.
        VpatchError: the release cannot be read.
    """
    from vpatch.commands.install import verify_env as verifying

    return verifying.verify_env(context, _python(python))


def source(
    context: Context,
    folder: Path | str,
    vllm: str | Path | None = None,
    *,
    tree: str | None = None,
) -> SourceCheckout:
    """Write the plain source of a vLLM to a new or empty folder, as a git checkout to edit.

    `import_patches` makes a patch of the edits, and knows which release they are for.

    Args:
        context: from `open_context`.
        folder: the folder to write.
        vllm: a release of vLLM, a folder, or URL@REF.
        tree: a plugin or a library in its place, such as `NAME==VERSION`.

    Returns:
        The folder, and what it is a checkout of. `outcome` says whether it was there already.

    Raises:
        UsageError: the folder holds something else, or no source is named.
        VpatchError: it is such a checkout, and was changed or is of another source; or the source
            cannot be read.
    """
    from vpatch.commands.source import usecase

    root = Path(os.path.relpath(context.project.folder))
    spec = _selection.one_tree(_version(vllm), tree, root, "source")
    return usecase.check_out_source(context, spec, Path(folder))


def import_patches(
    context: Context, request: ImportRequest, *, output_dir: Path | str | None = None
) -> list[ImportedPatch]:
    """Convert diffs, commits or a modified tree into patches, and check that they do the same.

    Args:
        context: from `open_context`.
        request: the source, the vLLM that it is for, and how it is imported.
        output_dir: the folder for the patches; by default `patches` in the project.

    Returns:
        The patches that were written. `needs_a_person` says that one is not all of its source.

    Raises:
        UsageError: the source cannot be read or does what no patch can do, options exclude each
            other, or a patch of that id is there already.
        VpatchError: a tree cannot be read, or a patch would not do what the source does.
    """
    from vpatch.commands.importing import usecase

    return usecase.import_patches(context, request, _folder_of(context, output_dir, "patches"))


def lift_patch(
    context: Context, patch: str, vllm: str | Path | None = None, *, tree: str | None = None
) -> LiftedPatch:
    """Turn the edits by text of a patch into edits by meaning, where these give the same.

    Args:
        context: from `open_context`.
        patch: the id of a patch of the project.
        vllm: a vLLM that the patch applies to.
        tree: a plugin or a library in its place, such as `NAME==VERSION`.

    Returns:
        What became of each edit. The patch is written.

    Raises:
        UsageError: there is no such patch in the project, or it does not apply there.
        VpatchError: a source cannot be read.
    """
    from vpatch.commands.importing.lift import usecase
    from vpatch.commands.importing.request import release_named

    return usecase.lift_patch(context, patch, release_named(_version(vllm), tree))


def bump(
    context: Context,
    to: str | Path,
    recipes: Iterable[str] = (),
    *,
    clone: Path | str | None = None,
    github: bool = False,
    output: Path | str | None = None,
    write: BumpOptions | None = None,
) -> BumpResult:
    """Decide what a new release of vLLM means for the patches of recipes, and write the change.

    Args:
        context: from `open_context`.
        to: the new vLLM: a release, a folder, or URL@REF.
        recipes: a list of names; by default all recipes of the project.
        clone: a clone of vLLM that names the upstream commits that changed the code.
        github: whether GitHub names them.
        output: a file that gets the report, FILE.md or FILE.html.
        write: how the change becomes a branch of the project; None writes none.

    Returns:
        The report, with a verdict for each patch; the branch and the pull request, if any.

    Raises:
        UsageError: a recipe is not there, or the change cannot be written.
        UnavailableError: an extra is not installed.
        VpatchError: something cannot be read or written, or a proof failed.
    """
    from vpatch.commands.bump import usecase
    from vpatch.workspace.upstream_history import CommitsFrom

    return usecase.bump(
        context,
        _list("recipes", recipes),
        str(_version(to)),
        CommitsFrom(_path(clone), github),
        output=_path(output),
        write=write,
    )


def settle_bump(context: Context, options: BumpOptions) -> SettledBump:
    """End a bump whose branch waited for a person: `vpatch bump --continue`.

    Args:
        context: from `open_context`; the branch is checked out.
        options: `proof`, `engine`, `pull` and `repository` count.

    Returns:
        The new commits, the settled recipes and patches, and the pull request, if any.

    Raises:
        UsageError: no bump waits here, or something is not committed.
        VpatchError: a patch does not fit yet, or a proof failed.
    """
    from vpatch.commands.bump.conflict import settle

    return settle.settle_bump(context, options)


def abort_bump(context: Context) -> AbortedBump:
    """Remove the branch of a bump that waits for a person: `vpatch bump --abort`.

    Args:
        context: from `open_context`.

    Returns:
        The branch that is gone, its last commit, and the branch that is checked out.

    Raises:
        UsageError: no bump waits, several do, or a change of yours would be lost.
    """
    from vpatch.commands.bump.conflict import abort

    return abort.abort_bump(context)


def audit(context: Context, request: AuditRequest) -> AuditResult:
    """Decide which security advisories concern a vLLM, from its code.

    Args:
        context: from `open_context`.
        request: what is audited: releases, a recipe, a checkout, a Python, or an image.

    Returns:
        For each vLLM a finding for each advisory. `has_open()` says that one affects it.

    Raises:
        UsageError: the request names nothing, several things, or what is not there.
        VpatchError: a source, an environment, an image or the advisories cannot be read.
    """
    from vpatch.commands.audit import usecase

    return usecase.audit(context, request)


def audit_document(result: AuditResult, form: str, *, author: str | None = None) -> str:
    """Return an audit as a document for scanners.

    Args:
        result: from `audit`.
        form: `openvex`, `cyclonedx`, `sarif` or `markdown`.
        author: who answers for a VEX document: `NAME` or `NAME <ADDRESS>`. The other two have none.

    Returns:
        The text of the document, dated now.

    Raises:
        UsageError: there is no such form, or `author` is not a name.
        UnavailableError: the extra `audit` is not installed, which CycloneDX needs.
    """
    from vpatch.commands.audit import documents
    from vpatch.commands.audit.author import Author

    who = None if author is None else Author.parse(author)
    return documents.document_of(result, form, author=who)


def compat(context: Context, request: CompatRequest) -> CompatResult:
    """Judge what code outside vLLM takes from it, in some releases. Nothing of it is run.

    Args:
        context: from `open_context`.
        request: the target and the releases.

    Returns:
        The items of the target. Each has a verdict for each release; `summary` says which releases
        the target fits, and `breaks(release)` are the items that break it.

    Raises:
        UsageError: there is no such target, or nothing says which releases to judge.
        VpatchError: a release or the target cannot be read.
    """
    from vpatch.commands.compat import usecase
    from vpatch.commands.compat.target import read_target

    return usecase.compat(context, read_target(context, request.target), request)


def upstream_status(
    context: Context,
    request: Request | str | Path | None = None,
    **fields: Unpack[RequestFields],
) -> UpstreamStatus:
    """Ask what became of each patch's threads upstream, and propose what to do with the patch.

    Args:
        context: from `open_context`; an offline one takes GitHub's last answers.
        request: the vLLM and its patches, or only the vLLM: a release, a folder, or URL@REF.
        **fields: `recipe`, `patches` and the others of `RequestFields`.

    Returns:
        A row for each patch that names a thread, with its advice.

    Raises:
        UsageError: a version, a recipe or a patch is not there, or a string is in place of a list.
        UnavailableError: the extra `upstream` is not installed, and the context is not offline.
        VpatchError: a source cannot be read.
    """
    if not context.offline:
        _require("upstream", "vpatch.api.upstream_status")
    from vpatch.commands.upstream import status_usecase

    return status_usecase.upstream_status(context, _request(request, fields))


def run_examples(context: Context, *patches: str) -> dict[str, list[ExampleResult]]:
    """Run the examples of patches. Each runs twice, and the second run must change nothing.

    Args:
        context: from `open_context`.
        *patches: ids; by default all patches of the project and of the library.

    Returns:
        The results, by the ids of the patches.

    Raises:
        UsageError: a patch is not there, or has no example that shows its edits.
    """
    from vpatch.workspace import examples

    return {
        patch.id: list(examples.run_examples(patch))
        for patch in context.library.load_named(patches)
    }


def judge_style(context: Context, *patches: str, vllm: str | None = None) -> list[Style]:
    """Run upstream's own hooks for format and lint on what patches make of a release.

    Args:
        context: from `open_context`.
        *patches: ids; by default all patches of the project and of the library.
        vllm: releases, with commas between them; by default, for each patch of the project, the
            newest one that a recipe pins for it.

    Returns:
        The hooks that accept a patch, and those that do not.

    Raises:
        VpatchError: a release or a patch cannot be read.
    """
    from vpatch.commands.proofs import releases, style

    named = None if vllm is None else releases.releases_of(context, vllm)
    return list(style.judge_style(context, context.library.load_named(patches), named))


def run_behaviour_tests(
    context: Context,
    *patches: str,
    engine: str,
    vllm: str | None = None,
    evidence_dir: Path | str | None = None,
) -> list[ProvenTest]:
    """Run behaviour tests in a real vLLM: each must fail on the pristine tree, and then pass.

    Args:
        context: from `open_context`.
        *patches: ids; by default all patches that have such a test.
        engine: `cpu`, `cuda`, or the path of a Python that has vLLM.
        vllm: a release in place of the one that a test declares.
        evidence_dir: a folder that gets evidence of each test.

    Returns:
        What each test showed, or why it did not run. A test that fails is not an error.

    Raises:
        UsageError: a patch is not there, or has no test for this engine.
        UnavailableError: the extra `engine` is not installed.
        VpatchError: an engine or a source is not there.
    """
    _require("engine", "vpatch.api.run_behaviour_tests")
    from vpatch.commands.proofs import usecase

    request = usecase.ProofRequest(
        context.library.load_named(patches),
        engine,
        vllm,
        _path(evidence_dir),
        bool(patches),
    )
    return list(usecase.run_proofs(context, request))


def run_tests_on_releases(
    context: Context,
    *patches: str,
    engine: str,
    vllm: str = "all",
    record: bool = False,
    again: bool = False,
    keep_engines: int = 1,
) -> list[ReleaseTest]:
    """Run behaviour tests on several releases, and on those that have the patch already.

    Args:
        context: from `open_context`.
        *patches: ids; by default all patches that have such a test.
        engine: `cpu`, `cuda`, or the path of a Python that has vLLM.
        vllm: releases with commas between them, or `all`.
        record: write the results to shapes.json of each patch, and skip those on record.
        again: with `record`, run known results again.
        keep_engines: how many new engines stay in the cache.

    Returns:
        What each test showed on each release.

    Raises:
        UsageError: a patch is not there, has no test for this engine, or cannot be recorded.
        UnavailableError: the extra `engine` is not installed, or an engine cannot be made.
        VpatchError: a source is not there.
    """
    _require("engine", "vpatch.api.run_tests_on_releases")
    from vpatch.commands.proofs import releases

    named = releases.releases_of(context, vllm)
    run = releases.ReleaseRun(
        context.library.load_named(patches), engine, named, record, again, keep_engines
    )
    return list(releases.run_on_releases(context, run, named=bool(patches)))


def run_tests_on_recipe(
    context: Context,
    recipe: str,
    *patches: str,
    engine: str,
    record: bool = False,
    again: bool = False,
) -> list[ReleaseTest]:
    """Run behaviour tests on what a recipe makes, with all of its patches.

    Args:
        context: from `open_context`.
        recipe: its name.
        *patches: ids; by default all patches of the recipe.
        engine: `cpu`, `cuda`, or the path of a Python that has vLLM.
        record: write the results for code that several patches change to shapes.json.
        again: with `record`, run known results again.

    Returns:
        What each test showed; a test runs once, and must pass.

    Raises:
        UsageError: the recipe pins no release, or does not have a patch.
        UnavailableError: the extra `engine` is not installed, or an engine cannot be made.
        VpatchError: the recipe cannot be applied.
    """
    _require("engine", "vpatch.api.run_tests_on_recipe")
    from vpatch.commands.proofs import recipe as recipes

    run = recipes.RecipeRun(recipe, engine, patches, record, again)
    return list(recipes.run_on_recipe(context, run))


def record_shapes(context: Context, *patches: str, vllm: str = "all") -> list[RecordedShapes]:
    """Write to shapes.json of each patch the code that it reads in releases.

    Args:
        context: from `open_context`.
        *patches: ids; by default all patches of the project and of the library.
        vllm: releases of vLLM with commas between them; or `all`, with those of plugins that
            `needed-in` admits.

    Returns:
        The shapes, and the releases in which an apply would stop.

    Raises:
        UsageError: a patch came with the installed vpatch, or none has a release to read.
        VpatchError: a source cannot be read, or a record cannot be written.
    """
    from vpatch.commands.proofs.shape_records import record_shapes as record

    return list(record(context, context.library.load_named(patches), vllm))


def smoke(
    context: Context,
    request: Request | str | Path | None = None,
    *,
    evidence_dir: Path | str | None = None,
    options: SmokeOptions | None = None,
    **fields: Unpack[RequestFields],
) -> SmokeResult:
    """Run a patched vLLM on a real engine, as a smoke plan says, and write evidence.

    Args:
        context: from `open_context`.
        request: the vLLM and its patches, or only the vLLM: a release, a folder, or URL@REF.
        evidence_dir: the folder of all evidence; by default `evidence` in the project.
        options: an engine or an image, the plan, a model.
        **fields: `recipe`, `patches` and the others of `RequestFields`.

    Returns:
        The evidence, its folder, and whether every check passed.

    Raises:
        UsageError: a version, a recipe or a patch is not there, arguments contradict each other, or
            a string is in place of a list.
        UnavailableError: the extra `engine` is not installed, or this machine lacks what the plan
            needs.
        VpatchError: the run could not be made. A failing check is not an error.
    """
    _require("engine", "vpatch.api.smoke")
    from vpatch.commands.smoke import usecase

    root = _folder_of(context, evidence_dir, "evidence")
    asked = _request(request, fields)
    return usecase.smoke(context, asked, options or usecase.SmokeOptions(), root)


def list_evidence(
    context: Context, *, evidence_dir: Path | str | None = None
) -> tuple[list[VerifiedEvidence], list[VpatchError]]:
    """Verify all evidence of smoke runs and behaviour tests, oldest first.

    Args:
        context: from `open_context`.
        evidence_dir: the folder of all evidence; by default `evidence` in the project.

    Returns:
        The evidence that can be read, and why some cannot be read or compared.

    Raises:
        VpatchError: the folder cannot be read.
    """
    from vpatch.commands.evidence import usecase

    return usecase.verify_all(context, _folder_of(context, evidence_dir, "evidence"))


def verify_evidence(
    context: Context, name: str, *, evidence_dir: Path | str | None = None
) -> VerifiedEvidence:
    """Verify that evidence is complete, and matches what its command would run now.

    Args:
        context: from `open_context`.
        name: of the evidence.
        evidence_dir: the folder of all evidence; by default `evidence` in the project.

    Returns:
        The evidence, and what was changed or would be different now; `holds` if nothing is.

    Raises:
        VpatchError: it cannot be read, or its source is out of reach.
    """
    from vpatch.commands.evidence import usecase

    return usecase.verify_named(context, _folder_of(context, evidence_dir, "evidence") / name)


def bench(
    context: Context,
    request: Request | str | Path | None = None,
    *,
    output_dir: Path | str | None = None,
    options: BenchOptions | None = None,
    **fields: Unpack[RequestFields],
) -> BenchResult:
    """Put loads on servers of a patched vLLM, and write a record with tables and a page.

    Args:
        context: from `open_context`.
        request: the vLLM and its patches, or only the vLLM: a release, a folder, or URL@REF.
        output_dir: the folder of all records; by default `bench` in the project.
        options: engine, image or servers, and the matrix.
        **fields: `recipe`, `patches` and the others of `RequestFields`.

    Returns:
        The record, its folder, the points that could not be measured, and what ended it early.

    Raises:
        UsageError: a version, a recipe or a patch is not there, arguments contradict each other, or
            a string is in place of a list.
        UnavailableError: the extra `bench` is not installed, or this machine lacks what the plan
            needs.
        VpatchError: the run could not be begun.
    """
    _require("bench", "vpatch.api.bench")
    from vpatch.commands.bench import usecase

    root = _folder_of(context, output_dir, "bench")
    asked = _request(request, fields)
    return usecase.bench(context, asked, options or usecase.BenchOptions(), root)


def _request(first: Request | str | Path | None, fields: RequestFields) -> Request:
    """Return what a function is asked for, with texts and tuples as the use cases have them."""
    if first is not None and not isinstance(first, Request):
        if "vllm" in fields:
            raise TypeError(f"{first!r} and {fields['vllm']!r} both are the vllm")
        fields = {**fields, "vllm": first}
    # Lists and paths become what a request has below.
    request = replace(first if isinstance(first, Request) else Request(), **fields)  # type: ignore[arg-type]
    return replace(
        request,
        vllm=_version(request.vllm),
        recipe=None if request.recipe is None else os.fspath(request.recipe),
        trees=_list("trees", request.trees),
        patches=_list("patches", request.patches),
    )


def _path(path: Path | str | None) -> Path | None:
    return None if path is None else Path(path)


def _python(python: Path | str | None) -> str:
    return sys.executable if python is None else os.fspath(python)


def _folder_of(context: Context, folder: Path | str | None, name: str) -> Path:
    return _refuse_link(_below_project(context.project, name)) if folder is None else Path(folder)


def _version(vllm: str | Path | None) -> str | None:
    """Return a version as the command line takes it. There, `./` tells a folder from a release."""
    if vllm is None or isinstance(vllm, str):
        return vllm
    text = os.fspath(vllm)
    return text if text.startswith(("/", ".", "~")) else f"./{text}"


def _list(argument: str, elements: Iterable[_T]) -> tuple[_T, ...]:
    """Return the elements of an argument. A string has elements too, but nobody means these.

    Raises:
        UsageError: it is a single string or path.
    """
    if isinstance(elements, str | bytes | os.PathLike):
        raise UsageError(
            f"{argument} is {elements!r}, which is not a list",
            hint=f"give a list: {argument}=[{os.fsdecode(elements)!r}]"
            if elements
            else "leave it out",
            code="vpatch.not-a-list",
        )
    return tuple(elements)
