"""Several files are exchanged at one moment, whatever happens meanwhile."""

from __future__ import annotations

import json
import os
import signal
import sys

from tests.helpers import fails
from vpatch.checkpoint.switching import announce, changing, settle, switch

OLD = {"config.json": b"old config", "index.json": b"old index"}
NEW = {"config.json": b"new config", "index.json": b"new index"}
STEPS = {"os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.symlink", "shutil.rmtree"}
INTERRUPTED = 130
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


def killed(step, work, is_change=is_change, ending=signal.SIGKILL):
    """Do work in a process that is killed before its n-th change; say whether it was.

    `ending` may be SIGINT: then it is interrupted.
    """
    child = os.fork()
    if child == 0:
        steps, code = 0, 1

        def hook(event, args):
            nonlocal steps
            if is_change(event, args):
                steps += 1
                if steps == step:
                    os.kill(os.getpid(), ending)

        # A command that ran here before has set a handler of its own.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            # What a killed process wrote is there without it.
            os.fsync = lambda _: None
            sys.addaudithook(hook)
            work()
            code = 0
        except KeyboardInterrupt:
            code = INTERRUPTED
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in {0, INTERRUPTED if ending == signal.SIGINT else -ending}
    return code != 0


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


def test_a_run_without_its_exchange_leaves_no_new_file(tmp_path):
    folder = written(tmp_path / "folder")
    before = {path.name for path in folder.iterdir()}
    with fails("checkpoint.unwritable", "full"), changing(folder):
        announce(folder, ["c.safetensors", "b.safetensors"])
        (folder / "c.safetensors").write_bytes(b"new shard")
        (folder / "b.safetensors").write_bytes(b"of somebody else")
        raise OSError("full")
    assert {path.name for path in folder.iterdir()} == before
    assert (folder / "b.safetensors").read_bytes() == b"of somebody else"


def test_the_notes_of_a_checkpoint_lead_nowhere_else(tmp_path):
    """They come with it, from anybody."""
    folder = written(tmp_path / "folder")
    outside = tmp_path / "x"
    outside.write_bytes(b"mine")
    note = json.dumps({"names": ["../x", str(outside), "..", ".", "", 7, None]})
    (folder / ".vpatch-new").write_text(note)
    settle(folder)
    (folder / ".vpatch-after").mkdir()
    (folder / ".vpatch-after" / ".superseded").write_text(note)
    (folder / ".vpatch-current").symlink_to(".vpatch-after")
    settle(folder)
    (folder / ".vpatch-current").symlink_to(tmp_path)
    settle(folder)
    assert outside.read_bytes() == b"mine"
    assert {path.name for path in tmp_path.iterdir()} == {"folder", "x"}
    (folder / ".vpatch-current").unlink()
    (folder / ".vpatch-new").write_text("{")
    with fails("checkpoint.damaged", "it is not JSON"):
        settle(folder)
