"""Kill `vpatch bump` before a change of the disk, for each place; or fill the disk.

Called as `kill_driver PROJECT CACHE kill|full ARGS...`, in a process of its own: it forks.
After each fault, the branches and each file must be the old or the new ones; then the command runs
to its end, and must leave the new ones.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.kill_steps import HARMLESS, forked, kills_of, opens_to_write, steps_of
from tests.projects import git, snapshot

# Which argument of an event is the path that changes.
_ON_PATHS = {"open": 0, "os.mkdir": 0, "os.rename": 1, "os.link": 1, "os.remove": 0}


def faulted(project, mode, *args):
    """Run this in a process; return the number of changes, and how often each side was left."""
    module = "tests.commands.bump.kill_driver"
    driver = [sys.executable, "-m", module, project.folder, project.cache]
    run = subprocess.run(
        [*map(str, driver), mode, *args],
        env=os.environ | project.env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-3000:]
    return json.loads(run.stdout.splitlines()[-1])


def _state(project):
    """The branches, by what their commits say and hold, the work tree, and what git says of it."""
    refs = git(project, "for-each-ref", "--format=%(refname)", "refs/heads").splitlines()
    said = {ref: git(project, "log", "--format=%T %an %B", ref) for ref in refs}
    files = {path: what for path, what in snapshot(Path(project)).items() if path[:4] != ".git"}
    status = git(project, "status", "--porcelain", "--branch", "--untracked-files=no")
    return said, files, status


def _is_between(state, old, new):
    """Whether the branches are those of one side, and each file is as on one side."""
    paths = {path for one in (state, old, new) for path in one[1]}
    # What a kill leaves behind beside a file begins with a dot.
    paths = {path for path in paths if not Path(path).name.startswith(".")}
    return state[0] in (old[0], new[0]) and all(
        state[1].get(path) in (old[1].get(path), new[1].get(path)) for path in paths
    )


def main(project, cache, mode, *args):
    # Once, and not in each child.
    import vpatch.commands.bump.command
    import vpatch.commands.bump.conflict.abort
    import vpatch.commands.bump.conflict.settle
    import vpatch.commands.bump.output
    import vpatch.commands.bump.write
    import vpatch.planning.lint
    import vpatch.source.network  # noqa: F401

    watched = (project, cache)

    def is_change(event, facts):
        # git changes the repository; it begins and ends between two steps.
        if event == "subprocess.Popen":
            return True
        if event not in _ON_PATHS or isinstance(facts[_ON_PATHS[event]], int):
            return False
        path = str(Path.cwd() / os.fsdecode(facts[_ON_PATHS[event]]))
        return path.startswith(watched) and (event != "open" or opens_to_write(facts))

    saved = Path(project).parent / "saved"
    log = str(Path(project).parent / "log")
    for place in watched:
        shutil.copytree(place, saved / Path(place).name, symlinks=True)

    def reset():
        os.chdir("/")
        for place in watched:
            shutil.rmtree(place)
            shutil.copytree(saved / Path(place).name, place, symlinks=True)
        os.chdir(project)

    reset()
    old = _state(project)
    end = forked(args, is_change, log)
    new = _state(project)
    steps, chosen = steps_of(log), kills_of(log)
    assert new[0] != old[0], Path(log).read_text()
    seen = {"old": 0, "new": 0, "steps": len(steps)}
    for step in chosen:
        event = steps[step - 1]
        if mode == "full" and event in HARMLESS:
            continue
        reset()
        fault = {"kill_at": step} if mode == "kill" else {"full_from": step}
        status = forked(args, is_change, log, **fault)
        told = f"step {step}, {event}: {Path(log).read_text()}"
        found = _state(project)
        assert _is_between(found, old, new), told
        is_new = found[0] == new[0]
        seen["new" if is_new else "old"] += 1
        # What cannot be kept for the next run is no reason to stop.
        full = end if is_new else 4 << 8
        assert os.WIFSIGNALED(status) if mode == "kill" else status == full, told
        if "--write" in args or not is_new:
            assert forked(args, is_change, log) == end, told + Path(log).read_text()
        assert _state(project) == new, told
    print(json.dumps(seen))  # noqa: T201 - the driver's answer


if __name__ == "__main__":
    main(*sys.argv[1:])
