"""Where a checkpoint is: in a folder, or on the Hub."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vpatch.checkpoint.files import REPOSITORY, FolderFiles
from vpatch.util.extras import require

if TYPE_CHECKING:
    from pathlib import Path

    from vpatch.checkpoint.files import Files


def open_files(typed: Path) -> Files:
    """Open a folder, or a repository that is typed as ORG/NAME[@REVISION]: what is here wins.

    Raises:
        UsageError: there is no such repository.
        UnavailableError: the Hub does not answer, or the extra `hub` is not installed.
    """
    if typed.exists() or not REPOSITORY.fullmatch(str(typed)):
        return FolderFiles(typed)
    require("hub", "a checkpoint of the Hub")
    from vpatch.checkpoint.hub import open_repository  # noqa: PLC0415 - the extra has its client

    return open_repository(str(typed))
