"""Whether what patches make of a release has the style that the release's own hooks ask for.

The hooks are those of packages, such as ruff, at the version and with the settings of the release.
Hooks that run scripts of the release judge more than style; `vpatch upstream-pr` runs them.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.version import Version

from vpatch.checkout.hooks import run_hooks
from vpatch.errors import VpatchError
from vpatch.library.catalog import is_installed
from vpatch.planning.state import State
from vpatch.source.index import parse_version
from vpatch.source.rule_files import RulesError
from vpatch.source.spec import parse_vllm
from vpatch.util.extras import require
from vpatch.util.versions import read_version
from vpatch.workspace.plans import planned
from vpatch.workspace.selection import with_required

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from vpatch.checkout.hooks import Hook
    from vpatch.library.patch import Patch
    from vpatch.source.entry import CachedTree
    from vpatch.workspace.context import Context

_TREE = "vllm"
_HOOKS = ".pre-commit-config.yaml"


@dataclass(frozen=True)
class Style:
    """The style of what a patch makes of a release.

    `passed` are the hooks that accept it, and `failed` those that do not. `not_judged` are reasons
    why all or some hooks say nothing of it. `release` is None where none is known.
    """

    patch: Patch
    release: str | None
    passed: tuple[str, ...] = ()
    failed: tuple[Hook, ...] = ()
    not_judged: tuple[str, ...] = ()


def judge_style(
    context: Context, patches: Sequence[Patch], releases: Sequence[str] | None
) -> Iterator[Style]:
    """Judge the user's own patches on the release that a recipe pins for them, or on `releases`.

    Without a recipe, it is the newest release that is on record for the patch as one that needs it.

    Raises:
        VpatchError: one of `releases`, or a patch, cannot be read.
    """
    if releases is None:
        patches = [patch for patch in patches if not is_installed(patch.folder)]
    by_release: defaultdict[str, list[Patch]] = defaultdict(list)
    for patch in patches:
        if _TREE not in patch.declaration.needed_in:
            yield Style(patch, None, not_judged=(f"it is not for {_TREE}",))
            continue
        known = _newest_known(context, patch) if releases is None else releases
        if not known:
            reason = "no recipe pins a release for it: give one, such as --vllm 0.23"
            yield Style(patch, None, not_judged=(reason,))
        for release in known:
            by_release[release].append(patch)
    for release, asked in by_release.items():
        yield from _judge_on(context, release, asked, named=releases is not None)


def _newest_known(context: Context, patch: Patch) -> list[str]:
    library = context.library
    recipes = [library.recipe_selection(path) for path in library.recipes.values()]
    sources = [one.vllm.source for one in recipes if patch.id in one.patches]
    versions = [parse_version(source) for source in sources]
    releases = [one for one in versions if one and read_version(one)]
    if not releases and patch.shapes:
        shapes = patch.shapes.shapes.get(_TREE, ())
        releases = [r for shape in shapes if shape.state == State.NEEDED for r in shape.releases]
    return sorted(releases, key=Version)[-1:]


def _judge_on(
    context: Context, release: str, patches: Sequence[Patch], *, named: bool
) -> list[Style]:
    with ExitStack() as stack:
        try:
            require("upstream", "the check of style")
            tree = stack.enter_context(context.tree(parse_vllm(release)))
        except VpatchError as error:
            if named:
                raise
            return [Style(patch, release, not_judged=(str(error),)) for patch in patches]
        return [_judge(context, patch, release, tree) for patch in patches]


def _judge(context: Context, patch: Patch, release: str, tree: CachedTree) -> Style:
    series = with_required([patch.id], context.library)
    concerning = [one for one in series if _TREE in one.declaration.needed_in]
    plan = planned(context, concerning, tree, to_write=True)
    (decision,) = (one for one in plan.decisions if one.patch.id == patch.id)
    if decision.state is not State.NEEDED:
        return Style(patch, release, not_judged=(f"the patch is {decision.state} there",))
    changes = decision.changes
    after = {path: change.after for path, change in changes.items()}
    before = {path: change.before for path, change in changes.items() if change.before is not None}
    try:
        hooks = _run(context, tree, after)
        failed = [hook for hook in hooks if hook.verdict == "fail"]
        earlier = _run(context, tree, before) if failed and before else []
    except RulesError as error:
        return Style(patch, release, not_judged=(f"{error.where}: {error.what}",))
    earlier_ids = {hook.id for hook in earlier if hook.verdict == "fail"}
    reasons = [f"{hook.id}: {hook.output}" for hook in hooks if hook.verdict == "not run"]
    reasons += [
        f"{name}: it refuses these files without the patch, too" for name in sorted(earlier_ids)
    ]
    if all(hook.verdict in {"idle", "elsewhere"} for hook in hooks):
        reasons.append("no hook that can run here looks at the files that it changes")
    return Style(
        patch,
        release,
        tuple(hook.id for hook in hooks if hook.verdict == "pass"),
        tuple(hook for hook in failed if hook.id not in earlier_ids),
        tuple(reasons),
    )


def _run(context: Context, tree: CachedTree, files: Mapping[str, bytes]) -> list[Hook]:
    home, offline = context.cache.answers("pre-commit"), context.offline
    return run_hooks(
        tree, _HOOKS, files, home, context.progress, offline=offline, packages_only=True
    )
