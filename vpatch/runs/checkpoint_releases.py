"""What releases of vLLM have for a checkpoint, and which patches it needs on each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packaging.specifiers import SpecifierSet

from vpatch.checkpoint.report import ReleaseRow
from vpatch.checkpoint.support import files_of, support_of
from vpatch.errors import UsageError
from vpatch.source.spec import parse_vllm
from vpatch.workspace.context import exact_release

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vpatch.checkpoint.inspection import Inspection
    from vpatch.checkpoint.needs import Need
    from vpatch.workspace.context import Context

ALL = "all"


def needed_in(context: Context, need: Need) -> str | None:
    """Return the releases that a patch says it is for; None where the library has no such patch."""
    try:
        return context.library.patch(need.patch).declaration.needed_in.get("vllm")
    except UsageError:
        return None


def on_releases(
    context: Context, inspection: Inspection, needs: Sequence[Need], vllm: str
) -> list[ReleaseRow]:
    """Compare a checkpoint with a release, or with all that the index has.

    Raises:
        VpatchError: a release cannot be found or read.
    """
    versions = context.releases() if vllm == ALL else [exact_release(context, vllm)]
    claims = {need.patch: needed_in(context, need) for need in needs}
    task = context.progress.start("Reading releases", total=len(versions), unit="release")
    rows = []
    for version in versions:
        with context.tree(parse_vllm(version)) as tree:
            files = files_of(tree)
        support = support_of(inspection, files, version)
        wanted = (
            patch for patch, claim in claims.items() if claim and version in SpecifierSet(claim)
        )
        rows.append(ReleaseRow(version, support, tuple(wanted)))
        task.advance(1)
    task.done()
    return rows
