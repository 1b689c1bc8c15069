"""What is said of the mode of an image before anything is built; no Docker is asked."""

from __future__ import annotations

import json
import shutil

import pytest

from tests.commands.conftest import PLUGIN, PLUGIN_ENGINE, plug
from tests.index_server import sdist
from tests.projects import VERSION, write_tree
from vpatch.checkout.lockfile import LockFile
from vpatch.commands.build_image import settings as build_settings
from vpatch.commands.build_image import usecase as build
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
        return DockerImage("sha256:1", (), self.platform, "", {}, {}) if name == "here:1" else None

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
        (digest_of(tiny.read_bytes()), (vllm,), "its image has patches of vllm-tiny as well"),
        (digest_of(b"other"), (vllm, tiny), "it is not the lock of vllm-tiny that"),
        (None, (vllm, tiny), "is of an image without vllm-tiny"),
    ):
        named = {"lock": digest, "manifest": "x", "source": "x", "name": "vllm_tiny"}
        trees = {"vllm-tiny": named} if digest else {}
        vllm.write_text(LockFile(**content | {"image": image | {"trees": trees}}).dump())
        run = planned(*locks, code=2)
        assert run.codes == ("image.wrong-locks",)
        assert reason in run.errors


def renamed_plugin(project, version, more=()):
    """A release of the plugin whose package has another name."""
    files = {path.replace("vllm_tiny/", "tiny/"): text for path, text in PLUGIN.items()}
    data = sdist(version, files | dict.fromkeys(more, b""), "vllm-tiny")
    project.index.add(version, data, "vllm-tiny")
    return ("--vllm", "0.50", "--tree", f"vllm-tiny=={version}", "--mode", "cpu", "--dry-run")


def test_a_package_with_another_name_than_its_tree(plugged):
    """What a patch touches beside it, such as a tool, does not tell the package."""
    folder = plug(plugged, "more", "- add-file: benchmarks/z.py\n  from: added", "text: def start")
    (folder / "added").write_bytes(b"z = 1\n")
    words = renamed_plugin(plugged, "1.2.0", ["tests/__init__.py"])
    run = plugged.run("build-image", *words, code=2)
    assert run.codes == ("image.wrong-mode",)
    assert "of the package tiny from the tree vllm-tiny, but" in run.errors
    assert "the patches change benchmarks/z.py" in run.errors
    folder.rename(plugged.folder / "aside")
    assert "vllm-tiny: tiny/engine.py\n" in plugged.run("build-image", *words).out


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["other/__init__.py"], "several packages (other, tiny) at its root"),
        (["vllm/__init__.py", "vllm/_version.py"], "several packages (tiny, vllm) at its root"),
    ],
)
def test_a_tree_with_several_packages(plugged, more, said):
    run = plugged.run("build-image", *renamed_plugin(plugged, "1.3.0", more), code=2)
    assert run.codes == ("image.wrong-mode",)
    assert said in run.errors


def test_two_trees_with_one_package(plugged):
    words = renamed_plugin(plugged, "1.4.0")
    files = {"PKG-INFO": b"Metadata-Version: 2.1\nName: tiny\nVersion: 1.0.0\n"}
    plugged.index.add("1.0.0", sdist("1.0.0", files | {"tiny/__init__.py": b""}, "tiny"), "tiny")
    run = plugged.run("build-image", *words, "--tree", "tiny==1.0.0", code=2)
    assert run.codes == ("image.other-trees",)
    assert "two trees have the package tiny" in run.errors


def test_a_tree_without_a_patch_is_named(plugged):
    shutil.rmtree(plugged.patches / "tiny-mode")
    words = ("build-image", *TREES, "--mode", "cpu", "--dry-run")
    assert "trees            vllm-tiny: no patch\n" in plugged.run(*words).out


@pytest.mark.parametrize("command", ["apply", "build-image"])
@pytest.mark.parametrize("twice", ["vllm-tiny==1.0.0", "vllm==0.50.0"])
def test_a_tree_that_is_named_twice(plugged, command, twice):
    run = plugged.run(command, *TREES, "--tree", twice, code=2)
    assert run.codes == ("cli.conflicting-options",)
    assert f"the tree {twice.partition('=')[0]} is named twice" in run.errors


def test_a_cpu_image_whose_pins_name_another_tree(plugged):
    """Pip would install the plugin once more, and nobody would patch it."""
    vllm, _ = locked_pair(plugged)
    content = json.loads(vllm.read_text())
    named = {"lock": "x", "manifest": "x", "source": "x", "name": "vllm_tiny"}
    image = {"mode": "cpu", "base": "python:3.12", "pinned": "sha256:1"}
    image |= {"trees": {"vllm-tiny": named}}
    vllm.write_text(LockFile(**content | {"image": image}).dump())
    words = ("build-image", "--mode", "cpu", "--dry-run")
    for trees in (TREES[:2], TREES):
        run = plugged.run(*words, *trees, code=2)
        assert run.codes == ("image.other-trees",)
        assert "use --repin" in run.errors
        plugged.run(*words, *trees, "--repin")
