"""Kill a command before its n-th change of an environment, for every n.

Called as `kill_driver SITE PYTHON -- ARGS... -- ARGS...`, in a process of its own: it forks. All
commands but the last one run to their ends first. After each kill, the last command runs again, and
the folder of packages must be as after a run without a kill. Then `uninstall` must restore it.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

from tests.kill_steps import forked, kills_of, opens_to_write, steps_of
from tests.projects import snapshot

_ON_PATHS = {"open": 0, "os.mkdir": 0, "os.chmod": 0, "os.rename": 0, "os.link": 0}
_ON_PATHS |= {"os.remove": 0, "os.rmdir": 0}


def _run(args, site, log, kill_at=None):
    def is_change(event, facts):
        if event not in _ON_PATHS or isinstance(facts[0], int):
            return False
        if event == "open" and not opens_to_write(facts):
            return False
        path = Path(os.fsdecode(facts[0]))
        # Folders are removed by names below a descriptor.
        below = event in {"os.remove", "os.rmdir"} and not path.is_absolute()
        return below or str(Path.cwd() / path).startswith(site)

    return forked(args, is_change, log, kill_at=kill_at)


def main(site, python, *words):
    import vpatch.commands.install.command
    import vpatch.commands.install.uninstall_command
    import vpatch.commands.install.usecase
    import vpatch.planning.plan  # noqa: F401 - once, and not in each child

    commands, log = [], str(Path(site).parent / "log")
    for word in words:
        if word == "--":
            commands.append(["--python", python])
        else:
            commands[-1].insert(-2, word)
    saved = Path(site).with_name("saved")
    pristine = snapshot(Path(site))
    for command in commands[:-1]:
        assert _run(command, site, log) == 0, Path(log).read_text()
    shutil.copytree(site, saved, symlinks=True)

    def reset():
        shutil.rmtree(site)
        shutil.copytree(saved, site, symlinks=True)

    command = commands[-1]
    reset()
    assert _run(command, site, log) == 0, Path(log).read_text()
    total = len(steps_of(log))
    new = snapshot(Path(site))
    for step in kills_of(log):
        reset()
        status = _run(command, site, log, kill_at=step)
        told = f"step {step} of {total}: {Path(log).read_text()}"
        assert os.WIFSIGNALED(status), told
        status = _run(command, site, log)
        text = told + Path(log).read_text()
        if command[0] == "uninstall":
            # One that was killed behind its first step is finished before the second one looks.
            done = "did not run there" in text
            assert os.waitstatus_to_exitcode(status) == (2 if done else 0), text
        else:
            assert status == 0, text
        assert snapshot(Path(site)) == new, text
        if command[0] != "uninstall":
            assert _run(["uninstall", "--python", python], site, log) == 0, told
            assert snapshot(Path(site)) == pristine, told
    print(json.dumps(total))  # noqa: T201 - the driver's answer


if __name__ == "__main__":
    main(*sys.argv[1:])
