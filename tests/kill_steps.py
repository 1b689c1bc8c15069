"""Run vpatch in a fork, and kill it, or let its disk be full, before its n-th change of the disk.

Only for drivers: processes of their own, which have imported already what the command needs.
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path

# What works on a full disk.
HARMLESS = frozenset(["subprocess.Popen", "os.remove", "os.rmdir"])
_PACKAGE = f"{os.sep}vpatch{os.sep}"
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


def opens_to_write(args):
    """Whether an `open`, by the arguments of its audit event, changes the disk."""
    # A file without a name, made in a folder, is no change.
    return bool(args[2] & _WRITING) and not Path(args[0]).is_dir() and args[0] != os.devnull


def forked(args, is_change, log, *, kill_at=None, full_from=None):
    """Fork, run a command, and return how it ended. `log` gets what it prints.

    Args:
        args: the words of the command line.
        is_change: whether an audit event, by its name and its arguments, changes the disk.
        log: the file for the output; the changes go to a file beside it.
        kill_at: the number of the change before which the process gets SIGKILL.
        full_from: the number of the change from which on the disk is full.
    """
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1]
    steps, done = [], False

    def hook(event, facts):
        if done or not is_change(event, facts):
            return
        steps.append(f"{event} {_place()}")
        if len(steps) == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        if full_from is not None and len(steps) >= full_from and event not in HARMLESS:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    # What other runs left in the folder that all share would be removed here, and be steps.
    room = Path(f"{log}.tmp")
    shutil.rmtree(room, ignore_errors=True)
    room.mkdir()
    os.environ["TMPDIR"], tempfile.tempdir = str(room), None
    sys.argv = ["vpatch", *args]
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(out, 1)
    os.dup2(out, 2)
    sys.addaudithook(hook)
    from vpatch.main import main

    try:
        main()
    except SystemExit as end:
        # What is written from here on is the driver's.
        done = True
        Path(f"{log}.steps").write_text("\n".join(steps), encoding="ascii")
        os._exit(end.code)


def steps_of(log):
    """The changes that the command made that wrote this log, by the names of their events."""
    return [line.partition(" ")[0] for line in Path(f"{log}.steps").read_text().splitlines()]


def kills_of(log):
    """The numbers of the changes at which to kill: of each place in the code, the first and last.

    A loop over files makes hundreds of changes in one place. `VPATCH_TEST_KILLS=all` means all.
    """
    lines = Path(f"{log}.steps").read_text().splitlines()
    if os.environ.get("VPATCH_TEST_KILLS") == "all":
        return list(range(1, len(lines) + 1))
    ends = {}
    for number, line in enumerate(lines, 1):
        first, _ = ends.get(line, (number, number))
        ends[line] = (first, number)
    return sorted({number for pair in ends.values() for number in pair})


def _place():
    """Where vpatch is: the line of its own that makes the change, and the one that called it."""
    frame, found = sys._getframe(2), []
    while frame is not None and len(found) < 2:
        if _PACKAGE in frame.f_code.co_filename:
            found.append(f"{frame.f_code.co_filename.rpartition(_PACKAGE)[2]}:{frame.f_lineno}")
        frame = frame.f_back
    return "<".join(found)
