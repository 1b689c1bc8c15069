"""What is said of the mode of an image before anything is built; no Docker is asked."""

from __future__ import annotations

import json
import shutil

import pytest

from tests.cli.conftest import PLUGIN, PLUGIN_ENGINE, plug
from tests.projects import VERSION, write_tree
from vpatch.app import build, build_settings
from vpatch.checkout.lockfile import LockFile
from vpatch.docker.engine import DockerImage
from vpatch.errors import VpatchError
from vpatch.harness.machine import this_machine
from vpatch.util.digest import digest_of

OFFLINE = ("build-image", "--vllm", VERSION, "--offline")
DRY = ("build-image", "--vllm", VERSION, "--dry-run")
NOTE = "note: the image is an overlay, so python:3.12 must have vLLM 0.50.0; --mode cpu installs"


@pytest.fixture
def gpus(monkeypatch):
    """Make the machine one with or without GPUs."""

    def having(*names):
        machine = this_machine()
        object.__setattr__(machine, "gpus", names)
        for module in (build, build_settings):
            monkeypatch.setattr(module, "this_machine", lambda: machine)

    return having


def test_a_base_on_a_machine_without_a_gpu(project, gpus):
    gpus()
    assert NOTE in project.run(*DRY, "--base", "python:3.12").err


@pytest.mark.parametrize("options", [("--mode", "overlay"), ("--mode", "cpu")])
def test_a_mode_that_was_asked_for_needs_no_word(project, gpus, options):
    gpus()
    assert "note: the image" not in project.run(*DRY, "--base", "python:3.12", *options).err


def test_a_base_on_a_machine_with_a_gpu(project, gpus):
    gpus("NVIDIA H200")
    assert "note: the image" not in project.run(*DRY, "--base", "python:3.12").err


@pytest.mark.parametrize("mode", [("--mode", "cpu"), (), ("--dry-run",)])
def test_offline_refuses_a_build_that_fetches(applied, gpus, mode):
    gpus()
    run = applied.run(*OFFLINE, *mode, code=2)
    assert run.err.endswith(
        "error: a build in the mode cpu fetches packages, which --offline forbids\n"
        "  next: leave out --offline, or use --mode overlay with a --base on this machine\n"
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--push", "--tag", "a:1"), "--push needs a registry, which --offline forbids"),
        (("--base", "a:1", "--repin"), "a:1: --repin asks a registry, which --offline forbids"),
    ],
)
def test_offline_asks_no_registry(applied, options, said):
    run = applied.run(*OFFLINE, *options, code=2)
    assert f"error: {said}\n  next: leave out one of the two\n" in run.err
    assert run.codes == ("image.offline",)


class Engine:
    """An engine with one image, which asks no registry."""

    platform = "linux/amd64"

    def image(self, name):
        return DockerImage("sha256:1", (), self.platform, "", {}) if name == "here:1" else None

    def close(self):
        pass


@pytest.mark.parametrize(
    ("base", "platform"), [("away:1", "linux/amd64"), ("here:1", "linux/arm64")]
)
def test_offline_pulls_no_base(applied, monkeypatch, base, platform):
    monkeypatch.setattr(build, "Docker", Engine)
    run = applied.run(*OFFLINE, "--base", base, "--platform", platform, code=2)
    assert run.err.endswith(
        f"error: {base}: this machine has no such image for {platform}, and --offline forbids "
        "to pull it\n"
        "  next: name a --base that `docker images` lists, or leave out --offline to pull it\n"
    )


def test_offline_builds_an_overlay_on_a_base_that_is_here(applied, monkeypatch):
    built = []

    def build_image(*given):
        built.append(given[1].image)
        raise VpatchError("enough")

    monkeypatch.setattr(build, "Docker", Engine)
    monkeypatch.setattr(build, "build_image", build_image)
    run = applied.run(*OFFLINE, "--base", "here:1", "--platform", "linux/amd64", code=1)
    assert run.err.endswith("error: enough\n")
    assert [(image.mode, image.pinned) for image in built] == [("overlay", "sha256:1")]


