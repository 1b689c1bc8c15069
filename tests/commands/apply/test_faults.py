"""What goes wrong on a bad day: one clear message, the documented exit code, nothing lost."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading

import pytest

from tests.commands.unprivileged import prefix
from tests.projects import (
    ENGINE,
    FILES,
    LLAMA,
    NAME_PROJ,
    NAMED,
    NO_SUCH,
    SLOW_MODE,
    VERSION,
    archive,
    git,
    names_in,
    snapshot,
)
from tests.waiting import LIMIT, until

FULL = re.compile(
    "No space left on device|File too large|Out of diskspace|couldn't write|unable to write file"
)
LABEL = f"vllm-{VERSION}"


def one_error(run):
    """The only message, which says what to do next."""
    assert run.err.count("error: ") == 1, run.err
    assert "Traceback" not in run.err
    message = run.errors
    assert "\n  next: " in message, message
    assert len(message.splitlines()) == 2, message
    return message


# --- declarations that do not fit the code ----------------------------------------------------


def conflicting(project, patch_id):
    """Apply; the patch must be a conflict, with nothing written. Returns its decision."""
    before = project.state()
    run = project.apply("--json", code=1)
    assert run.err.count("error") == 0
    decisions = {d["patch"]: d for d in run.json["trees"][0]["decisions"]}
    assert decisions[patch_id]["state"] == "conflict"
    assert run.json["checkouts"] == []
    assert without_trees(project.state()) == without_trees(before)
    text = project.apply(code=1)
    assert text.err.count("nothing was written: 1 patch cannot be applied") == 1
    assert f"next: vpatch status --vllm 0.50.0 --why {patch_id}" in text.err
    return decisions[patch_id], text.out


def without_trees(state):
    """Less what a first run adds: folders, the tree, and what is known of its files."""
    return {
        path: what
        for path, what in state.items()
        if path not in ADDED and not path.startswith("cache/trees/")
    }


ADDED = {
    "project/.vpatch",
    "project/.vpatch/.vllm-0.50.0.vpatch/.gitignore",
    "cache",
    "cache/contents",
    "cache/contents/answers-1.db",
    "cache/staging",
    "cache/trees",
}


def test_a_pattern_that_matches_twice_where_one_was_declared(empty):
    empty.patch("name-all", "- {find: 'self.$x = Linear(...)', add-keyword: {prefix: '\"a\"'}}")
    decision, out = conflicting(empty, "name-all")
    assert "expected 1, found 2" in decision["reason"]
    assert {(f["path"], f["line"]) for f in decision["findings"]} >= {(LLAMA, 3), (LLAMA, 4)}
    assert f"{LLAMA}:3" in out
    assert f"{LLAMA}:4" in out


def test_a_target_that_was_renamed(project):
    renamed = FILES[LLAMA].replace(b"self.proj", b"self.projection")
    project.index.add(VERSION, archive(files={LLAMA: renamed}))
    decision, out = conflicting(project, "name-proj")
    assert "expected 1, found 0" in decision["reason"]
    nearest = [f for f in decision["findings"] if f["what"].startswith("nearest: ")]
    assert nearest[0] == {
        "what": "nearest: self.projection = Linear(4, 4)",
        "path": LLAMA,
        "line": 3,
    }
    assert f"{LLAMA}:3: nearest: self.projection = Linear(4, 4)" in out


def test_a_file_that_was_moved(project):
    moved = {LLAMA: b"", "vllm/arch/llama/model.py": FILES[LLAMA]}
    project.index.add(VERSION, archive(files=moved))
    project.apply()
    assert NAMED in (project.target / "vllm/arch/llama/model.py").read_bytes()
    assert (project.target / LLAMA).read_bytes() == b""


def test_a_patch_applied_twice(applied):
    before = snapshot(applied.target)
    run = applied.apply()
    assert "already is exactly this; nothing was written" in run.out
    assert snapshot(applied.target) == before
    assert NAMED in before[LLAMA][1]


def test_a_patch_on_a_tree_that_carries_it(applied):
    run = applied.run("apply", "--vllm", f"./.vpatch/{LABEL}", "--checkout", "again", "--json")
    states = {
        d["patch"]: d["state"] for d in run.json["trees"][0]["decisions"] if d["state"] != "absent"
    }
    # git ignores the lock, so that only the code tells.
    assert set(states.values()) <= {"applied", "upstreamed"}
    assert (applied.folder / "again" / LLAMA).read_bytes().count(b"prefix=") == 1


def test_two_patches_that_edit_the_same_call(empty):
    empty.patch("b-bias", "- {find: self.proj = Linear(...), add-keyword: {bias: 'False'}}")
    empty.patch("name-proj", NAME_PROJ)
    empty.apply()
    line = (empty.target / LLAMA).read_bytes().splitlines()[2]
    assert line == (
        b'        self.proj = Linear(4, 4, bias=False, prefix=f"{prefix}.proj")  # narrow'
    )


def test_two_patches_that_want_the_same_call_differently(empty):
    empty.patch("a-slow", SLOW_MODE)
    other = "- {find: 'launch($c, mode=\"fast\")', rewrite: 'launch($c, mode=\"faster\")'}"
    empty.patch("b-faster", other)
    decision, _ = conflicting(empty, "b-faster")
    assert decision["reason"].startswith("fits the pristine tree, but not after a-slow: ")
    assert "expected 1, found 0" in decision["reason"]


def test_a_conflict_in_the_third_patch_of_three(project):
    project.patch("z-tail", NO_SUCH)
    _, out = conflicting(project, "z-tail")
    assert out.count("needed") == 2
    assert not project.target.exists()


@pytest.mark.slow
def test_all_conflicts_are_reported(project):
    project.patch("a-tail", NO_SUCH)
    project.patch("z-tail", NO_SUCH)
    run = project.apply(code=1)
    assert [line.split()[1] for line in run.out.splitlines() if " conflict " in line] == [
        "a-tail",
        "z-tail",
    ]
    assert "nothing was written: 2 patches cannot be applied" in run.err
    assert not project.target.exists()


def test_a_conflict_keeps_the_earlier_checkout(applied):
    before = snapshot(applied.target)
    applied.patch("z-tail", NO_SUCH)
    applied.apply(code=1)
    assert snapshot(applied.target) == before
    assert names_in(applied.folder / ".vpatch") == [LABEL]


# --- declarations that are wrong --------------------------------------------------------------


def refused(project, *args, code=2):
    before = project.state()
    run = project.apply(*args, code=code)
    after = {path: what for path, what in project.state().items() if path not in ADDED}
    assert after == {path: what for path, what in before.items() if path not in ADDED}
    return run


def declared_with(project, old, new):
    """A patch with one text of its declaration replaced. Returns the line, counted from 1."""
    file = project.patch("name-proj", NAME_PROJ) / "patch.yaml"
    text = file.read_text()
    assert text.count(old) == 1
    file.write_text(text.replace(old, new))
    return file.read_text()[: text.index(old)].count("\n") + 1


@pytest.mark.parametrize(
    ("old", "new", "message", "offset"),
    [
        ("symptoms:", "symptom:", "unknown key 'symptom'", 0),
        ("remove-when: never", "remove-when: never\nremove-when: x", "duplicate key", 1),
        ("find: self", "files: '../*.py'\n    find: self", "leaves the tree", 0),
        ("find: self", "files: /etc/*\n    find: self", "leaves the tree", 0),
    ],
)
def test_a_declaration_that_is_wrong(empty, old, new, message, offset):
    line = declared_with(empty, old, new)
    run = refused(empty)
    assert message in run.err
    assert "Traceback" not in run.err
    assert f"patches/name-proj/patch.yaml:{line + offset}: " in run.err


def test_an_unknown_key_names_the_nearest(empty):
    line = declared_with(empty, "remove-when:", "remove-whem:")
    run = refused(empty)
    assert f"patch.yaml:{line}: unknown key 'remove-whem'\n  next: did you mean 'remove-when'?" in (
        run.err
    )


def test_a_duplicate_key_is_one_message(empty):
    declared_with(empty, "remove-when: never", "remove-when: never\nremove-when: x")
    assert 'found duplicate key "remove-when"' in one_error(refused(empty))


@pytest.mark.parametrize("path", ["../../outside.py", "/tmp/outside.py", "vllm/../../x.py"])  # noqa: S108
def test_a_file_to_add_that_leaves_the_tree(empty, path):
    folder = empty.patch("new-file", f"- {{add-file: {path}, from: new.py}}")
    (folder / "new.py").write_text("x = 1\n")
    run = refused(empty)
    assert path in one_error(run)
    assert "leaves the tree" in run.err


def test_a_file_to_read_that_leaves_the_patch(empty):
    (empty.folder / "secret.py").write_text("x = 1\n")
    empty.patch("new-file", "- {add-file: vllm/new.py, from: ../../secret.py}")
    assert "secret.py" in one_error(refused(empty))


# --- sources ----------------------------------------------------------------------------------


def test_a_tampered_archive(project):
    good = archive()
    project.index.digests[f"{LABEL}.tar.gz"] = hashlib.sha256(good).hexdigest()
    project.index.add(VERSION, archive(files={LLAMA: b"evil = 1\n"}))
    message = one_error(refused(project, code=1))
    assert f"sha256:{hashlib.sha256(good).hexdigest()} was expected" in message
    assert "do not use this archive" in message


def test_an_archive_other_than_the_lock_has(applied):
    shutil.rmtree(applied.cache)
    applied.index.add(VERSION, archive(files={"vllm/new.py": b""}))
    before = snapshot(applied.target)
    message = one_error(applied.run("check", code=1))
    assert "was expected" in message
    assert snapshot(applied.target) == before


def test_an_archive_that_leaves_its_folder(project):
    project.index.add(VERSION, archive(files={"../../outside.py": b""}))
    message = one_error(refused(project, code=1))
    assert "refusing to unpack member" in message
    assert not list(project.cache.rglob("outside.py"))


def test_an_archive_cut_off_on_its_way(project):
    project.index.answers[".tar.gz"] = "cut"
    assert "was cut off" in one_error(refused(project, code=4))


def test_an_archive_cut_off_on_the_index(project):
    whole = archive()
    project.index.add(VERSION, whole[: len(whole) // 2])
    assert "the archive is damaged" in one_error(refused(project, code=1))


def test_an_archive_with_a_wrong_checksum_inside(project):
    whole = bytearray(archive())
    whole[-8] ^= 1
    assert gzip.compress(b"")[-8:] == bytes(8)  # where the CRC stands
    project.index.add(VERSION, bytes(whole))
    assert "the archive is damaged" in one_error(refused(project, code=1))


@pytest.mark.parametrize(
    ("part", "answer", "message"),
    [
        ("/simple/", 500, "the index answered 500"),
        ("/simple/", 403, "the index answered 403"),
        ("/simple/", b"<not an index", "no source archive"),
        (".tar.gz", 404, "the index answered 404"),
        (".tar.gz", 500, "the index answered 500"),
    ],
)
def test_an_index_that_fails(project, part, answer, message):
    project.index.answers[part] = answer
    code = 2 if isinstance(answer, bytes) else 4
    assert message in one_error(refused(project, code=code))


def test_an_index_that_answers_404(project):
    project.index.answers["/simple/"] = 404
    message = one_error(refused(project, code=2))
    assert "no index knows the project vllm" in message
    assert project.index.url in message


@pytest.mark.slow
@pytest.mark.parametrize("part", ["/simple/", ".tar.gz"])
def test_an_index_that_does_not_answer(project, part):
    project.index.answers[part] = threading.Event()
    project.env["PIP_TIMEOUT"] = "0.3"
    try:
        message = one_error(refused(project, code=4))
    finally:
        project.index.answers[part].set()
    assert "did not answer within 0.3 s" in message


def test_an_index_that_is_not_there(project):
    project.env["PIP_INDEX_URL"] = "http://127.0.0.1:9/simple"
    assert "the index cannot be reached" in one_error(refused(project, code=4))


def test_a_fault_of_the_index_as_json(project):
    project.index.answers["/simple/"] = 500
    run = project.apply("--json", code=4, in_process=False)
    (error,) = run.json_errors
    assert error["what"].startswith("the index answered 500")
    assert error["where"] == project.index.url
    assert error["hint"]


# --- the cache --------------------------------------------------------------------------------


def cut_in_half(path):
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


CUTS = {
    "a file of the package": lambda entry: cut_in_half(entry / "files" / LLAMA),
    "another file": lambda entry: cut_in_half(entry / "files" / "PKG-INFO"),
    "a file is missing": lambda entry: (entry / "files" / ENGINE).unlink(),
    "seal": lambda entry: cut_in_half(entry / "seal.json"),
    "manifest": lambda entry: cut_in_half(entry / "manifest.json"),
    "half an entry": lambda entry: shutil.rmtree(entry / "files" / "vllm"),
}


@pytest.mark.slow
@pytest.mark.parametrize("cut", CUTS)
def test_a_cache_entry_cut_off_half_way(applied, cut):
    (entry,) = (applied.cache / "trees").iterdir()
    CUTS[cut](entry)
    asked = applied.index.count(".tar.gz")
    before = snapshot(applied.target)
    run = applied.apply("--checkout", "off", "--offline", code=4)
    message = one_error(run)
    assert ("is damaged" in message) or ("not in the cache" in message)
    assert "without --offline" in message
    assert not (applied.folder / "off").exists()
    online = applied.apply("--checkout", "on")
    assert applied.index.count(".tar.gz") == asked + 1
    assert snapshot(applied.target) == before
    assert (applied.folder / "on" / "vpatch.lock").read_bytes() == before["vpatch.lock"][1]
    assert "error" not in online.err


@pytest.mark.slow
@pytest.mark.parametrize("offline", [[], ["--offline"]])
def test_a_base_repository_cut_off_half_way(applied, offline):
    (pack,) = (applied.cache / "trees").glob("*/repo.git/objects/pack/*.pack")
    data = pack.read_bytes()
    # The checkout has the same file: only the cache's own copy is cut.
    pack.unlink()
    pack.write_bytes(data[: len(data) // 2])
    applied.apply("--checkout", "again", *offline)
    lock = (applied.target / "vpatch.lock").read_bytes()
    assert (applied.folder / "again" / "vpatch.lock").read_bytes() == lock
    git(applied.folder / "again", "fsck")


# --- kills ------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["cold", "replace"])
def test_a_kill_at_every_step_of_an_apply(project, kind):
    """Driven from another process, which forks: a kill before each change of the disk."""
    if kind == "replace":
        project.apply("--patch", "name-proj")
        (project.target / "build").mkdir()
        (project.target / "build" / "mine.o").write_bytes(b"\0")
    driver = [sys.executable, "-m", "tests.commands.kill_driver", str(project.folder)]
    run = subprocess.run(
        [*driver, str(project.cache), "apply", "--vllm", VERSION],
        env=os.environ | project.env,
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-3000:]
    report = json.loads(run.stdout.splitlines()[-1])
    assert report["old"] > 10
    # An exchange of names has steps behind it, the first renaming is the last of all.
    assert (report["new"] > 0) == (kind == "replace")


@pytest.mark.slow
def test_a_kill_of_git_too_at_each_of_its_calls(applied, tmp_path):
    """The whole process group, as git begins; git does not outlive it."""
    old = snapshot(applied.target)
    applied.patch("slow-mode", SLOW_MODE.replace('"slow"', '"slower"'))
    calls = tmp_path / "calls"
    fake = tmp_path / "bin" / "git"
    fake.parent.mkdir()
    applied.env["PATH"] = f"{fake.parent}:{os.environ['PATH']}"

    def kill_at(call):
        """Have git's `call`-th run kill its group; 0 kills none."""
        calls.write_text("")
        fake.write_text(
            f"""#!/bin/sh
echo >> {calls}
if [ "$(wc -l < {calls})" = {call} ]; then {shutil.which("git")} "$@" & kill -9 0; fi
exec {shutil.which("git")} "$@"
"""
        )
        fake.chmod(0o755)

    kill_at(0)
    applied.apply("--checkout", "other")
    new = snapshot(applied.folder / "other")
    total = len(calls.read_text().splitlines())
    assert total > 3
    for call in range(1, total + 1):
        kill_at(call)
        process = applied.start("apply", "--vllm", VERSION, start_new_session=True)
        process.communicate(timeout=LIMIT)
        if process.returncode == 0:
            # What an earlier run had made is kept, so that this one needs git less often.
            assert contents(snapshot(applied.target)) == contents(new)
            break
        assert process.returncode == -signal.SIGKILL
        assert contents(snapshot(applied.target)) in (contents(old), contents(new))
    assert call > 3
    kill_at(0)
    applied.apply()
    assert contents(snapshot(applied.target)) == contents(new)
    assert names_in(applied.folder / ".vpatch") == [LABEL]


