"""The public API: what a script or a notebook may call.

Each function takes a `Context`, returns typed results, and prints nothing. What goes wrong is a
`VpatchError` with `what`, `where`, `hint` (what to do next), `code` and `exit_code`. Names that are
not in `__all__` may change with any release.

Hints name the options of the commands. Where a hint says `--vllm 0.23`, give `vllm="0.23"` here;
`--patch`, `--tree` and `--patches-dir` are `patches`, `trees` and `patches_dirs`.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

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

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vpatch.commands.bench.usecase import BenchOptions, BenchResult
    from vpatch.commands.smoke.usecase import SmokeOptions, SmokeResult
    from vpatch.image.verify import Verified

__all__ = [
    "Applied",
    "Change",
    "CheckResult",
    "Context",
    "Decision",
    "ExitCode",
    "Finding",
    "LockFile",
    "Plan",
    "Progress",
    "State",
    "UnavailableError",
    "UntrustedError",
    "UsageError",
    "VpatchError",
    "apply",
    "bench",
    "check",
    "diff",
    "open_context",
    "plan",
    "smoke",
    "status",
    "verify",
]

_T = TypeVar("_T")


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
    *versions: str | Path,
    recipe: str | Path | None = None,
    trees: Iterable[str] = (),
    patches: Iterable[str] = (),
) -> list[Plan]:
    """Decide what each patch means for one version or for several; nothing is written.

    Args:
        context: from `open_context`.
        versions: releases of vLLM (`0.23`, `0.23.0`, `latest`), folders, or URL@REF. A `Path` is
            always a folder.
        recipe: a recipe, by name or file; its vLLM counts where no version is given.
        trees: a list of further trees, such as `vllm-ascend==0.23.0`.
        patches: a list of ids; by default all.

    Returns:
        A plan for each tree. Its decisions have a state, a reason, and findings with lines of the
        pristine files. `new_shape` says that a patch is not on record for exactly this code.

    Raises:
        UsageError: a version, a recipe or a patch is not there, or a string is in place of a list.
        VpatchError: a source cannot be read.

    Examples:
        >>> (plan,) = status(open_context(), "0.23", patches=["mtp-proj-prefix"])
        >>> [(decision.patch.id, str(decision.state)) for decision in plan.decisions]
        [('mtp-proj-prefix', 'needed')]
    """
    request = _request(None, recipe, trees, patches)
    asked = [_version(one) for one in versions] or [None]
    rows = _status.status(context, asked, request, located=True)
    return [row.plan for row in rows]


def plan(
    context: Context,
    vllm: str | Path | None = None,
    *,
    recipe: str | Path | None = None,
    trees: Iterable[str] = (),
    patches: Iterable[str] = (),
) -> list[Plan]:
    """Plan what `apply` would write; each decision has the changed files with their bytes.

    Args:
        context: from `open_context`.
        vllm: a release of vLLM, a folder, or URL@REF. A `Path` is always a folder.
        recipe: a recipe, by name or file.
        trees: a list of further trees.
        patches: a list of ids; by default those of the recipe, or all but those on request.

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
    request = _request(vllm, recipe, trees, patches)
    plans = []
    for chosen in _selection.resolve(request, context.library):
        with context.tree(chosen.spec, chosen.expected_digest) as tree:
            plans.append(_planned(context, chosen.patches, tree, to_write=True))
    return plans


def apply(
    context: Context,
    vllm: str | Path | None = None,
    *,
    recipe: str | Path | None = None,
    trees: Iterable[str] = (),
    patches: Iterable[str] = (),
    checkout: Path | str | None = None,
    force: bool = False,
    strict: bool = False,
) -> list[Applied]:
    """Apply patches to pinned trees, a commit each, and write a lock file. All of it, or nothing.

    Args:
        context: from `open_context`.
        vllm: a release of vLLM, a folder, or URL@REF. A `Path` is always a folder.
        recipe: a recipe, by name or file.
        trees: a list of further trees.
        patches: a list of ids; by default those of the recipe, or all but those on request.
        checkout: the folder to write; by default `.vpatch/TREE-VERSION` in the project.
        force: overwrite a checkout that holds changes by its user.
        strict: refuse a patch whose code is not that of a release on record; a recipe may say so.

    Returns:
        For each tree its lock, and whether the checkout was created, replaced or unchanged.

    Raises:
        UsageError: a version, a recipe or a patch is not there, or a string is in place of a list.
        VpatchError: a patch cannot be applied, no patch is left to apply, or the checkout cannot
            be written or holds changes.
    """
    request = replace(_request(vllm, recipe, trees, patches), strict=strict)
    target = None if checkout is None else Path(checkout)
    done = _apply.apply_patches(context, request, target, force=force)
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
        None if checkout is None else Path(checkout),
        None if lock is None else Path(lock),
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
    target = None if checkout is None else Path(checkout)
    return b"".join(_diff.diff(context, patches, vllm, target))


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
    # Docker is needed here alone, and takes its time to import.
    from vpatch.commands.build_image import verify as _verify  # noqa: PLC0415

    return _verify.verify(context, image, None if lock is None else Path(lock))


