"""Run somebody's script where it can write nothing but one folder, and reach no network.

The only module that runs bubblewrap (https://github.com/containers/bubblewrap).
"""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from vpatch.errors import UnavailableError
from vpatch.util.run_log import command_line, timed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_log = logging.getLogger(__name__)
_KEPT = ("LANG", "LC_ALL", "LC_CTYPE", "PATH")
# Where a script may write besides the folder; what it leaves there is dropped.
_SCRATCH = ("/tmp", "/run", "/var/tmp")  # noqa: S108
_HOME = "/tmp/home"  # noqa: S108


def run_sandboxed(
    command: Sequence[str], folder: Path, seen_at: Path
) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder, and return how it ended and what it said.

    It sees the files of this machine, but can change only what is in the folder. It has no network,
    no process of others, and no environment variable but PATH and the language.

    Args:
        command: what to run; its files are where they are outside.
        folder: where it runs, and what it may change.
        seen_at: where the command sees the folder: an absolute path, which may be there already.

    Raises:
        UnavailableError: bubblewrap is not installed, or the system does not let it work.
    """
    program = shutil.which("bwrap")
    if program is None:
        raise _unavailable("bubblewrap (bwrap) is not installed")
    isolation = ["--unshare-all", "--die-with-parent", "--new-session", "--clearenv"]
    scratch = [place for place in _SCRATCH if Path(place).is_dir()]
    above = [path for path in reversed(seen_at.parents) if str(path) not in scratch]
    shown = [program, *isolation, *_entries(Path("/"), above)]
    shown += ["--dev", "/dev", "--proc", "/proc"]
    shown += [word for place in scratch for word in ("--tmpfs", place)]
    shown += ["--dir", _HOME, *(word for file in command for word in _again(file, scratch))]
    for path in above[1:]:
        # It may not be there, and a system that is read only gets no new folder.
        shown += ["--tmpfs", str(path), *_entries(path, above)]
    shown += ["--bind", str(folder.resolve()), str(seen_at)]
    shown += [word for path in reversed(above) for word in ("--remount-ro", str(path))]
    shown += [word for pair in _variables(seen_at) for word in ("--setenv", *pair)]
    shown += ["--chdir", str(seen_at), "--", *command]
    with timed(_log, logging.INFO, command_line(shown)):
        done = subprocess.run(
            shown, capture_output=True, check=False, text=True, errors="replace", stdin=None
        )
    if done.stderr.startswith("bwrap: "):
        raise _unavailable(done.stderr.strip())
    return done


def _unavailable(what: str) -> UnavailableError:
    return UnavailableError(
        what,
        hint="install bubblewrap (Debian: apt install bubblewrap), and allow user namespaces; or "
        "run the script yourself on a copy of the release, and give the copy to --from-tree",
        code="importing.no-sandbox",
    )


def _entries(folder: Path, made: Sequence[Path]) -> Iterator[str]:
    """Show what is in a folder as it is, but for the folders that are made anew."""
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if path.is_symlink():
            yield from ("--symlink", str(path.readlink()), str(path))
        elif path not in made and path.exists():
            yield from ("--ro-bind", str(path), str(path))


def _again(file: str, scratch: Sequence[str]) -> Iterator[str]:
    """Show a file of the command that lies where the sandbox has empty folders."""
    if any(file.startswith(f"{place}/") for place in scratch):
        yield from ("--ro-bind", file, file)


def _variables(folder: Path) -> Iterator[tuple[str, str]]:
    yield from ((name, os.environ[name]) for name in _KEPT if name in os.environ)
    yield "HOME", _HOME
    # By this, Python finds the package: importlib.util.find_spec("vllm").
    yield "PYTHONPATH", str(folder)
    yield "PYTHONDONTWRITEBYTECODE", "1"
