"""Quantise again and again, and kill it before its n-th change of the disk, for every n.

Called as `kill_quantise PYTHON FOLDER`, in a process of its own: it forks. FOLDER/trunk is what is
quantised. All runs use one child with compressed-tensors, which waits for orders whenever one of
them is killed. After each kill, the checkpoint must be the old or the new one.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from tests.engine.test_quantise import values
from vpatch.checkpoint.quantise import quantise_mtp
from vpatch.checkpoint.quantiser import Quantiser
from vpatch.progress import Silent

_CHANGES = frozenset({
    "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.symlink", "os.truncate", "shutil.rmtree"
})  # fmt: skip
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


def is_change(event, args):
    return event in _CHANGES or (event == "open" and bool(args[2] & _WRITING))


def state(folder):
    return json.loads((folder / "config.json").read_text()), values(folder)


def run(folder, quantiser, kill_at):
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    steps = 0

    def hook(event, args):
        nonlocal steps
        if is_change(event, args):
            steps += 1
            if steps == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)
    try:
        quantise_mtp(folder, quantiser, Silent())
    finally:
        # The child with compressed-tensors is the first process's, which ends it.
        os._exit(0)


def main(python, original):
    # A process that is killed loses nothing that it wrote; a computer would.
    os.fsync = lambda _: None
    # Its matrices are so small that several threads would only wait for each other.
    os.environ["OMP_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory() as workdir, Quantiser(Path(python)) as quantiser:
        trunk, folder = Path(original, "trunk"), Path(workdir, "checkpoint")
        shutil.copytree(trunk, folder)
        old = state(folder)
        quantise_mtp(folder, quantiser, Silent())
        new = state(folder)
        left = {path.name for path in folder.iterdir()}
        assert old != new
        seen = {"old": 0, "new": 0}
        step, code = 0, -signal.SIGKILL
        while code == -signal.SIGKILL:
            step += 1
            shutil.rmtree(folder)
            shutil.copytree(trunk, folder)
            code = run(folder, quantiser, step)
            found = state(folder)
            assert found in (old, new), f"step {step}"
            if code:
                seen["old" if found == old else "new"] += 1
            quantise_mtp(folder, quantiser, Silent())
            assert state(folder) == new, f"step {step}"
            assert {path.name for path in folder.iterdir()} == left, f"step {step}"
        assert code == 0
    print(json.dumps(seen))  # noqa: T201 - the answer


if __name__ == "__main__":
    main(*sys.argv[1:])
