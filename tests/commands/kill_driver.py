"""Run a command again and again, and kill it before its n-th change of the disk, for every n.

Called as `kill_driver PROJECT CACHE ARGS...`, in a process of its own: it forks. After each kill
the checkout must be exactly the old or exactly the new one; then the command runs to its end, and
nothing may be left but the new one.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import sys
from pathlib import Path

from tests.kill_steps import forked, kills_of, opens_to_write, steps_of
from tests.projects import names_in, snapshot

_CHANGES = frozenset({
    "os.rename",
    "os.link",
    "os.symlink",
    "os.chmod",
    "subprocess.Popen",
})  # fmt: skip
# Which argument of an event is the path that changes.
_ON_PATHS = {"open": 0, "os.mkdir": 0, "os.chmod": 0, "os.rename": 1, "os.link": 1, "os.symlink": 1}
_watched: tuple[str, ...] = ()
_removals = itertools.count()


def _is_change(event, args):
    if event in _ON_PATHS and not _is_watched(args[_ON_PATHS[event]]):
        return False
    if event == "open":
        return opens_to_write(args)
    if event == "os.mkdir":
        return not Path(args[0]).exists()
    if event in {"os.remove", "os.rmdir"}:
        # Each file of an old checkout: some of them will do.
        return next(_removals) % 6 == 0
    if event == "ctypes.dlsym":
        return args[1] == "renameat2"
    return event in _CHANGES


def _is_watched(path):
    """Whether a path is in the project or the cache: of a temporary file nothing is left to find.

    A descriptor is no path: its file was opened before.
    """
    return not isinstance(path, int) and str(Path.cwd() / os.fsdecode(path)).startswith(_watched)


def _run(args, *, kill_at=None, log):
    return forked(args, _is_change, log, kill_at=kill_at)


def _contents(target):
    if not target.exists():
        return None
    # git's index holds times.
    return {path: what for path, what in snapshot(target).items() if path != ".git/index"}


def main(project, cache, *args):
    # Once, and not in each child.
    import vpatch.commands.apply.command
    import vpatch.planning.lint
    import vpatch.source.network  # noqa: F401

    global _watched  # noqa: PLW0603 - the hook of a child reads it
    _watched = (project, cache)
    os.chdir(project)
    saved = Path(project).parent / "saved"
    log = str(Path(project).parent / "log")
    places = (Path(project), Path(cache))

    def reset():
        for place in places:
            shutil.rmtree(place, ignore_errors=True)
            if (saved / place.name).exists():
                shutil.copytree(saved / place.name, place, symlinks=True)
        os.chdir(project)

    for place in places:
        if place.exists():
            shutil.copytree(place, saved / place.name, symlinks=True)
    reset()
    target = Path(project) / ".vpatch" / "vllm-0.50.0"
    old = _contents(target)
    assert _run(args, log=log) == 0, Path(log).read_text()
    total = len(steps_of(log))
    new = _contents(target)
    assert old != new
    left = names_in(target.parent)
    seen = {"old": 0, "new": 0, "steps": total}
    for step in kills_of(log):
        reset()
        Path(log).unlink()
        status = _run(args, kill_at=step, log=log)
        told = f"step {step} of {total}: " + Path(log).read_text()
        assert os.WIFSIGNALED(status), told
        found = _contents(target)
        # Between the folder and the exchange of names there is nothing else.
        assert found in (old, new), told
        seen["old" if found == old else "new"] += 1
        assert _run(args, log=log) == 0, told + Path(log).read_text()
        assert _contents(target) == new, told
        assert names_in(target.parent) == left, told
        assert not list((Path(cache) / "staging").iterdir()), told
        assert not list((Path(cache) / "trees").glob("*/*.part")), told
    print(json.dumps(seen))  # noqa: T201 - the driver's answer


if __name__ == "__main__":
    main(*sys.argv[1:])