def contents(found):
    """Without git's index, which holds times."""
    return {path: what for path, what in found.items() if path != ".git/index"}


# --- several at once --------------------------------------------------------------------------


@pytest.mark.slow
def test_applies_at_once_with_a_cold_cache(project):
    processes = [project.start("apply", "--vllm", VERSION) for _ in range(4)]
    runs = [(*process.communicate(timeout=LIMIT), process.returncode) for process in processes]
    assert [code for *_, code in runs] == [0] * 4, runs
    assert sum("commit" not in out and "already is" in out for out, *_ in runs) == 3
    assert project.index.count(".tar.gz") == 1
    assert names_in(project.folder / ".vpatch") == [LABEL]
    assert list((project.cache / "staging").iterdir()) == []
    git(project.target, "fsck", "--strict")
    assert project.run("check").code == 0


@pytest.mark.slow
def test_applies_at_once_into_several_targets(project):
    processes = [project.start("apply", "--vllm", VERSION, "--checkout", f"t{n}") for n in range(3)]
    ends = [(*process.communicate(timeout=LIMIT), process.returncode) for process in processes]
    assert [code for *_, code in ends] == [0] * 3, ends
    assert project.index.count(".tar.gz") == 1
    locks = {(project.folder / f"t{n}" / "vpatch.lock").read_bytes() for n in range(3)}
    assert len(locks) == 1


