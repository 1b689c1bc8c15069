"""Patches for what is really there: a vendor's build, and no release's archive."""

from __future__ import annotations

import json

import pytest

from tests.commands.install import official
from tests.commands.install.environments import install_wheel
from tests.commands.install.installed import Installed, made
from tests.environments import bare_environment
from tests.projects import ENGINE, FILES, LLAMA, NAMED, VERSION

LOCAL = f"{VERSION}+amzn2023"
# Beside the place of a patch, and in the place of another one.
WIDER = FILES[LLAMA].replace(b"Linear(4, 8)", b"Linear(4, 9)")
OTHER = b'def start(config):\n    return "other"\n'
MORE = {"vllm/__init__.py": b"vendor = True\n", "vllm/main.py": b"def main():\n    pass\n"}


@pytest.fixture
def vendor(project, tmp_path):
    """An environment with a vendor's build: three files of the release are others."""
    return made(project, tmp_path, version=LOCAL, files={LLAMA: WIDER, **MORE})


def install(env, *args, **options):
    return env.project.run("install", "--python", env.python, *args, **options)


def lock_of(env):
    return json.loads(env.read(f"vllm-{LOCAL}.dist-info/vpatch.lock"))


def test_a_vendors_build_is_patched_and_given_back_to_the_byte(vendor):
    before = vendor.state()
    run = install(vendor)
    assert run.out == f"vllm {LOCAL} in {vendor.site}\n  2 patches with 2 files: now in it\n"
    assert NAMED in vendor.read(LLAMA)
    assert b"Linear(4, 9)" in vendor.read(LLAMA)
    source = lock_of(vendor)["source"]
    assert (source["kind"], source["version"]) == ("environment", LOCAL)
    assert source["origin"] == str(vendor.python)
    vendor.uninstall()
    assert vendor.state() == before


def test_a_second_install_decides_on_the_files_from_before_the_first(vendor):
    before = vendor.state()
    install(vendor, "--patch", "name-proj")
    digest = lock_of(vendor)["source"]["digest"]
    assert "in it already; nothing was written" in install(vendor, "--patch", "name-proj").out
    assert "those of the earlier install are not" in install(vendor).out
    lock = lock_of(vendor)
    assert lock["source"]["digest"] == digest
    assert [patch["id"] for patch in lock["patches"]] == ["name-proj", "slow-mode"]
    vendor.uninstall()
    assert vendor.state() == before


def test_a_lock_for_a_release_is_refused_where_the_vendor_changed_a_place(vendor):
    before = vendor.state()
    run = vendor.install(code=1)
    assert run.codes == ("wheel.files-differ",)
    assert f"the files are not those of vLLM {VERSION}" in run.err
    assert "leave out --vllm and --recipe to patch the files that are there" in run.err
    assert vendor.state() == before


def test_a_lock_for_another_environment_is_refused(vendor, project, tmp_path):
    made(project, tmp_path / "other", version=LOCAL)
    other = tmp_path / "other" / "env"
    run = install(vendor, "--vllm", f"env:{other}", code=1)
    assert run.codes == ("wheel.files-differ",)
    assert f"the files are not those of the environment {other}" in run.err


def test_a_place_that_the_vendor_changed_is_a_conflict(project, tmp_path):
    env = made(project, tmp_path, version=LOCAL, files={ENGINE: OTHER})
    before = env.state()
    run = install(env, code=1)
    assert run.codes == ("checkout.patch-stops",)
    assert "slow-mode is conflict" in run.err
    assert env.state() == before
    install(env, "--patch", "name-proj")
    assert NAMED in env.read(LLAMA)


@pytest.fixture
def recorded(project):
    """The patch that names a projection is on record for the release."""
    project.run("test", "name-proj", "--vllm", VERSION, "--record")


@pytest.mark.usefixtures("recorded")
def test_code_that_is_as_in_no_release_is_said_and_strict_stops(vendor):
    run = install(vendor, "--patch", "name-proj", "--strict", code=1)
    assert run.codes == ("checkout.patch-stops",)
    assert "new shape: differs from" in run.err
    run = install(vendor, "--patch", "name-proj")
    assert f"name-proj is needed: new shape: differs from {VERSION} in Llama.__init__" in run.err


@pytest.mark.usefixtures("recorded")
def test_code_that_is_as_in_a_release_is_not_new(project, tmp_path):
    env = made(project, tmp_path, version=LOCAL, files=MORE)
    run = install(env, "--patch", "name-proj", "--strict")
    assert "shape" not in run.err


