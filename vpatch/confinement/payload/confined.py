"""Prove from inside that the sandbox confines, set limits, and then become the script.

It runs in the Python of the script, without its packages. It asks, and changes nothing but its own
limits. What it has to say goes to a descriptor that the script does not get.
"""

# What the kernel says of names, descriptors and links.
# ruff: noqa: PTH115, PTH116, PTH123, PTH208

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import stat
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


def main() -> None:
    task = json.loads(sys.argv[1])
    report = task["report"]
    os.set_inheritable(report, False)  # noqa: FBT003
    for name, most in task["limits"].items():
        number = getattr(resource, "RLIMIT_" + name)
        hard = resource.getrlimit(number)[1]
        limit = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(number, (limit, limit))
    os.umask(0o022)
    problems = [
        *problems_of_rights(),
        *problems_of_files(task["writable"], task["absent"]),
        *problems_of_others(task["outside"], report),
    ]
    if problems:
        os.write(report, "; ".join(problems).encode("utf-8", "replace")[:4000])
        sys.exit(1)
    os.write(report, b"confined\n")
    command = sys.argv[2:]
    # Python ignores these, and the script would inherit it.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(command[0], command)  # noqa: S606
    except OSError as error:
        reason = f"{command[0]}: {error.strerror}"
        os.write(report, reason.encode("utf-8", "replace"))
        sys.exit(127)


def problems_of_rights() -> Iterator[str]:
    if 0 in (*os.getresuid(), *os.getresgid()):
        yield "it would run as root"
    with open("/proc/self/status") as lines:
        status = dict(line.rstrip("\n").split(":\t", 1) for line in lines if ":\t" in line)
    for name, value in sorted(status.items()):
        if name.startswith("Cap") and int(value, 16):
            yield f"it would have capabilities ({name}: {value})"
    if status.get("NoNewPrivs") != "1":
        yield "it could get new privileges"
    if status.get("Seccomp") != "2":
        yield "no system call would be refused"


def problems_of_files(writable: list[str], absent: list[str]) -> Iterator[str]:
    with open("/proc/self/mountinfo") as lines:
        mounts = [line.split(" ") for line in lines]
    for mount in mounts:
        place = mount[4].encode("latin-1").decode("unicode_escape")
        place = place.encode("latin-1").decode("utf-8", "surrogateescape")
        if "rw" in mount[5].split(",") and place not in writable and not is_device(place):
            yield f"{place} could be written"
    for place in ("/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/usr", "/etc", "/"):
        if os.access(place, os.W_OK):
            yield f"{place} could be written"
    for place in absent:
        if os.path.lexists(place):
            yield f"{place} would be there"


def is_device(place: str) -> bool:
    try:
        return stat.S_ISCHR(os.lstat(place).st_mode)
    except OSError:
        return False


def problems_of_others(outside: dict[str, str], report: int) -> Iterator[str]:
    for name, identity in sorted(outside.items()):
        if os.readlink(f"/proc/self/ns/{name}") == identity:
            yield f"it would share the namespace {name} with this machine"
    others = {name for name in os.listdir("/proc") if name.isdigit()} - {"1", str(os.getpid())}
    if others:
        yield "it would see processes of others"
    with open("/proc/self/net/route") as lines:
        if len(list(lines)) > 1:
            yield "it would have a network"
    try:
        socket.socket(socket.AF_UNIX).close()
        yield "it could open Unix sockets"
    except OSError:
        pass
    null = os.stat("/dev/null")
    if not os.path.samestat(os.fstat(0), null):
        yield "its input would not be empty"
    for name in os.listdir("/proc/self/fd"):
        number = int(name)
        if number not in {0, 1, 2, report} and os.path.lexists(f"/proc/self/fd/{name}"):
            yield f"it would get a further descriptor ({name})"
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
        yield "it would have a terminal"
    except OSError:
        pass


if __name__ == "__main__":
    main()
