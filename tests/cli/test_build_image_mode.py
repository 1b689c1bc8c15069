"""What is said of the mode of an image before anything is built; no Docker is asked."""

from __future__ import annotations

import pytest

from tests.projects import VERSION
from vpatch.app import build, build_settings
from vpatch.docker.engine import DockerImage
from vpatch.errors import VpatchError
from vpatch.harness.machine import this_machine

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


def test_an_image_of_several_trees(project):
    trees = ("--vllm", "0.50", "--tree", "vllm-ascend==1.0.0")
    assert project.run("build-image", *trees, code=2).codes == ("image.several-trees",)
