"""Run somebody's script where it can write nothing but one folder, and reach nobody.

The only module that runs bubblewrap (https://github.com/containers/bubblewrap).
"""

from __future__ import annotations

import json
import logging
import os
import select
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING

from vpatch.confinement.system_calls import system_call_filter
from vpatch.confinement.view import OWN_PLACE, mounts, shown_places
from vpatch.errors import UnavailableError
from vpatch.util.run_log import command_line, timed
from vpatch.util.visible import visible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vpatch.confinement.script_python import ScriptPython

_log = logging.getLogger(__name__)
_PROBE = Path(__file__).parent / "payload" / "confined.py"
_CONFINED = "confined\n"
_KEPT = ("LANG", "LC_ALL", "LC_CTYPE", "PATH")
_HOME = "/tmp/home"  # noqa: S108
# Namespaces that a script must not share with this machine.
_NAMESPACES = ("ipc", "mnt", "net", "pid", "uts")
# Folders of this machine that it does not see, unless something that it needs is below them.
_ABSENT = ("/boot", "/home", "/mnt", "/opt", "/root", "/run", "/srv", "/sys", "/var")
# The user that a script runs as where root asks: "nobody", who owns nothing.
NOBODY = 65534

_MB = 1 << 20
SECONDS = 60
LARGEST_OUTPUT = _MB
# Of what a script writes: one file, and all of them together.
LARGEST_WRITTEN = 64 * _MB
MOST_WRITTEN = 2048 * _MB
# Of all its processes, with what is in no process, such as files in memory.
MOST_MEMORY = 8192 * _MB
# Limits of a process, as setrlimit(2) calls them.
_LIMITS = {"AS": 4096 * _MB, "NPROC": 512, "NOFILE": 1024, "CORE": 0}
_PAUSE = 0.1


@dataclass(frozen=True)
class Finished:
    """How a script ended: its exit status, over 128 for a signal, and what it printed.

    `broke` is the limit that it broke, for which it was ended. `not_started` is why the system
    could not start it.
    """

    code: int
    output: str
    broke: str | None = None
    not_started: str | None = None


def run_sandboxed(
    command: Sequence[str], python: ScriptPython, scratch: Path, seen_at: Path
) -> Finished:
    """Run a command on a copy of a release, once a probe has proven that it can do nothing else.

    It sees the programs and libraries of this machine, its Python, itself and the copy. It has no
    network, no capability, and no process, socket, key or terminal of others. Where root asks, it
    runs as another user.

    Args:
        command: what to run; its own files lie below `OWN_PLACE`.
        python: the Python that the command gets, and that looks at the sandbox from inside.
        scratch: a folder of the caller alone, with the folders `copy`, `own`, `tmp` and `shm`. The
            command may change `copy`, and `tmp` and `shm`, which are its temporary folders.
        seen_at: where the command sees `copy`: an absolute path.

    Raises:
        UnavailableError: bubblewrap is not installed, the system does not let it work, or the
            sandbox would not confine the command.
        UsageError: at `seen_at`, the copy would hide what the command needs.
    """
    program = shutil.which("bwrap")
    rules = system_call_filter()
    if program is None:
        raise _unavailable("bubblewrap (bwrap) is not installed")
    if rules is None:
        raise _unavailable(f"vpatch has no filter of system calls for {os.uname().machine}")
    places = shown_places(python)
    shutil.copyfile(_PROBE, scratch / "own" / "probe.py")
    (scratch / "own" / "probe.py").chmod(0o444)
    with TemporaryFile() as filtered, TemporaryFile() as about, TemporaryFile() as report:
        filtered.write(rules)
        filtered.seek(0)
        descriptors = [file.fileno() for file in (filtered, about, report)]
        words = [program, *_isolation(), *mounts(places, scratch, seen_at)]
        words += ["--remount-ro", "/"]
        words += ["--seccomp", str(descriptors[0]), "--info-fd", str(descriptors[1])]
        words += ["--chdir", str(seen_at), "--", *_as_nobody(), python.program, "-I", "-S"]
        words += [f"{OWN_PLACE}/probe.py", _task(descriptors[2], [*places, seen_at]), *command]
        with timed(_log, logging.INFO, command_line(words)):
            pipe, printed = os.pipe()
            os.set_blocking(pipe, False)
            process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=printed,
                # The first process of the sandbox shows the environment that bwrap began with.
                env=_variables(seen_at),
                pass_fds=descriptors,
            )
            os.close(printed)
            try:
                output, broke = _watch(process, pipe, scratch)
            finally:
                _end(process, about)
                os.close(pipe)
        report.seek(0)
        answer = report.read().decode(errors="replace")
    text = output.decode(errors="replace")
    if broke is None and not answer.startswith(_CONFINED):
        reason = answer or text.strip()[-500:] or f"bwrap ended with {process.returncode}"
        raise _unavailable(f"the script would not be confined: {visible(reason)}")
    not_started = visible(answer.removeprefix(_CONFINED)) or None
    return Finished(process.returncode, text, broke, not_started)