TREES = ("--vllm", "0.50", "--tree", "vllm-tiny==1.0.0")


def test_a_dry_run_of_several_trees(plugged):
    words = ("build-image", *TREES, "--mode", "cpu", "--dry-run")
    planned = plugged.run(*words, "--json").json["planned"]
    assert planned["trees"] == {"vllm-tiny": [PLUGIN_ENGINE]}
    assert planned["build_arguments"]["cpu.Dockerfile"]["BESIDE"] == "vllm-tiny==1.0.0"
    assert f"trees            vllm-tiny: {PLUGIN_ENGINE}\n" in plugged.run(*words).out
    assert plugged.run(*words, "--checkout", "x", code=2).codes == ("cli.conflicting-options",)


def test_a_cpu_image_installs_releases_alone(plugged):
    write_tree(plugged.folder / "plugin", PLUGIN)
    words = ("--vllm", "0.50", "--tree", "vllm-tiny=./plugin", "--mode", "cpu", "--dry-run")
    run = plugged.run("build-image", *words, code=2)
    assert run.codes == ("image.not-a-release",)
    assert "vllm-tiny is not one" in run.errors


@pytest.mark.parametrize("path", ["csrc/op.cu", "src/vllm_tiny/a.py"])
def test_a_tree_beside_vllm_gives_only_python_of_its_package(plugged, path):
    folder = plug(plugged, "more", f"- add-file: {path}\n  from: added", "text: def start")
    (folder / "added").write_bytes(b"z = 1\n")
    run = plugged.run("build-image", *TREES, "--mode", "cpu", "--dry-run", code=2)
    assert run.codes == ("image.wrong-mode",)
    assert f"but the patches change {path}" in run.errors
    assert run.errors.startswith(
        "error: more: an image takes only Python files of the package vllm_tiny"
    )


def test_a_plugin_alone_is_no_image_of_vllm(plugged):
    run = plugged.run("build-image", "--tree", "vllm-tiny==1.0.0", code=2)
    assert run.codes == ("image.not-a-release",)


def locked_pair(project):
    """The locks of vLLM and of the plugin, as `apply` wrote them."""
    project.run("apply", *TREES)
    return [
        project.folder / f".vpatch/{name}/vpatch.lock"
        for name in ("vllm-0.50.0", "vllm-tiny-1.0.0")
    ]


def test_locks_of_one_image(plugged):
    """A lock of vLLM that names others is not built without them, or with others."""
    vllm, tiny = locked_pair(plugged)

    def planned(*locks, code=0):
        words = [word for lock in locks for word in ("--lock", lock)]
        return plugged.run("build-image", *words, "--dry-run", code=code)

    assert PLUGIN_ENGINE in planned(tiny, vllm).out
    for locks, reason in (
        ((tiny,), "no lock is of vLLM"),
        ((vllm, tiny, shutil.copy(tiny, plugged.folder / "copy")), "are both of vllm-tiny"),
    ):
        run = planned(*locks, code=2)
        assert run.codes == ("image.wrong-locks",)
        assert reason in run.errors
    image = {"mode": "overlay", "base": "x", "pinned": "x"}
    content = json.loads(vllm.read_text())
    for digest, locks, reason in (
        (digest_of(tiny.read_bytes()), (vllm,), "its image also has vllm-tiny"),
        (digest_of(b"other"), (vllm, tiny), "it is not the lock of vllm-tiny that"),
    ):
        trees = {"vllm-tiny": {"lock": digest, "package": None, "contents": None}}
        vllm.write_text(LockFile(**content | {"image": image | {"trees": trees}}).dump())
        run = planned(*locks, code=2)
        assert run.codes == ("image.wrong-locks",)
        assert reason in run.errors