def test_an_environment_says_which_files_of_the_release_are_others(vendor):
    summary = f"differs from the release {VERSION} in 2 files, and calls itself vllm {LOCAL}"
    names = f"  {LLAMA}: not as in the release, and as RECORD names it"
    run = vendor.verify(code=1)
    assert summary in run.out
    assert names in run.out
    # With a lock that pins these files, they are as they should be.
    install(vendor)
    run = vendor.verify()
    assert f"differs from the release {VERSION} in 1 file" in run.out
    assert "with 2 patches by vpatch install: 2 files are as the patches make them" in run.out
    assert vendor.verify("--json").json["state"] == "installed"


def test_a_lock_of_other_files_proves_nothing(vendor):
    install(vendor)
    info = vendor.site / f"vllm-{LOCAL}.dist-info"
    text = (info / "vpatch.lock").read_text()
    digest = json.loads(text)["source"]["digest"]
    (info / "vpatch.lock").write_text(text.replace(digest, f"sha256:{'0' * 64}"))
    recorded_rows(vendor, info)
    found = vendor.verify("--json", code=1).json
    assert found["state"] == "unproven"
    assert found["doubts"] == [f"it is of sha256:{'0' * 64}, and vllm-{LOCAL} is another"]


def recorded_rows(env, info):
    """Write RECORD anew: anybody can."""
    record = info / "RECORD"
    rows = [line.split(",")[0] for line in record.read_text().splitlines()]
    content = {path: env.read(path) for path in rows if path != f"{info.name}/RECORD"}
    record.write_bytes(official.record_of(content, f"{info.name}/RECORD"))


def test_a_file_that_is_as_a_patch_makes_it_is_said_to_be(project, tmp_path):
    project.apply()
    patched = (project.target / LLAMA).read_bytes()
    env = made(project, tmp_path, version=LOCAL, files={LLAMA: patched, ENGINE: OTHER})
    run = env.verify(code=1)
    assert "in 2 files (1 as patches at hand make it)" in run.out
    assert f"  {LLAMA}: not as in the release, and as RECORD names it (by name-proj)" in run.out
    found = env.verify("--json", code=1).json
    assert (found["patches"], found["by_patches"]) == (["name-proj"], [LLAMA])


def test_a_build_whose_version_no_release_has_is_unknown_and_can_be_patched(project, tmp_path):
    version = "0.50.1rc1.dev259+g23d65ff98"
    env = made(project, tmp_path, version=version)
    run = env.verify(code=1)
    assert f"an unknown build: no release of vLLM has the version {version}: " in run.out
    assert env.verify("--json", code=1).json["state"] == "unknown"
    before = env.state()
    install(env)
    assert env.verify("--json").json["state"] == "installed"
    env.uninstall()
    assert env.state() == before


def test_what_is_installed_is_applied(vendor):
    install(vendor)
    run = vendor.project.run("status", "--vllm", f"env:{vendor.python}", "--json")
    (tree,) = run.json["trees"]
    states = {one["patch"]: one["state"] for one in tree["decisions"]}
    assert states == {"name-proj": "applied", "slow-mode": "applied"}


def test_a_vendors_wheel_is_patched_as_it_is(project, tmp_path):
    path = official.write(tmp_path / "official", version=LOCAL, files={LLAMA: WIDER, **MORE})
    run = project.run("wheel", "--vllm", VERSION, "--wheel", path, code=1)
    assert run.codes == ("wheel.files-differ",)
    done = project.run("wheel", "--wheel", path, "--json").json
    assert done["version"].startswith(f"{LOCAL}.vpatch.")
    source = done["lock"]["source"]
    assert (source["kind"], source["digest"]) == ("wheel", f"sha256:{done['official_sha256']}")
    python = bare_environment(tmp_path / "env").python
    env = Installed(project, python, install_wheel(python, project.folder / done["wheel"]))
    assert NAMED in env.read(LLAMA)
    assert b"Linear(4, 9)" in env.read(LLAMA)
    assert "from a wheel by vpatch with 2 patches" in env.verify().out
    # The original is in the cache, by its digest.
    path.unlink()
    assert env.verify("--json").json["state"] == "wheel"


def test_a_vendors_build_runs_patched_as_it_is(vendor, project, monkeypatch):
    before = vendor.state()
    words = ("--patch", "name-proj", "--print-env", "--trust")
    run = project.run("run", "--vllm", VERSION, *words, "--python", vendor.python, code=1)
    assert run.codes == ("engine.files-differ",)
    run = project.run("run", "--python", vendor.python, *words)
    monkeypatch.setenv("PYTHONPATH", run.out.partition("=")[2].strip())
    assert vendor.state() == before
    run = vendor.verify()
    assert "an overlay of vpatch run with 1 patch: 1 file is as the patches make it" in run.out
    assert project.run("run", "--python", vendor.python, *words).out
