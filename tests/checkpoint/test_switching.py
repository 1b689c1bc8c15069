"""Several files are exchanged at one moment, whatever happens meanwhile."""

from __future__ import annotations

import os
import signal
import sys

from vpatch.checkpoint.switching import settle, switch

OLD = {"config.json": b"old config", "index.json": b"old index"}
NEW = {"config.json": b"new config", "index.json": b"new index"}
STEPS = {"os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.symlink", "shutil.rmtree"}
WRITING = os.O_WRONLY | os.O_CREAT


def written(folder):
    folder.mkdir()
    for name, content in OLD.items():
        (folder / name).write_bytes(content)
    (folder / "b.safetensors").write_bytes(b"old shard")
    return folder


def state(folder):
    return {name: (folder / name).read_bytes() for name in OLD}


def is_change(event, args):
    return event in STEPS or (event == "open" and args[2] & WRITING)


def killed(step, work, is_change=is_change):
    """Do work in a process that is killed before its n-th change; say whether it was."""
    child = os.fork()
    if child == 0:
        steps, code = 0, 1

        def hook(event, args):
            nonlocal steps
            if is_change(event, args):
                steps += 1
                if steps == step:
                    os.kill(os.getpid(), signal.SIGKILL)

        try:
            # What a killed process wrote is there without it.
            os.fsync = lambda _: None
            sys.addaudithook(hook)
            work()
            code = 0
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in {0, -signal.SIGKILL}
    return code == -signal.SIGKILL


def test_files_are_exchanged(tmp_path):
    folder = written(tmp_path / "folder")
    switch(folder, NEW, ["b.safetensors"])
    assert state(folder) == NEW
    assert not any(path.is_symlink() for path in folder.iterdir())
    assert {p.name for p in folder.iterdir()} == {*NEW, "b.safetensors.orig"}


def test_a_kept_copy_is_not_overwritten(tmp_path):
    folder = written(tmp_path / "folder")
    (folder / "b.safetensors.orig").write_bytes(b"older shard")
    switch(folder, NEW, ["b.safetensors"])
    assert (folder / "b.safetensors.orig").read_bytes() == b"older shard"
    assert (folder / "b.safetensors.orig.2").read_bytes() == b"old shard"


def test_links_into_a_cache_are_replaced(tmp_path):
    blobs, folder = written(tmp_path / "blobs"), tmp_path / "folder"
    folder.mkdir()
    for path in blobs.iterdir():
        (folder / path.name).symlink_to(path)
    switch(folder, NEW, ["b.safetensors"])
    assert state(folder) == NEW
    assert state(blobs) == OLD


def test_killed_at_any_step_all_are_old_or_all_are_new(tmp_path):
    seen = []
    for step in range(1, 100):
        folder = written(tmp_path / f"folder-{step}")
        if not killed(step, lambda folder=folder: switch(folder, NEW, ["b.safetensors"])):
            break
        found = state(folder)
        assert found in (OLD, NEW), step
        seen.append(found == NEW)
        # Who cleans up may be killed as well.
        for again in (1, 3, 2):
            killed(again, lambda folder=folder: settle(folder))
            assert state(folder) == found
        settle(folder)
        assert state(folder) == found
        kept = "b.safetensors.orig" if found == NEW else "b.safetensors"
        assert {path.name for path in folder.iterdir()} == {*NEW, kept}
    # First old, then new, and never back.
    assert seen == sorted(seen)
    assert {*seen} == {False, True}
