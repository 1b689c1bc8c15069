from __future__ import annotations

import re
import subprocess
from dataclasses import replace

import pytest

from tests.helpers import fails
from tests.image.locks import lock_of_files
from tests.projects import write_tree
from vpatch.checkout.lockfile import LockedImage
from vpatch.docker.buildkit import sent_files
from vpatch.git.checkout import check_out, create_checkout, tracked_files
from vpatch.image.base import Choice, pin
from vpatch.image.build import builds_below, contexts, overlay_build
from vpatch.image.context import Payload, version_of
from vpatch.image.settings import BuildSettings
from vpatch.image.source import bases, source_build
from vpatch.planning.state import Plan
from vpatch.progress import Silent
from vpatch.source.pip_settings import PipSettings
from vpatch.source.spec import parse_vllm
from vpatch.workspace.context import Context

DOCKERFILE = b"""ARG CUDA_VERSION=13.0.2
ARG BUILD_BASE_IMAGE=nvidia/cuda:${CUDA_VERSION}-devel
ARG FINAL_BASE_IMAGE="nvidia/cuda:${CUDA_VERSION}-base"
FROM ${BUILD_BASE_IMAGE} AS base
ARG FINAL_BASE_IMAGE=another
"""


@pytest.mark.parametrize(
    ("release", "final", "compiler"),
    [
        ("0.20.0", "nvidia/cuda:13.0.2-base-ubuntu22.04", "nvidia/cuda:13.0.2-devel-ubuntu22.04"),
        ("0.23.0", "nvidia/cuda:13.0.2-base-ubuntu22.04", "nvidia/cuda:13.0.2-devel-ubuntu22.04"),
        (
            "0.33.0",
            "nvidia/cuda:13.0.3-base-ubuntu24.04",
            "pytorch/manylinux2_28-builder:cuda13.0-78e737ad29420ffc4800e677c51e2a852caf8359",
        ),
    ],
)
def test_what_vllms_own_dockerfile_is_built_on(tmp_path, release, final, compiler):
    with Context().tree(parse_vllm(release)) as tree:
        write_tree(tmp_path, {"docker/Dockerfile": tree.read("docker/Dockerfile")})
    assert bases(tmp_path, {}) == {"FINAL_BASE_IMAGE": final, "BUILD_BASE_IMAGE": compiler}


def test_an_argument_changes_what_stands_on_it(tmp_path):
    write_tree(tmp_path, {"docker/Dockerfile": DOCKERFILE})
    assert bases(tmp_path, {"CUDA_VERSION": "12.9", "FINAL_BASE_IMAGE": "mine:1"}) == {
        "FINAL_BASE_IMAGE": "mine:1",
        "BUILD_BASE_IMAGE": "nvidia/cuda:12.9-devel",
    }


def test_a_dockerfile_that_begins_otherwise(tmp_path):
    write_tree(tmp_path, {"docker/Dockerfile": b"FROM scratch\n" + DOCKERFILE})
    with fails("image.unusable-dockerfile", "it has no argument BUILD_BASE_IMAGE"):
        bases(tmp_path, {})


def test_a_tree_without_a_dockerfile(tmp_path):
    with fails("image.unusable-dockerfile", "this vLLM has no docker/Dockerfile"):
        bases(tmp_path, {})


class Registry:
    def __init__(self):
        self.asked = []

    def registry_digest(self, name):
        self.asked.append(name)
        return f"{name.partition(':')[0]}@sha256:{len(self.asked)}"


NAMED = {"FINAL_BASE_IMAGE": "a/final:1", "BUILD_BASE_IMAGE": "a/build:1"}
LOCKED = LockedImage(
    mode="source", base="a/final:1", pinned="a/final@sha256:1", compiler="a/build@sha256:2"
)


def test_both_bases_are_pinned_and_stay_so():
    registry = Registry()
    choice = Choice("source", "a/final:1", NAMED)
    assert pin(registry, choice, None, Silent()) == LOCKED
    assert pin(registry, replace(choice, known=LOCKED), None, Silent()) == LOCKED
    assert registry.asked == ["a/final:1", "a/build:1"]
    other = replace(choice, bases=NAMED | {"BUILD_BASE_IMAGE": "a/build@sha256:f"})
    assert pin(registry, other, None, Silent()).compiler == "a/build@sha256:f"


