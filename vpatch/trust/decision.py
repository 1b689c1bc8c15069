"""Which code of projects may run: these bytes, in this place, as the user allowed it.

What came with the installed vpatch is trusted. All else is a project's, and is trusted if the
user's own folder has a record of its place and its digest. A record is a file of its own, written
by one rename: processes that write at the same time lose nothing.
"""

from __future__ import annotations

import hashlib
import shlex
import weakref
from pathlib import Path
from typing import Any, Literal

from vpatch.errors import VpatchError
from vpatch.trust.store import Content, Store, TrustRecord, content_of
from vpatch.util.scratch import make_scratch, remove_scratch

State = Literal["shipped", "trusted", "changed", "not trusted"]


class UntrustedError(VpatchError):
    """The command needs code of a project that the user has not trusted."""

    code = "trust.not-trusted"


class Trust:
    """Decides what may run. `everything` is for --trust; `shipped` has the library's folders."""

    def __init__(
        self, store: Store | None, *, shipped: tuple[Path, ...] = (), everything: bool = False
    ) -> None:
        self.store = store
        self._shipped = shipped
        self._everything = everything
        self._derived: dict[Path, State] = {}
        self._copies: dict[tuple[Path, str | None], Path] = {}
        self._removals: list[weakref.finalize[..., Any]] = []

    def state(self, path: Path, content: Content | None = None) -> State:
        """Say whether a patch's folder, or a recipe's or target's file, is trusted, and why."""
        if self._is_installed(path):
            return "shipped"
        if path.resolve() in self._derived:
            return self._derived[path.resolve()]
        if self.store is not None and self.store.folder_around(path.resolve()) is not None:
            return "trusted"
        content = content or content_of(path)
        for folder in self._shipped:
            theirs = folder / path.name
            if theirs.exists() and content_of(theirs).digest == content.digest:
                return "shipped"
        record = self.store.find("path", str(path.resolve())) if self.store else None
        if record is None:
            return "not trusted"
        return "trusted" if record.digest == content.digest else "changed"

    def derive(self, path: Path, original: Path, content: Content) -> None:
        """Trust what vpatch made of something else as far as that; `content` is what it was."""
        self._derived[path.resolve()] = self.state(original, content)

    def adopt(self, path: Path) -> None:
        """Trust what a command of the user just wrote, as it is now.

        Raises:
            VpatchError: it cannot be recorded.
        """
        if self.store is not None and self.store.folder_around(path.resolve()) is None:
            self.store.add("path", str(path.resolve()), content_of(path).digest)

    def records(self) -> list[TrustRecord]:
        return list(self.store) if self.store else []

    def require(self, path: Path, content: Content | None = None) -> None:
        """Refuse to go on if something is not trusted.

        Raises:
            UntrustedError: it is not trusted; the hint is the command that trusts it.
        """
        state = "trusted" if self._everything else self.state(path, content)
        if state in {"shipped", "trusted"}:
            return
        name = shlex.quote(_short(path))
        hint = f"read every file there, then: vpatch trust {name}"
        since = "you did not trust it"
        if state == "changed":
            since = "it changed since you trusted it"
            if path.is_dir():
                hint += f"; to allow all later changes too: vpatch trust --folder {name}"
        raise UntrustedError(f"nothing of it runs: {since}", where=_short(path), hint=hint)

    def runnable(self, folder: Path, file: Path, source: bytes) -> Path:
        """Return from where a file of a patch may run, whose bytes are at hand already.

        A project's code runs from a private copy of exactly those bytes that are trusted: nothing
        that changes meanwhile, lies elsewhere in the project, or is old bytecode, gets in.

        Raises:
            UntrustedError: the patch's folder is not trusted.
        """
        name = file.relative_to(folder)
        if self._is_installed(folder):
            return file
        return self._copy(folder, (name.as_posix(), source)) / name

    def copy_of(self, folder: Path) -> Path:
        """Return a private copy of a patch's trusted folder; see `runnable`."""
        return folder if self._is_installed(folder) else self._copy(folder, None)

    def close(self) -> None:
        """Remove the private copies. The command line ends without finalizers, so it calls this."""
        self._copies.clear()
        while self._removals:
            self._removals.pop()()

    def disown(self) -> None:
        """Leave the copies to the process that this one was forked from."""
        self._copies.clear()
        while self._removals:
            self._removals.pop().detach()

    def _copy(self, folder: Path, used: tuple[str, bytes] | None) -> Path:
        key = (folder.resolve(), hashlib.sha256(used[1]).hexdigest() if used else None)
        if key not in self._copies:
            content = content_of(folder)
            if used is not None and content.files.get(used[0]) != used[1]:
                raise UntrustedError(
                    f"{used[0]} changed while it was read",
                    where=str(folder),
                    hint="run the command again when nothing writes there",
                    code="trust.changed-while-read",
                )
            self.require(folder, content)
            self._copies[key] = self._write(folder.name, content)
        return self._copies[key]

    def _write(self, name: str, content: Content) -> Path:
        workdir, lock = make_scratch()
        self._removals.append(weakref.finalize(self, remove_scratch, workdir, lock))
        copy = Path(workdir, name)
        for path, data in content.files.items():
            (copy / path).parent.mkdir(parents=True, exist_ok=True)
            (copy / path).write_bytes(data)
        return copy

    def _is_installed(self, path: Path) -> bool:
        return path.resolve().parent in self._shipped


def changed_while_read(place: Path) -> UntrustedError:
    return UntrustedError(
        "it changed while it was read",
        where=str(place),
        hint="run the command again when nothing writes to it",
        code="trust.changed-while-read",
    )


def _short(path: Path) -> str:
    """A path as a user would type it."""
    try:
        return str(path.absolute().relative_to(Path.cwd()))
    except ValueError:
        return str(path)


# Where nobody says what is trusted, nothing of a project is; for tests and scripts, everything.
NOTHING = Trust(None)
EVERYTHING = Trust(None, everything=True)
