"""Names of evidence, claimed by one run alone, also where machines share a folder.

A claim is a file beside the folder that is to be, made by one atomic step. It says who holds it. A
claim is judged dead only where this can be known: on the same machine, since the same start of it,
and among the same processes (containers of one machine have numbers of their own).
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import socket
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from vpatch.errors import UnavailableError
from vpatch.util.directories import remove
from vpatch.util.plain_records import as_record
from vpatch.util.untrusted import parse_json

if TYPE_CHECKING:
    from collections.abc import Iterator

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_PROCESSES = Path("/proc/self/ns/pid")


@dataclass(frozen=True)
class Holder:
    """Who holds a claim, and since when. `boot` and `processes` tell where `pid` has a meaning."""

    host: str
    boot: str
    processes: str
    pid: int
    since: str

    @property
    def is_dead(self) -> bool:
        """Whether it is known to have ended."""
        here = _this_process()
        is_here = (self.host, self.boot, self.processes) == (here.host, here.boot, here.processes)
        if not here.boot or not is_here:
            return False
        import psutil  # noqa: PLC0415 - of the extra `engine`

        return not psutil.pid_exists(self.pid)


class ClaimedError(UnavailableError):
    """Another run holds the claim."""

    code = "evidence.claimed"


@contextmanager
def claimed(root: Path, name: str, what: str) -> Iterator[Path]:
    """Hold the claim on a name below `root`; yields the folder to collect in, which is not there.

    What a run left behind that was killed is removed first.

    Raises:
        ClaimedError: another run holds it, or may do so.
        OSError: nothing can be written there.
    """
    try:
        root.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        # A file has the name; "File exists" would not say what is wrong.
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(root)) from error
    claim, workdir = root / f".{name}.claim", root / f".{name}.partial"
    while not _take(claim):
        _remove_if_dead(claim, workdir, what)
    try:
        # Nobody else has the claim: it is left over, or a link that somebody put there.
        remove(workdir)
        yield workdir
    finally:
        if workdir.exists():
            shutil.rmtree(workdir)
        claim.unlink()


def _take(claim: Path) -> bool:
    try:
        descriptor = os.open(claim, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
    except FileExistsError:
        return False
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(asdict(_this_process()), file)
    except BaseException:
        # On a full disk: nobody could tell later that the one who holds it is dead.
        claim.unlink()
        raise
    return True


def _remove_if_dead(claim: Path, workdir: Path, what: str) -> None:
    try:
        with claim.open(encoding="utf-8", errors="replace") as file:
            # Two runs may find the same dead one, and only one may remove it.
            fcntl.flock(file, fcntl.LOCK_EX)
            if not os.path.samestat(claim.stat(), os.fstat(file.fileno())):
                return
            holder = _read(file.read())
            if holder is None or not holder.is_dead:
                raise _claim_error(claim, holder, what)
            if workdir.exists():
                shutil.rmtree(workdir)
            claim.unlink()
    except FileNotFoundError:
        return  # it ended meanwhile


def _read(text: str) -> Holder | None:
    try:
        return as_record(Holder, parse_json(text))
    except ValueError:
        return None  # it is being written, or was cut off


def _claim_error(claim: Path, holder: Holder | None, what: str) -> ClaimedError:
    by = "another run"
    if holder is not None:
        by += f" (process {holder.pid} on {holder.host}, since {holder.since})"
    return ClaimedError(
        f"{by} is collecting {what} under that name",
        where=str(claim),
        hint="wait for it, or give another --name; if that run is dead, remove this file",
    )


def _this_process() -> Holder:
    return Holder(
        host=socket.gethostname(),
        boot=_BOOT.read_text(encoding="ascii").strip() if _BOOT.exists() else "",
        processes=str(_PROCESSES.readlink()) if _PROCESSES.is_symlink() else "",
        pid=os.getpid(),
        since=datetime.now(UTC).isoformat(timespec="seconds"),
    )
