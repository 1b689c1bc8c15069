"""A folder in which a run collects evidence, or a record, and the name that it gets."""

from __future__ import annotations

import errno
import os
import re
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from typing import TYPE_CHECKING

from vpatch.errors import UsageError
from vpatch.evidence.claim import ClaimedError, claimed
from vpatch.evidence.store import LOGS
from vpatch.util.os_errors import cannot_write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_NAME = re.compile(r"[A-Za-z0-9][\w.+-]*")
_LONGEST = 200


class TakenError(UsageError):
    """The name is taken."""

    code = "evidence.name-taken"


@dataclass(frozen=True)
class Collecting:
    """A folder to collect evidence in, and the name that it gets once all of it is there."""

    workdir: Path
    name: str


@contextmanager
def collected(
    root: Path, name: str, what: str = "evidence", *, numbered: bool = False
) -> Iterator[Collecting]:
    """Claim a name, and open a folder that gets it at the end of the block.

    With `numbered`, a name that is taken gets a number: -2, -3, and so on.

    Raises:
        UsageError: the name is taken, or cannot be a name, or there is no folder to write to.
        UnavailableError: another run has claimed the name, or nothing can be written there.
    """
    refuse_no_name(name, what)
    with ExitStack() as stack:
        try:
            workdir, name = _claim(root, name, what, stack, numbered=numbered)
            (workdir / LOGS).mkdir(parents=True)
        except OSError as error:
            option = "--evidence-dir" if what == "evidence" else "--output-dir"
            raise cannot_write(
                what,
                error,
                where=str(root),
                hint=f"name another folder with {option}",
            ) from error
        yield Collecting(workdir, name)
        final = root / name
        if final.exists():
            # Nobody who asks for a claim made it. What was measured must not be lost by that.
            other = next(p for p in (root / f"{name}-{n}" for n in count(2)) if not p.exists())
            workdir.rename(other)
            raise UsageError(
                f"somebody else made {what} of that name meanwhile; yours is in {other}",
                where=str(final),
                hint="rename one of the two folders",
                code="evidence.name-taken",
            )
        workdir.rename(final)


def _claim(
    root: Path, name: str, what: str, stack: ExitStack, *, numbered: bool
) -> tuple[Path, str]:
    """Claim a name that is not taken: its folder to collect in, and the name."""
    for number in count(1):
        tried = name if number == 1 else f"{name}-{number}"
        try:
            with ExitStack() as claim:
                workdir = claim.enter_context(claimed(root, tried, what))
                # Looked at with the claim: another run may have just ended.
                refuse_taken(root, tried, what)
                stack.push(claim.pop_all())
                return workdir, tried
        except (TakenError, ClaimedError):
            if not numbered:
                raise
    raise AssertionError  # count() does not end


def dated(title: str) -> str:
    """Return a title with the time, to the second."""
    return f"{title}-{datetime.now(UTC):%Y%m%d-%H%M%S}"


def refuse_unwritable(root: Path) -> None:
    """Refuse a folder for evidence that cannot be written, before anything takes time.

    Raises:
        VpatchError: nothing can be written there.
    """
    existing = next(one for one in (root, *root.absolute().parents) if one.exists())
    if existing.is_dir() and os.access(existing, os.W_OK | os.X_OK):
        return
    number = errno.EACCES if existing.is_dir() else errno.ENOTDIR
    raise cannot_write(
        "evidence",
        OSError(number, os.strerror(number)),
        where=str(root),
        hint="name another folder with --evidence-dir",
    )


def refuse_name(root: Path, name: str, what: str) -> None:
    """Refuse a name before anything is done for it.

    Raises:
        UsageError: the name is taken, or cannot be a name.
    """
    refuse_no_name(name, what)
    refuse_taken(root, name, what)


def refuse_no_name(name: str, what: str) -> None:
    """Refuse what cannot be a name.

    Raises:
        UsageError: it cannot be a name.
    """
    if not _NAME.fullmatch(name) or len(name) > _LONGEST:
        raise UsageError(
            f"{name!r} cannot be a name of {what}",
            hint="use at most 200 letters, digits, '.', '_', '+' and '-', and begin with a letter "
            "or a digit",
            code="evidence.bad-name",
        )


def refuse_taken(root: Path, name: str, what: str) -> None:
    """Refuse a name that something has.

    Raises:
        TakenError: the name is taken.
    """
    if (root / name).exists():
        raise TakenError(
            f"there is {what} of that name", where=str(root / name), hint="give another --name"
        )