def _unavailable(what: str) -> UnavailableError:
    return UnavailableError(
        what,
        hint="install bubblewrap (Debian: apt install bubblewrap), and allow user namespaces; or "
        "run the script yourself on a copy of the release, and give the copy to --from-tree",
        code="importing.no-sandbox",
    )


def _isolation() -> list[str]:
    words = ["--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts"]
    words += ["--unshare-cgroup-try", "--hostname", "vpatch"]
    words += ["--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    if os.geteuid() == 0:
        # In a user namespace, root would still be root for the files of the kernel's settings.
        allowed = ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP")
        return words + [word for name in allowed for word in ("--cap-add", name)]
    return [*words, "--unshare-user"]


def _as_nobody() -> list[str]:
    """What goes before a command of root, so that it runs as another user without rights."""
    if os.geteuid() != 0:
        return []
    program = shutil.which("setpriv")
    if program is None:
        raise _unavailable("setpriv is not installed, so that the script would run as root")
    rights = ["--inh-caps=-all", "--ambient-caps=-all", "--bounding-set=-all", "--no-new-privs"]
    return [program, f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *rights]


def _task(report: int, shown: Sequence[Path]) -> str:
    """What the probe has to ask."""
    writable = [str(shown[-1]), os.path.realpath(shown[-1]), "/tmp", "/dev/shm", "/dev/pts"]  # noqa: S108
    absent = [one for one in _ABSENT if not any(path.is_relative_to(one) for path in shown)]
    outside = {name: str(Path(f"/proc/self/ns/{name}").readlink()) for name in _NAMESPACES}
    limits = {**_LIMITS, "FSIZE": LARGEST_WRITTEN}
    task = {"report": report, "writable": writable, "absent": absent, "outside": outside}
    return json.dumps({**task, "limits": limits})


def _variables(seen_at: Path) -> dict[str, str]:
    inherited = {name: os.environ[name] for name in _KEPT if name in os.environ}
    # By this, Python finds the package.
    own = {"HOME": _HOME, "PYTHONPATH": str(seen_at), "PYTHONDONTWRITEBYTECODE": "1"}
    return {**inherited, **own}


def _watch(process: subprocess.Popen[bytes], pipe: int, scratch: Path) -> tuple[bytes, str | None]:
    """Read what a process prints until it ends; or until it breaks a limit, and then say which."""
    output = bytearray()
    stop = time.monotonic() + SECONDS
    disk, memory = _free(scratch), _available()
    while True:
        has_ended = process.poll() is not None
        select.select([] if has_ended else [pipe], [], [], 0 if has_ended else _PAUSE)
        piece = _read(pipe)
        output += piece or b""
        if len(output) > LARGEST_OUTPUT:
            return bytes(output[:LARGEST_OUTPUT]), f"printed more than {LARGEST_OUTPUT} bytes"
        if has_ended and not piece:
            return bytes(output), None
        if time.monotonic() > stop:
            return bytes(output), f"ran for more than {SECONDS} s"
        # Others may have taken it, which nobody can tell apart.
        if disk - _free(scratch) > MOST_WRITTEN:
            what = f"ran while {scratch.parent} lost {MOST_WRITTEN // _MB} MB of free disk"
            return bytes(output), what
        if memory - _available() > MOST_MEMORY:
            what = f"ran while this machine lost {MOST_MEMORY // _MB} MB of free memory"
            return bytes(output), what
        if piece == b"":
            time.sleep(_PAUSE)  # it has closed its output, and runs on


def _read(pipe: int) -> bytes | None:
    """What a pipe has: nothing where it is closed, None where there is nothing yet."""
    try:
        return os.read(pipe, 1 << 16)
    except BlockingIOError:
        return None


def _free(folder: Path) -> int:
    status = os.statvfs(folder)
    return status.f_bavail * status.f_frsize


def _available() -> int:
    lines = dict(
        line.split(":", 1) for line in Path("/proc/meminfo").read_text("ascii").splitlines()
    )
    return int(lines["MemAvailable"].split()[0]) << 10


def _end(process: subprocess.Popen[bytes], about: IO[bytes]) -> None:
    """End all processes of a sandbox, and wait until they are gone."""
    if process.poll() is None:
        about.seek(0)
        try:
            # The kernel ends the others with the first one, and bwrap waits for that.
            os.kill(json.loads(about.read())["child-pid"], signal.SIGKILL)
        except (ValueError, KeyError, ProcessLookupError):
            process.kill()
    process.wait()