@pytest.mark.slow
def test_applies_at_once_of_different_patches(project):
    """Whoever is last decides, and the checkout is all of the one or all of the other."""
    project.run("status", "--vllm", VERSION)
    ids = ("name-proj", "slow-mode")
    processes = [project.start("apply", "--vllm", VERSION, "--patch", ids[n % 2]) for n in range(4)]
    ends = [(*process.communicate(timeout=LIMIT), process.returncode) for process in processes]
    assert [code for *_, code in ends] == [0] * 4, ends
    named = NAMED in (project.target / LLAMA).read_bytes()
    slow = b"slow" in (project.target / ENGINE).read_bytes()
    assert named != slow
    project.run("check")


# --- a target that cannot be written ----------------------------------------------------------


@pytest.fixture
def sealed():
    """Make folders read-only, and writable again at the end."""
    folders = []

    def seal(*paths):
        for path in paths:
            folders.append((path, path.stat().st_mode))
            path.chmod(0o555)

    yield seal
    for path, mode in folders:
        path.chmod(mode)


@pytest.mark.parametrize("what", ["the target", "the folder around it"])
def test_a_read_only_target(applied, sealed, what):
    target = applied.target
    if what == "the folder around it":
        shutil.rmtree(target.parent / f".{LABEL}.vpatch")
    sealed(target if what == "the target" else target.parent)
    before = applied.state()
    message = one_error(applied.apply("--patch", "name-proj", code=4, prefix=prefix()))
    assert "cannot be written: Permission denied" in message
    assert "correct the permissions" in message
    assert "nothing was changed" in message
    assert applied.state() == before


