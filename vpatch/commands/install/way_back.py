"""The steps that make an environment what it was before an install.

An install writes them down beside the files that it keeps. So the way back needs no space on the
disk: these files come back by renames.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from vpatch.commands.install.layout import LOCK, NOTICE
from vpatch.engine.distributions import RECORD

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from vpatch.commands.install.journal import Step

CACHE = "__pycache__"


def way_back(
    info: str, paths: Sequence[str], copies: Collection[str], listed: Collection[str]
) -> list[Step]:
    """Return the steps; RECORD comes last, and then what vpatch put beside it.

    Args:
        info: the name of the folder of metadata.
        paths: the files that the install replaced or made, below the folder of packages.
        copies: the files and the bytecode that it keeps as they were.
        listed: the paths in RECORD as it was.
    """
    back = [{"put": one, "from": one} for one in sorted(copies)]
    back += [{"remove": path} for path in sorted(paths) if path not in copies]
    back += [{"remove-folder": one} for one in folders_of_new(paths, copies, listed)]
    back.append({"put": f"{info}/{RECORD}", "from": RECORD})
    return [*back, *({"remove": f"{info}/{name}"} for name in (LOCK, NOTICE))]


def folders_of_new(
    paths: Iterable[str], copies: Collection[str], listed: Iterable[str]
) -> list[str]:
    """Return folders that only an install made, with those of bytecode; inner ones come first."""
    new = {str(one) for path in paths if path not in copies for one in PurePosixPath(path).parents}
    old = {str(one) for path in listed for one in PurePosixPath(path).parents}
    folders = sorted(new - old, key=lambda one: (-len(one), one))
    return [one for folder in folders for one in (f"{folder}/{CACHE}", folder)]
