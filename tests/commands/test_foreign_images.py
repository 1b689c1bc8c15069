"""Images that vpatch did not build: what they are, what concerns them, and patches on top."""

from __future__ import annotations

import json
import uuid

import pytest

from tests.commands.install import official
from tests.docker_engine import PACKAGES
from tests.projects import ENGINE, FILES, LLAMA, VERSION

LOCAL = f"{VERSION}+amzn2023"
WIDER = FILES[LLAMA].replace(b"Linear(4, 8)", b"Linear(4, 9)")
DOCKERFILE = f"""
FROM %s
COPY vllm {PACKAGES}/vllm
COPY vllm-{LOCAL}.dist-info {PACKAGES}/vllm-{LOCAL}.dist-info
"""


def vendors_files(files):
    content, _ = official.contents(version=LOCAL, files=files)
    return {path: text for path, text in content.items() if not path.endswith(".so")} | {
        "vllm/_version.py": f"__version__ = version = '{LOCAL}'\n".encode()
    }


@pytest.fixture
def vendors(docker):
    """Build an image as a vendor does, from these files; all images go after the test."""
    names = []

    def build(files):
        names.append(f"vpatch-test-vendor:{uuid.uuid4().hex[:8]}")
        docker.build(names[-1], DOCKERFILE % docker.base, vendors_files(files))
        return names[-1]

    yield build
    docker.forget(*names)


@pytest.fixture
def tag(docker):
    name = f"vpatch-test:{uuid.uuid4().hex[:8]}"
    yield name
    docker.forget(name)


def test_a_vendors_image_is_told_patched_and_verified(project, docker, vendors, tag):
    base = vendors({LLAMA: WIDER})
    run = project.run("verify-image", base, code=1)
    assert f"{base} was not built by vpatch" in run.out
    assert f"its vLLM: differs from the release {VERSION} in 1 file; 2 source files" in run.out
    assert f"  {LLAMA}: not as in the release" in run.out
    words = ("build-image", "--base", base, "--tag", tag)
    run = project.run(*words, "--vllm", VERSION, code=None)
    assert run.code != 0
    project.run(*words)
    lock = json.loads(docker.run(tag, "cat", "/opt/vpatch/lock"))
    source = lock["source"]
    assert (source["kind"], source["version"]) == ("image", LOCAL)
    assert source["digest"] == docker.id(base)
    packages = docker.files(tag, f"{PACKAGES}/vllm")
    llama = packages[LLAMA.removeprefix("vllm/")]
    assert b"Linear(4, 9)" in llama
    assert b"prefix=" in llama
    run = project.run("verify-image", tag)
    assert "with 2 patches and 2 files as locked" in run.out
    # What it carries is applied there, and not upstream's.
    (tree,) = project.run("status", "--vllm", f"image:{tag}", "--json").json["trees"]
    assert {one["state"] for one in tree["decisions"]} == {"applied"}


def test_a_file_that_is_as_a_patch_makes_it(project, vendors):
    project.apply()
    patched = (project.target / LLAMA).read_bytes()
    base = vendors({LLAMA: patched, ENGINE: b"pass\n"})
    found = project.run("verify-image", base, "--json", code=1).json
    assert (found["lock"], found["version"]) == (None, LOCAL)
    comparison = found["comparison"]
    assert comparison["changed"] == sorted([ENGINE, LLAMA])
    assert (comparison["patches"], comparison["by_patches"]) == (["name-proj"], [LLAMA])


def test_a_file_that_came_with_the_wheel_is_no_difference(project, vendors):
    """RECORD names the file of the publisher, and not the one that was changed after that."""
    files = vendors_files({LLAMA: WIDER})
    record = f"vllm-{LOCAL}.dist-info/RECORD"
    listed = {record: official.record_of(files, record)}
    base = vendors({LLAMA: WIDER, **listed})
    run = project.run("verify-image", base)
    assert f"  {LLAMA}: not as in the release, and as RECORD names it\n" in run.out
    base = vendors({LLAMA: WIDER, ENGINE: b"pass\n", **listed})
    run = project.run("verify-image", base, code=1)
    assert f"  {LLAMA}: not as in the release, and as RECORD names it\n" in run.out
    assert f"  {ENGINE}: not as in the release\n" in run.out
    comparison = project.run("verify-image", base, "--json", code=1).json["comparison"]
    assert comparison["as_recorded"] == [LLAMA]


def test_a_release_by_hand_is_one(project, vendors):
    base = vendors({})
    run = project.run("verify-image", base)
    assert f"its vLLM: the release {VERSION}; 3 source files as in its archive" in run.out
    run = project.run("audit", "--image", base, code=None)
    assert f"vllm {LOCAL} (image {base})" in run.out
    found = project.run("audit", "--image", base, "--json", code=None).json["trees"][0]
    assert found["image"]
