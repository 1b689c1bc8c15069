"""The home folder of the user. A container may run as a user without one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from vpatch.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable


def expanded(path: str | Path) -> Path:
    """Return a path with a home folder in place of its `~` or `~NAME`.

    Raises:
        UsageError: there is no such home folder.
    """
    return in_home(Path(path).expanduser, str(path))


def in_home(find: Callable[[], Path], what: str) -> Path:
    """Return what `find` finds in the home folder.

    Raises:
        UsageError: there is no home folder.
    """
    try:
        return find()
    except RuntimeError as error:
        raise UsageError(
            f"there is no home folder for {what!r}",
            hint="set HOME to a folder of yours, or write the path in full",
            code="util.no-home",
        ) from error
