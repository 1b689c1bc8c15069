"""What the patches of a checkout change, as unified diffs of fixed bytes."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from vpatch.app.checkout import find_lock, planned_again
from vpatch.checkout.commits import commits_of
from vpatch.errors import UsageError
from vpatch.git import checkout as git

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vpatch.app.context import Context


def diff(
    context: Context, ids: Sequence[str], version: str | None, checkout: Path | None
) -> list[bytes]:
    """Return a diff for each patch in `ids`, or one of all patches where `ids` is empty.

    The diffs come from the lock and the patches as they are declared now.

    Raises:
        UsageError: the checkout has no such patch, or needs it no more, or no lock is found.
        VpatchError: the source cannot be read, or the code of a patch is not trusted.
    """
    _, lock = find_lock(context, version, checkout, None)
    known = [patch.id for patch in lock.patches]
    for patch_id in ids:
        if patch_id not in known:
            raise UsageError(
                f"the checkout has no patch {patch_id!r}",
                hint=f"choose among: {', '.join(known) or 'none'}",
                code="checkout.no-such-patch",
            )
    with planned_again(context, lock) as (tree, made), tempfile.TemporaryDirectory() as folder:
        taken = [decision.patch.id for decision in made.taken]
        missing = [patch_id for patch_id in ids if patch_id not in taken]
        if missing:
            raise UsageError(
                f"{missing[0]} changes nothing, since it is no longer needed",
                hint="vpatch check shows what changed",
                code="checkout.patch-not-needed",
            )
        repository, base = tree.base_repository(context.progress)
        scratch = Path(folder) / "repo"
        git.create_checkout(scratch, repository, base, [])
        line = [base, *git.add_commits(scratch, base, commits_of(made))]
        ranges = [(line[taken.index(i)], line[taken.index(i) + 1]) for i in ids]
        return [git.diff(scratch, *between) for between in ranges or [(base, line[-1])]]
