"""A repository of our own for a moment: states of some files, and how diffs apply to them."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from vpatch.git.command import create_repository, run
from vpatch.git.errors import GitError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path


class ScratchRepository:
    """Holds any number of states of some files; the caller removes its folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        create_repository(folder)

    def state(self, files: Mapping[str, bytes]) -> str:
        """Make these the files at hand, and return the id of their tree."""
        for path in self._folder.iterdir():
            if path.name != ".git":
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        for name, content in files.items():
            path = self._folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        run(self._folder, "add", "--all", "--force", "--", ".")
        return run(self._folder, "write-tree").decode().strip()

    def diff(self, old: str, new: str) -> bytes:
        """The diff of two states, with the ids of all files in full."""
        options = ["--no-color", "--no-ext-diff", "--no-textconv", "--no-renames", "--full-index"]
        return run(self._folder, "diff", *options, "--unified=3", old, new)

    def apply(
        self,
        diff: bytes,
        *,
        three_way: bool = False,
        without_context: bool = False,
        reverse: bool = False,
    ) -> str:
        """Apply a diff to the files at hand; return what git says if it does not apply.

        With `three_way`, git merges where a hunk does not fit, and a conflict counts as a failure.
        A diff `without_context` goes by its line numbers where nothing else tells. With `reverse`,
        git takes the new side for the old one.
        """
        options = ["--whitespace=nowarn"]
        if three_way:
            options.append("--3way")
        if without_context:
            options.append("--unidiff-zero")
        if reverse:
            options.append("--reverse")
        try:
            run(self._folder, "apply", *options, "-", stdin=diff)
        except GitError as error:
            return error.stderr
        return ""

    def read(self, paths: Iterable[str]) -> dict[str, bytes]:
        """Those of some files that are there now."""
        places = {path: self._folder / path for path in paths}
        return {path: place.read_bytes() for path, place in places.items() if place.is_file()}
