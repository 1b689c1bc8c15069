"""What a script in the sandbox sees of the files of this machine, as options of bubblewrap."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from vpatch.errors import BadValueError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from vpatch.confinement.script_python import ScriptPython

# Where the sandbox shows the script and the probe.
OWN_PLACE = "/vpatch-sandbox"
_SYSTEM = ("bin", "lib", "lib32", "lib64", "libx32", "sbin", "usr")
# What programs and libraries read, and no settings or keys of this machine.
_SETTINGS = (
    "alternatives",
    "group",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "nsswitch.conf",
    "passwd",
    "python*",
)
# What a Python needs below its prefix, which may be a home folder.
_OF_PYTHON = ("bin", "lib", "lib32", "lib64", "pyvenv.cfg")
_RESERVED = (Path("/dev"), Path("/proc"), Path("/sys"), Path(OWN_PLACE))


def shown_places(python: ScriptPython) -> list[Path]:
    """Return the files and folders that are shown as they are here: the system's, then Python's."""
    places = [Path("/", name) for name in _SYSTEM]
    places += [path for name in _SETTINGS for path in sorted(Path("/etc").glob(name))]
    for prefix in python.prefixes:
        for path in dict.fromkeys((prefix, Path(os.path.realpath(prefix)))):
            places += [path / name for name in _OF_PYTHON]
    places += _links(Path(python.program))
    distinct: list[Path] = []
    for path in places:
        is_there = path.is_symlink() or path.exists()
        if is_there and not any(path.is_relative_to(other) for other in distinct):
            distinct.append(path)
    return distinct


def _links(path: Path) -> Iterator[Path]:
    """The links from a program to its file, one by one."""
    for _ in range(40):
        yield path
        if not path.is_symlink():
            return
        path = path.parent / path.readlink()


def mounts(places: Sequence[Path], scratch: Path, seen_at: Path) -> list[str]:
    """Return the options that show the places, and the copy and temporary folders of `scratch`.

    Raises:
        UsageError: the copy at `seen_at` would hide what the script needs.
    """
    hidden = [path for path in (*places, *_RESERVED) if path.is_relative_to(seen_at)]
    hidden += [path for path in _RESERVED if seen_at.is_relative_to(path)]
    if hidden or ".." in seen_at.parts:
        what = f"hides {hidden[0]}" if hidden else "has .. in it"
        raise BadValueError(
            f"the release cannot be shown at {seen_at}: it {what}",
            hint="give --sandbox-path a folder of its own, such as "
            "/usr/local/lib/python3.12/dist-packages",
        )
    # A link above it is a link in the sandbox, too.
    is_shown = any(seen_at.is_relative_to(path) for path in places)
    mounted = Path(os.path.realpath(seen_at)) if is_shown else seen_at
    above = [path for path in reversed(mounted.parents) if path in _above(places, mounted)]
    words = ["--dev", "/dev", "--bind", str(scratch / "shm"), "/dev/shm"]  # noqa: S108
    words += ["--remount-ro", "/dev", "--proc", "/proc", "--remount-ro", "/proc"]
    words += ["--bind", str(scratch / "tmp"), "/tmp"]  # noqa: S108
    for path in (*places, mounted):
        # bwrap itself would make some of them for root alone.
        parents = [parent for parent in reversed(path.parents[:-1]) if parent not in above]
        words += [word for parent in parents for word in ("--dir", str(parent))]
        words += _shown(path, above) if path != mounted else ()
    words += ["--ro-bind", str(scratch / "own"), OWN_PLACE]
    words += ["--bind", str(scratch / "copy"), str(mounted)]
    # Folders that were made for the copy; it has to be there first.
    words += [word for path in reversed(above) for word in ("--remount-ro", str(path))]
    return words


def _above(places: Sequence[Path], mounted: Path) -> Collection[Path]:
    """The folders of this machine that the copy is in: they are made anew, as it may not be."""
    return {
        path
        for path in mounted.parents
        if path.is_dir() and any(path.is_relative_to(place) for place in places)
    }


def _shown(path: Path, above: Collection[Path]) -> Iterator[str]:
    """Show a place as it is, but for the folders that are made anew."""
    if path.is_symlink():
        yield from ("--symlink", str(path.readlink()), str(path))
    elif path in above:
        yield from ("--tmpfs", str(path))
        for child in sorted(path.iterdir()):
            yield from _shown(child, above)
    elif path.exists():
        yield from ("--ro-bind", str(path), str(path))
