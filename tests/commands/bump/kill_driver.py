"""Kill `vpatch bump --write` before a change of the disk, for each place; or fill the disk.

Called as `kill_driver PROJECT CACHE kill|full BRANCH ARGS...`, in a process of its own: it forks.
After each fault the repository must be exactly the old or the new one; then the command runs to
its end, and must leave the new one.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

from tests.kill_steps import HARMLESS, forked, kills_of, opens_to_write, steps_of
from tests.projects import git, snapshot

# Which argument of an event is the path that changes.
_ON_PATHS = {"open": 0, "os.mkdir": 0, "os.rename": 1, "os.link": 1, "os.remove": 0}


def _state(project):
    """The branches, by what their commits say and hold, and the work tree."""
    refs = git(project, "for-each-ref", "--format=%(refname)").splitlines()
    said = {ref: git(project, "log", "--format=%T %an %B", ref) for ref in refs}
    files = {path: what for path, what in snapshot(Path(project)).items() if path[:4] != ".git"}
    return said, files


def main(project, cache, mode, branch, *args):
    # Once, and not in each child.
    import vpatch.commands.bump.command
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
    assert forked(args, is_change, log) == 0, Path(log).read_text()
    new = _state(project)
    steps, chosen = steps_of(log), kills_of(log)
    assert set(new[0]) - set(old[0]) == {f"refs/heads/{branch}"}
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
        assert found in (old, new), told
        seen["old" if found == old else "new"] += 1
        if mode == "kill":
            assert os.WIFSIGNALED(status), told
        else:
            # What cannot be kept for the next run is no reason to stop.
            wanted = 0 if found == new else 4
            assert os.waitstatus_to_exitcode(status) == wanted, told
        assert forked(args, is_change, log) == 0, told + Path(log).read_text()
        assert _state(project) == new, told
    print(json.dumps(seen))  # noqa: T201 - the driver's answer


if __name__ == "__main__":
    main(*sys.argv[1:])