def smoke(
    context: Context,
    vllm: str | Path | None = None,
    *,
    recipe: str | Path | None = None,
    trees: Iterable[str] = (),
    patches: Iterable[str] = (),
    evidence_dir: Path | str | None = None,
    options: SmokeOptions | None = None,
) -> SmokeResult:
    """Run a patched vLLM on a real engine, as a smoke plan says, and write evidence.

    Args:
        context: from `open_context`.
        vllm: a release of vLLM, a folder, or URL@REF. A `Path` is always a folder.
        recipe: a recipe, by name or file.
        trees: a list of further trees.
        patches: a list of ids; by default those of the recipe, or all but those on request.
        evidence_dir: the folder of all evidence; by default `evidence` in the project.
        options: `vpatch.commands.smoke.usecase.SmokeOptions`: an engine or an image, the plan, a
            model.

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
    # An engine's harness takes its time to import.
    from vpatch.commands.smoke import usecase as smoking  # noqa: PLC0415

    request = _request(vllm, recipe, trees, patches)
    root = _folder_of(context, evidence_dir, "evidence")
    return smoking.smoke(context, request, options or smoking.SmokeOptions(), root)


def bench(
    context: Context,
    vllm: str | Path | None = None,
    *,
    recipe: str | Path | None = None,
    trees: Iterable[str] = (),
    patches: Iterable[str] = (),
    output_dir: Path | str | None = None,
    options: BenchOptions | None = None,
) -> BenchResult:
    """Put loads on servers of a patched vLLM, and write a record with tables and a page.

    Args:
        context: from `open_context`.
        vllm: a release of vLLM, a folder, or URL@REF. A `Path` is always a folder.
        recipe: a recipe, by name or file.
        trees: a list of further trees.
        patches: a list of ids; by default those of the recipe, or all but those on request.
        output_dir: the folder of all records; by default `bench` in the project.
        options: `vpatch.commands.bench.usecase.BenchOptions`: engine, image or servers, and the
            matrix.

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
    # As above.
    from vpatch.commands.bench import usecase as benchmarking  # noqa: PLC0415

    request = _request(vllm, recipe, trees, patches)
    root = _folder_of(context, output_dir, "bench")
    return benchmarking.bench(context, request, options or benchmarking.BenchOptions(), root)


def _folder_of(context: Context, given: Path | str | None, name: str) -> Path:
    return _refuse_link(_below_project(context.project, name)) if given is None else Path(given)


def _request(
    vllm: str | Path | None,
    recipe: str | Path | None,
    trees: Iterable[str],
    patches: Iterable[str],
) -> _selection.Request:
    return _selection.Request(
        _version(vllm),
        None if recipe is None else os.fspath(recipe),
        _list("trees", trees),
        _list("patches", patches),
    )


def _version(given: str | Path | None) -> str | None:
    """Return a version as the command line takes it. There, `./` tells a folder from a release."""
    if given is None or isinstance(given, str):
        return given
    text = os.fspath(given)
    return text if text.startswith(("/", ".", "~")) else f"./{text}"


def _list(argument: str, given: Iterable[_T]) -> tuple[_T, ...]:
    """Return the elements of an argument. A string has elements too, but nobody means these.

    Raises:
        UsageError: it is a single string or path.
    """
    if isinstance(given, str | bytes | os.PathLike):
        raise UsageError(
            f"{argument} is {given!r}, which is not a list",
            hint=f"give a list: {argument}=[{os.fsdecode(given)!r}]" if given else "leave it out",
            code="vpatch.not-a-list",
        )
    return tuple(given)
