"""Where a checkpoint is: in a folder, or on the Hub."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from vpatch.checkpoint.files import REPOSITORY, FolderFiles
from vpatch.util.extras import require

if TYPE_CHECKING:
    import re

    from vpatch.checkpoint.files import Files


def repository_in(typed: str) -> re.Match[str] | None:
    """Read what somebody typed as ORG/NAME[@REVISION]; None where it is a folder."""
    return None if Path(typed).exists() else REPOSITORY.fullmatch(typed)


def open_files(typed: Path) -> Files:
    """Open a folder, or a repository that is typed as ORG/NAME[@REVISION]: what is here wins.

    Raises:
        UsageError: there is no such repository.
        UnavailableError: the Hub does not answer, or the extra `hub` is not installed.
    """
    if repository_in(str(typed)) is None:
        return FolderFiles(typed)
    require("hub", "a checkpoint of the Hub")
    from vpatch.checkpoint.hub import open_repository  # noqa: PLC0415 - the extra has its client

    return open_repository(str(typed))
