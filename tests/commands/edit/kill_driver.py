"""Kill `vpatch refresh` before a change of the disk, for each place.

Called as `kill_driver PROJECT ARGS...`, in a process of its own: it forks. After each kill
each patch must be exactly the old or the new one, and the work tree is there where all are the old
ones. Then the command runs to its end, and must leave the new ones. If it makes a new patch
(--into) that is there already, it refuses, and `vpatch edit --abort` ends the edit.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.kill_steps import forked, kills_of, opens_to_write
from tests.projects import snapshot
from tests.waiting import LIMIT

# Which argument of an event is the path that changes.
_ON_PATHS = {"open": 0, "os.mkdir": 0, "os.rename": 1, "os.link": 1, "os.remove": 0, "os.rmdir": 0}


def killed(project, *args):
    """Run this in a process; return how often a kill left the old, the new, and some of both."""
    driver = [sys.executable, "-m", "tests.commands.edit.kill_driver", project.folder]
    run = subprocess.run(
        [*map(str, driver), *args],
        capture_output=True,
        text=True,
        check=False,
        timeout=20 * LIMIT,
        env=os.environ | project.env,
    )
    assert run.returncode == 0, run.stderr + run.stdout
    return json.loads(run.stdout.splitlines()[-1])


def main(project, *args):
    # Once, and not in each child.
    import vpatch.commands.edit.into.new_patch
    import vpatch.commands.edit.refresh_command
    import vpatch.planning.lint
    import vpatch.source.network  # noqa: F401

    def is_change(event, facts):
        if event == "ctypes.dlsym":
            return facts[1] == "renameat2"
        if event not in _ON_PATHS or isinstance(facts[_ON_PATHS[event]], int):
            return False
        path = str(Path.cwd() / os.fsdecode(facts[_ON_PATHS[event]]))
        return path.startswith(project) and (event != "open" or opens_to_write(facts))

    root = Path(project)
    saved, log = root.parent / "saved", str(root.parent / "log")
    edited = [one for one in args[1:2] if one != "--into"]
    patches, work = root / "patches", root / ".vpatch" / "-".join(["edit", *edited])
    is_new = "--into" in args
    there = edited or sorted(path.name for path in patches.iterdir())
    ids = [*there, *(args[-1:] if is_new else [])]
    shutil.copytree(root, saved, symlinks=True)

    def reset():
        os.chdir("/")
        shutil.rmtree(root)
        shutil.copytree(saved, root, symlinks=True)
        os.chdir(root)

    def of_patches():
        return [snapshot(patches / name) for name in ids]

    reset()
    old = of_patches()
    assert forked(args, is_change, log) == 0, Path(log).read_text()
    new = of_patches()
    names = sorted(path.name for path in patches.iterdir())
    assert old != new
    assert not work.exists()
    seen = {"old": 0, "new": 0, "both": 0}
    for step in kills_of(log):
        reset()
        status = forked(args, is_change, log, kill_at=step)
        output = Path(log).read_text()
        assert os.WIFSIGNALED(status), f"step {step}: {output}"
        state = of_patches()
        assert all(one in pair for one, *pair in zip(state, old, new, strict=True)), (
            f"step {step}: {output}"
        )
        seen["old" if state == old else "new" if state == new else "both"] += 1
        if state == old:
            assert 'mode="slower"' in (work / "vllm" / "engine.py").read_text(), step
        if work.exists() and is_new and state == new:
            assert os.waitstatus_to_exitcode(forked(args, is_change, log)) == 2, step
            assert forked(["edit", "--abort", *edited], is_change, log) == 0, Path(log).read_text()
        elif work.exists():
            assert forked(args, is_change, log) == 0, f"step {step}: {Path(log).read_text()}"
        assert of_patches() == new, step
        assert not work.exists(), step
        left = {path.name for path in patches.iterdir()} - {*names}
        assert all(name.startswith(".") for name in left), left
    print(json.dumps(seen))  # noqa: T201 - the driver's answer


if __name__ == "__main__":
    main(*sys.argv[1:])
