"""Ends what a job started, and removes its folder, once standard input ends.

Its input is a pipe that a worker of Ray holds, so the end of the worker is noticed however it
comes. Ray kills the children of its workers: the guard leaves them first.

A job that creates containers writes `if-killed.json` into its folder, and removes that file when it
has removed them. The file is a list: a module of the code that came with the job, and its
arguments. The guard runs that module if the file is still there.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time

_POLL_SECONDS = 0.05
_TRACKER_SECONDS = 5.0
_KILL_SECONDS = 60.0
_CLEAN_UP_SECONDS = 60.0


def main(folder: str, mark: str) -> None:
    """Wait for the end of the input, then leave nothing of the job behind."""
    if os.fork():
        os._exit(0)
    os.setsid()
    while os.read(0, 1):
        pass
    begun = time.monotonic()
    while (processes := living(f"VPATCH_JOB={mark}".encode())) and age(begun) < _KILL_SECONDS:
        for process in processes:
            # Python's resource trackers remove shared memory, and then end by themselves.
            if age(begun) > _TRACKER_SECONDS or b"resource_tracker" not in of(process, "cmdline"):
                kill(process)
        time.sleep(_POLL_SECONDS)
    clean_up(folder)
    shutil.rmtree(folder, ignore_errors=True)


def clean_up(folder: str) -> None:
    """Run what a killed job left to do."""
    # Not before: the guard must leave the worker's children quickly.
    import json
    import subprocess

    try:
        with open(f"{folder}/if-killed.json", encoding="utf-8") as file:  # noqa: PTH123 - as below
            command = json.load(file)
    except (OSError, ValueError):
        return  # it left nothing, or was killed before it made anything
    try:
        subprocess.run(
            [sys.executable, "-m", *command],
            # Python looks for modules in this folder first, and not where the worker was started.
            cwd=f"{folder}/sent/code",
            env=os.environ | {"PYTHONPATH": f"{folder}/sent/code"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_CLEAN_UP_SECONDS,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return  # nobody is left to hear of it


def age(begun: float) -> float:
    return time.monotonic() - begun


def living(variable: bytes) -> list[int]:
    """Return the processes that have a variable in their environment."""
    numbers = [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208
    return [number for number in numbers if variable in of(number, "environ").split(b"\0")]


def of(process: int, what: str) -> bytes:
    try:
        with open(f"/proc/{process}/{what}", "rb") as file:  # noqa: PTH123 - it starts at once
            return file.read()
    except OSError:
        return b""  # it ended, or is somebody else's


def kill(process: int) -> None:
    try:
        os.kill(process, signal.SIGKILL)
    except OSError:
        return  # it ended


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
