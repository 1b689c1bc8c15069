"""A pinned tree becomes a checkout with nothing applied."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from vpatch.checkout.plain import refuse_occupied, write_plain
from vpatch.checkout.transaction import CheckoutTransaction
from vpatch.workspace.checkout import real_folder

if TYPE_CHECKING:
    from pathlib import Path

    from vpatch.source.spec import TreeSpec
    from vpatch.source.tree import Pin
    from vpatch.workspace.context import Context

_ELSEWHERE = "another folder"


@dataclass(frozen=True)
class SourceCheckout:
    """A checkout of a plain tree. `base` is its commit; `outcome` is unchanged if it was there."""

    folder: Path
    pin: Pin
    base: str
    outcome: Literal["created", "unchanged"]


def check_out_source(context: Context, spec: TreeSpec, folder: Path) -> SourceCheckout:
    """Write a pinned tree into a new or empty folder, as a git checkout of one commit.

    Raises:
        WrongTargetError: the folder holds something else, or cannot exist.
        TargetError: it is such a checkout, and was changed or is of another source.
        VpatchError: the source cannot be read, or the folder cannot be written.
    """
    target = real_folder(folder, _ELSEWHERE)
    # Before anything is downloaded.
    refuse_occupied(target)
    with (
        context.tree(spec) as tree,
        CheckoutTransaction(target, tree, context.progress, elsewhere=_ELSEWHERE) as transaction,
    ):
        is_new = write_plain(transaction, context.project.folder, context.progress)
        outcome: Literal["created", "unchanged"] = "created" if is_new else "unchanged"
        return SourceCheckout(folder, tree.pin, transaction.base, outcome)
