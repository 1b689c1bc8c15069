"""Which releases `vpatch test --record` reads, of vLLM and of the plugins that patches are for."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from packaging.version import Version

from vpatch.commands.proofs.releases import releases_of
from vpatch.errors import UsageError
from vpatch.planning.relations import claims_version

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from vpatch.library.patch import Patch
    from vpatch.workspace.context import Context

VLLM = "vllm"


def releases_to_record(
    context: Context, patches: Sequence[Patch], vllm: str | None
) -> dict[str, dict[str, list[str]]]:
    """Return the releases to read: by the name of the tree, then by the id of the patch.

    Those that a patch is recorded for already are always among them. Of vLLM, so is what `vllm`
    names: releases with commas between them, or all if it is None. If it names all, so is each
    release of a plugin that `needed-in` admits and the index has an archive of.

    Raises:
        UsageError: `vllm` is wrong, or no patch has a release to read.
        UnavailableError: the index cannot be asked.
    """
    is_all = vllm in {None, "all"}
    trees = dict.fromkeys(tree for patch in patches for tree in patch.declaration.needed_in)
    wanted: dict[str, dict[str, list[str]]] = defaultdict(dict)
    for tree in sorted(trees, key=lambda name: name != VLLM):
        concerned = [patch for patch in patches if tree in patch.declaration.needed_in]
        named: Iterable[str] = ()
        if tree == VLLM:
            named = releases_of(context, "all" if vllm is None else vllm)
        elif is_all:
            named = _of_plugin(context, tree, concerned)
        for patch in concerned:
            admitted = [one for one in named if tree == VLLM or claims_version(patch, tree, one)]
            releases = sorted({*admitted, *_recorded(patch, tree)}, key=Version)
            if releases:
                wanted[tree][patch.id] = releases
    _tell_of_others(context, patches, wanted)
    return dict(wanted)


def _of_plugin(context: Context, tree: str, concerned: Sequence[Patch]) -> Sequence[str]:
    """The releases of a plugin that the index has; none where the index does not know it."""
    if all(patch.declaration.needed_in[tree] == "<0" for patch in concerned):
        return ()
    try:
        return context.releases_of(tree)
    except UsageError as error:
        if error.code != "source.unknown-project":
            raise
        context.progress.note(f"nothing is recorded of {tree}: {error.what}")
        return ()


def _recorded(patch: Patch, tree: str) -> Iterable[str]:
    return patch.shapes.releases(tree) if patch.shapes else ()


def _tell_of_others(
    context: Context, patches: Sequence[Patch], wanted: Mapping[str, Mapping[str, object]]
) -> None:
    """Say which patches get no record, as they name no tree that has a release to read."""
    concerned = {patch_id for asked in wanted.values() for patch_id in asked}
    others = [patch for patch in patches if patch.id not in concerned]
    if not others:
        return
    names = ", ".join(patch.id for patch in others)
    what = f"nothing is recorded of {names}: `needed-in` names no tree with a release to read"
    if not concerned:
        raise UsageError(
            what,
            where=str(others[0].folder / "patch.yaml"),
            hint=f"add {VLLM} to `needed-in`, if the patch can concern it",
            code="library.nothing-to-record",
        )
    context.progress.note(what)
