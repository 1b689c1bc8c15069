from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

# Keeps a lock with an image, and dies right before the new file is in its place.
DYING = """
import os, signal, sys
from pathlib import Path
from vpatch.commands.build_image.locks import Locked
from vpatch.checkout.lockfile import LockedImage, read_lock

checkout = Path(sys.argv[1])
lock = read_lock(checkout / "vpatch.lock")
image = LockedImage(mode="overlay", base="b", pinned="sha256:" + "1" * 64)
if sys.argv[2] == "die":
    Path.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
changed = lock.model_copy(update={"image": image})
Locked(checkout / "vpatch.lock", lock, None, checkout, {}).keep(changed)
"""


def keep(project, how):
    return subprocess.run(
        [sys.executable, "-c", DYING, project.target, how], env=os.environ, check=False
    ).returncode


def test_a_kept_lock_can_be_read_by_those_who_could(applied):
    file = applied.target / "vpatch.lock"
    before = file.stat().st_mode
    assert keep(applied, "live") == 0
    assert '"image"' in file.read_text()
    assert file.stat().st_mode == before


def test_a_kill_while_a_lock_is_kept_does_not_block_the_next_apply(applied):
    assert keep(applied, "die") == -signal.SIGKILL
    assert "already is exactly this" in applied.apply().out
    assert applied.run("check").code == 0
