"""Kill a command before its n-th change of an environment, for every n.

Called as `kill_driver SITE PYTHON -- ARGS... -- ARGS...`, in a process of its own: it forks. All
commands but the last one run to their ends first. After each kill, the last command runs again, and
the folder of packages must be as after a run without a kill. Then `uninstall` must restore it.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from pathlib import Path

from tests.projects import snapshot

_ON_PATHS = {"open": 0, "os.mkdir": 0, "os.chmod": 0, "os.rename": 0, "os.link": 0}
_ON_PATHS |= {"os.remove": 0, "os.rmdir": 0}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


def _run(args, site, log, kill_at=None):
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1]
    steps = 0

    def hook(event, facts):
        nonlocal steps
        if event not in _ON_PATHS or isinstance(facts[0], int):
            return
        if event == "open" and not facts[2] & _WRITING:
            return
        path = Path(os.fsdecode(facts[0]))
        # Folders are removed by names below a descriptor.
        below = event in {"os.remove", "os.rmdir"} and not path.is_absolute()
        if not below and not str(Path.cwd() / path).startswith(site):
            return
        steps += 1
        if steps == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.argv = ["vpatch", *args]
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(out, 1)
    os.dup2(out, 2)
    sys.addaudithook(hook)
    from vpatch.cli import main

    try:
        main()
    except SystemExit as end:
        Path(f"{log}.steps").write_text(str(steps), encoding="ascii")
        os._exit(end.code)


def main(site, python, *words):
    import vpatch.app.install
    import vpatch.cli.install_command
    import vpatch.cli.uninstall_command
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
    total = int(Path(f"{log}.steps").read_text())
    new = snapshot(Path(site))
    for step in range(1, total + 1):
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