def test_the_context_is_the_patched_checkout_with_its_history(tmp_path):
    files = {
        "docker/Dockerfile": DOCKERFILE,
        "a.py": b"1\n",
        ".dockerignore": b"# what is not sent\nleft\n",
        "left/PKG-INFO": b"",
        "vllm/_version.py": b"",
    }
    checkout = write_tree(tmp_path / "checkout", files)

    def git(*words, folder=checkout):
        who = ["-c", "user.name=a", "-c", "user.email=a@b"]
        run = subprocess.run(
            ["git", "-C", folder, *who, *words], capture_output=True, text=True, check=True
        )
        return run.stdout.strip()

    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "--message", "patched")
    write_tree(checkout, {"vpatch.lock": b"{}", "left.py": b""})
    lock = lock_of_files({"one": ["csrc/a.cu"]}, image=LOCKED)
    settings = BuildSettings(PipSettings(), "host", "linux/amd64", ("id=a",), (), {"max_jobs": "8"})
    payload = Payload(lock, Plan(None, ()), image=LOCKED)
    with contexts(payload, settings) as workdir:
        (first,) = builds_below(payload, settings, checkout, workdir)
        last = overlay_build(payload, settings, "below", workdir)
        context = first.context
        assert git("rev-parse", "HEAD", folder=context) == git("rev-parse", "HEAD")
        assert git("describe", "--tags", "--dirty", folder=context).startswith("v0.50.0+vpatch.")
        names = {path.name for path in context.iterdir()}
        assert names == {".git", ".dockerignore", "docker", "a.py", "left", "vllm"}
        assert first == source_build(context, LOCKED, settings)
        assert first.dockerfile == context / "docker" / "Dockerfile"
        assert (first.target, first.network, first.secrets) == ("vllm-openai", "host", ("id=a",))
        assert first.arguments == {
            "max_jobs": "8",
            "FINAL_BASE_IMAGE": "a/final@sha256:1",
            "BUILD_BASE_IMAGE": "a/build@sha256:2",
        }
        # What .dockerignore leaves behind, and what a build writes, makes no other version of it.
        (context / "left" / "PKG-INFO").unlink()
        (context / "vllm" / "_version.py").write_text("another")
        assert "dirty" not in git("describe", "--tags", "--dirty", folder=context)
        assert git("status", "--porcelain", "--untracked-files=no", folder=context) == ""
        (context / "a.py").write_text("mine")
        assert git("describe", "--tags", "--dirty", folder=context).endswith("-dirty")
        assert last.labels["vpatch.mode"] == "source"
        assert last.labels["org.opencontainers.image.base.digest"] == "sha256:1"
    assert not context.exists()


@pytest.mark.slow
def test_a_build_of_the_real_tree_is_of_its_release(tmp_path):
    """With what vLLM's .dockerignore leaves behind, and after its version was written once."""
    with Context().tree(parse_vllm("0.23.0")) as tree:
        base, commit = tree.base_repository(Silent())
        create_checkout(tmp_path / "checkout", base, commit, ["vpatch.lock"])
        check_out(tmp_path / "checkout", "base")
    lock = lock_of_files({"one": ["csrc/a.cu"]}, image=LOCKED)
    payload = Payload(lock, Plan(None, ()), image=LOCKED)
    settings = BuildSettings(PipSettings())
    with contexts(payload, settings) as workdir:
        (first,) = builds_below(payload, settings, tmp_path / "checkout", workdir)
        sent = sent_files(first.context)
        assert {"setup.py", "vllm/__init__.py", "docker/Dockerfile"} <= sent
        for path in tracked_files(first.context) - sent:
            (first.context / path).unlink()
        (first.context / "vllm" / "_version.py").write_text("")
        described = ["git", "-C", first.context, "describe", "--tags", "--dirty", "--long"]
        found = subprocess.run(described, capture_output=True, text=True, check=True).stdout
        assert re.fullmatch(r"v0\.50\.0\+vpatch\.[0-9a-f]{12}-0-g[0-9a-f]+\n", found)
        assert tracked_files(first.context) - sent


def test_what_a_build_finds_does_not_change_the_version_that_it_writes():
    """The version is in the package, and the list of the package's files is in the lock."""
    lock = lock_of_files({"one": ["csrc/a.cu"]}, image=LOCKED)
    found = LOCKED.model_copy(update={"package": "/a/vllm", "contents": "sha256:1"})
    assert version_of(lock.model_copy(update={"image": found})) == version_of(lock)
    found = LOCKED.model_copy(update={"base": "b/final:1"})
    assert version_of(lock.model_copy(update={"image": found})) != version_of(lock)


def test_a_dockerfile_in_another_encoding(tmp_path):
    write_tree(tmp_path, {"docker/Dockerfile": b"# caf\xe9\n" + DOCKERFILE})
    with fails("image.unusable-dockerfile", "cannot be read: 'utf-8' codec"):
        bases(tmp_path, {})


def test_a_dockerfile_that_would_take_all_time_or_memory(tmp_path):
    doubled = "".join(f"ARG A{n + 1}=$A{n}$A{n}\n" for n in range(64))
    text = f"ARG X=a{' ' * 500_000}b'\"\nARG A0=aaaa\n{doubled}".encode()
    write_tree(tmp_path, {"docker/Dockerfile": text + DOCKERFILE})
    assert bases(tmp_path, {})["FINAL_BASE_IMAGE"]
    write_tree(tmp_path, {"docker/Dockerfile": b"#" * 2_000_000 + DOCKERFILE})
    with fails("image.unusable-dockerfile", "is larger than 1000000 bytes"):
        bases(tmp_path, {})