def test_read_only_folders_in_what_was_built(applied, sealed):
    deps = applied.target / "build" / "deps"
    deps.mkdir(parents=True)
    (deps / "a.o").write_bytes(b"\0")
    sealed(deps)
    applied.apply("--patch", "name-proj", prefix=prefix())
    assert (deps / "a.o").read_bytes() == b"\0"
    assert names_in(applied.folder / ".vpatch") == [LABEL]


def test_a_new_target_in_a_read_only_folder(project, sealed):
    place = project.folder / "place"
    place.mkdir()
    sealed(place)
    message = one_error(project.apply("--checkout", "place/new", code=4, prefix=prefix()))
    assert "place/new: cannot be written: Permission denied" in message
    assert list(place.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("args", [[], ["--force"]])
@pytest.mark.parametrize("holds", ["file", "folder", "repository"])
def test_a_target_that_vpatch_did_not_make(project, args, holds):
    mine = project.folder / "mine"
    if holds == "file":
        mine.write_text("mine")
    else:
        (mine / "src").mkdir(parents=True)
        (mine / "src" / "a.py").write_text("mine")
    if holds == "repository":
        git(mine, "init", "-q")
    before = snapshot(project.folder)
    message = one_error(project.apply("--checkout", "mine", *args, code=2))
    assert "mine: is not a checkout that vpatch made" in message
    after = snapshot(project.folder)
    assert {p: w for p, w in after.items() if not p.startswith(".mine.vpatch")} == before


@pytest.mark.slow
@pytest.mark.parametrize("to", [".", "../link", "../elsewhere/sub/.."])
def test_a_target_under_another_name(project, to):
    """The folder that a dot or a link stands for is the target."""
    elsewhere = project.folder / "elsewhere"
    elsewhere.mkdir()
    if ".." in to[2:]:
        (elsewhere / "sub").mkdir()
    (project.folder / "link").symlink_to(elsewhere)
    options = ["--patches-dir", project.patches]
    if (elsewhere / "sub").exists():
        before = snapshot(project.folder)
        assert "is not a checkout" in one_error(
            project.apply(*options, "--checkout", to, cwd=elsewhere, code=2)
        )
        assert before.items() <= snapshot(project.folder).items()
        return
    project.apply(*options, "--checkout", to, cwd=elsewhere)
    assert NAMED in (elsewhere / LLAMA).read_bytes()
    assert (project.folder / "link").is_symlink()
    again = project.apply(*options, "--checkout", "link")
    assert "already is exactly this" in again.out
    project.apply(*options, "--checkout", "link", "--patch", "name-proj")
    assert b"fast" in (elsewhere / ENGINE).read_bytes()
    names = {".vpatch", "elsewhere", "link", "patches"}
    assert set(names_in(project.folder)) <= names


# --- disks ------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path):
    """A folder with little room: a file system of its own, where we may mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=4m", "vpatch-test", str(folder)]
    mounted = subprocess.run(command, capture_output=True, check=False).returncode == 0

    def shrink(size):
        """Leave so many bytes. Returns what to put before a command."""
        if mounted:
            options = f"remount,size={size + used(folder)}"
            subprocess.run(["mount", "-o", options, str(folder)], check=True)
            return ()
        return ("prlimit", f"--fsize={size // 4}")

    yield folder, shrink
    if mounted:
        subprocess.run(["umount", str(folder)], check=True)


def used(folder):
    blocks = os.statvfs(folder)
    return (blocks.f_blocks - blocks.f_bfree) * blocks.f_frsize


@pytest.mark.slow
@pytest.mark.parametrize("size", [0, 40_000, 80_000, 160_000])
def test_a_full_disk_at_the_target(applied, small_disk, size):
    folder, shrink = small_disk
    target = folder / "out"
    applied.apply("--checkout", target)
    before = snapshot(target)
    command = shrink(size)
    run = applied.run(
        "apply", "--vllm", "0.51.0", "--checkout", target, code=4, in_process=False, prefix=command
    )
    message = one_error(run)
    assert f"error: {target}: cannot be written: " in message
    assert FULL.search(message)
    assert "free space" in message
    assert snapshot(target) == before
    assert names_in(folder) == ["out"]


@pytest.mark.slow
@pytest.mark.parametrize("size", [4_000, 100_000, 260_000])
def test_a_full_disk_at_the_cache(applied, small_disk, size):
    folder, shrink = small_disk
    applied.env["VPATCH_CACHE_DIR"] = str(folder / "cache")
    applied.apply("--checkout", "first")
    before = snapshot(folder / "cache" / "trees")
    target = snapshot(applied.target)
    command = shrink(size)
    words = ("apply", "--vllm", "0.51.0", "--checkout", applied.target)
    run = applied.run(*words, code=4, in_process=False, prefix=command)
    message = one_error(run)
    assert str(folder / "cache") in message
    assert FULL.search(message)
    assert snapshot(applied.target) == target
    after = snapshot(folder / "cache" / "trees")
    assert {path: what for path, what in after.items() if path in before} == before
    assert not list((folder / "cache" / "staging").glob("*"))
    assert not list((folder / "cache" / "trees").glob("*/repo.git.part"))


# --- interrupts -------------------------------------------------------------------------------


def interrupt(process):
    os.kill(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert err.count("interrupted") == 1


@pytest.mark.slow
def test_an_interrupt_while_it_downloads(project):
    hang = threading.Event()
    project.index.answers[".tar.gz"] = hang
    process = project.start("apply", "--vllm", VERSION)
    until(lambda: project.index.count(".tar.gz"))
    interrupt(process)
    hang.set()
    assert not project.target.exists()
    assert list((project.cache / "staging").iterdir()) == []
    assert not (project.cache / "trees").exists()
    project.index.answers.clear()
    project.apply()


@pytest.mark.slow
@pytest.mark.parametrize("exists", [True, False])
def test_an_interrupt_while_it_writes(project, exists, tmp_path):
    """A git that waits gives us the moment."""
    if exists:
        project.apply()
        project.patch("slow-mode", SLOW_MODE.replace('"slow"', '"slower"'))
    else:
        project.run("status", "--vllm", VERSION)
    before = project.state()
    real = shutil.which("git")
    (tmp_path / "bin").mkdir()
    fake = tmp_path / "bin" / "git"
    fake.write_text(
        f"""#!/bin/sh
case "$*" in *checkout*|*read-tree*) touch {tmp_path}/reached; exec sleep 20;; esac
exec {real} "$@"
"""
    )
    fake.chmod(0o755)
    project.env["PATH"] = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    process = project.start("apply", "--vllm", VERSION, start_new_session=True)
    until((tmp_path / "reached").exists)
    # As a terminal does: to all of them.
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 130, err
    assert err.count("interrupted; nothing was left half done") == 1
    assert "Traceback" not in err
    assert "error" not in err
    kept = {path: what for path, what in before.items() if path not in ADDED}
    assert kept.items() <= project.state().items()
    assert names_in(project.folder / ".vpatch") == ([LABEL] if exists else [])
    del project.env["PATH"]
    project.apply()


# --- what the user has done in the checkout ---------------------------------------------------


def _commit(target):
    (target / LLAMA).write_text("mine\n")
    git(target, "commit", "-qam", "mine")


def _stash(target):
    (target / LLAMA).write_text("mine\n")
    git(target, "stash", "-q")


CHANGES = {
    "a modified file": lambda t: (t / LLAMA).write_text("mine\n"),
    "an untracked file": lambda t: (t / "mine.py").write_text("mine\n"),
    "a commit": _commit,
    "another branch": lambda t: git(t, "checkout", "-qb", "mine"),
    "a stash": _stash,
}


@pytest.mark.slow
@pytest.mark.parametrize("change", CHANGES)
def test_changes_of_the_user_are_never_overwritten(applied, change):
    CHANGES[change](applied.target)
    (applied.target / "build").mkdir()
    (applied.target / "build" / "a.o").write_bytes(b"\0")
    before = applied.state()
    run = applied.apply("--patch", "name-proj", code=1)
    assert "holds changes that vpatch did not make:\n    " in run.err
    assert "overwrite them with --force" in run.err
    assert applied.state() == before
    applied.apply("--patch", "name-proj", "--force")
    assert (applied.target / "build" / "a.o").read_bytes() == b"\0"
    assert "already is exactly this" in applied.apply("--patch", "name-proj").out


# --- secrets ----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("answer", [None, 404, 500, 401, "cut", "gone"])
def test_credentials_of_an_index_appear_nowhere(project, answer):
    secret = "hunter2token"  # noqa: S105 - made up
    url = project.index.url.replace("http://", f"http://bob:{secret}@")
    project.env["PIP_INDEX_URL"] = url
    if answer == "gone":
        project.env["PIP_INDEX_URL"] = f"http://bob:{secret}@127.0.0.1:9/simple"
    elif answer == "cut":
        project.index.answers[".tar.gz"] = answer
    elif answer:
        project.index.answers["/simple/"] = answer
    codes = {None: 0, 404: 2}
    for more in ([], ["--json"]):
        run = project.apply(*more, code=codes.get(answer, 4))
        assert secret not in run.out + run.err
        assert "bob" not in run.out + run.err
    if answer != "gone":
        assert any(project.index.authorized)
    for folder in (project.folder, project.cache):
        for path in folder.rglob("*"):
            if path.is_file():
                assert secret.encode() not in path.read_bytes(), path


@pytest.mark.slow
def test_what_others_wrote_in_a_checkout_is_no_utf_8(applied):
    """A commit's message and a branch's name may have any bytes."""
    odd = b"caf\xe9"
    message = applied.folder / "message"
    message.write_bytes(odd)
    git(applied.target, "commit", "-q", "--amend", "-F", str(message))
    head = git(applied.target, "rev-parse", "HEAD").strip()
    packed = applied.target / ".git" / "packed-refs"
    packed.write_bytes(packed.read_bytes() if packed.exists() else b"")
    with packed.open("ab") as file:
        file.write(head.encode() + b" refs/heads/" + odd + b"\n")
    assert "a ref of yours: refs/heads/caf\\xe9\n" in applied.apply(code=1).errors
    assert "Traceback" not in applied.run("check", code=1).err
