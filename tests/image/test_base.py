from __future__ import annotations

import pytest

from tests.helpers import fails
from tests.image.locks import lock_of_files
from tests.projects import write_tree
from vpatch.checkout.lockfile import LockedImage
from vpatch.image.base import Choice, choose, refuse_network
from vpatch.image.mode import ModeError

PYTHON, KERNEL = "vllm/layer.py", "csrc/a.cu"
LOCKED = LockedImage(mode="overlay", base="a:1", pinned="a@sha256:1")
BUILT = LockedImage(mode="source", base="final:1", pinned="final@sha256:1", compiler="b@sha256:2")


def chosen(paths=(PYTHON,), image=None, checkout=None, **asked):
    lock = lock_of_files({"one": paths}, image=image)
    words = {"mode": None, "base": None, "arguments": {}, "repin": False, "has_gpu": False}
    return choose(lock, checkout, **(words | asked))


@pytest.mark.parametrize(
    ("asked", "mode", "base"),
    [
        ({}, "cpu", "python:3.12-slim-bookworm"),
        ({"has_gpu": True}, "overlay", "vllm/vllm-openai:v0.50.0"),
        ({"base": "b:1"}, "overlay", "b:1"),
        ({"base": "b:1", "mode": "cpu"}, "cpu", "b:1"),
        ({"mode": "overlay"}, "overlay", "vllm/vllm-openai:v0.50.0"),
    ],
)
def test_a_mode_and_a_base_where_nothing_is_locked(asked, mode, base):
    assert chosen(**asked) == Choice(mode, base)


def test_what_was_locked_is_taken_again():
    assert chosen(image=LOCKED) == Choice("overlay", "a:1", known=LOCKED)
    assert chosen(image=LOCKED, base="a:1") == Choice("overlay", "a:1", known=LOCKED)


@pytest.mark.parametrize(
    ("asked", "mode", "base"),
    [
        ({"repin": True}, "overlay", "a:1"),
        ({"mode": "cpu"}, "cpu", "python:3.12-slim-bookworm"),
        ({"base": "b:1"}, "overlay", "b:1"),
        ({"base": "a:1", "repin": True}, "overlay", "a:1"),
    ],
)
def test_what_was_locked_gives_way(asked, mode, base):
    repin = asked.get("repin", False)
    assert chosen(image=LOCKED, **asked) == Choice(mode, base, repin=repin)


@pytest.fixture
def checkout(tmp_path):
    text = b"ARG BUILD_BASE_IMAGE=compiler:1\nARG FINAL_BASE_IMAGE=final:1\nFROM a\n"
    return write_tree(tmp_path, {"docker/Dockerfile": text})


NAMED = {"FINAL_BASE_IMAGE": "final:1", "BUILD_BASE_IMAGE": "compiler:1"}


def test_what_has_to_be_built_is_built_whatever_was_locked(checkout):
    found = chosen([KERNEL], LOCKED, checkout)
    assert found == Choice("source", "final:1", NAMED)
    assert found.unpinned.compiler == "compiler:1"


def test_the_bases_of_vllms_own_dockerfile_that_were_locked(checkout):
    assert chosen([KERNEL], BUILT, checkout) == Choice("source", "final:1", NAMED, BUILT)
    # Once built from source, Python alone is as well.
    assert chosen([PYTHON], BUILT, checkout).known == BUILT
    other = chosen([KERNEL], BUILT, checkout, arguments={"BUILD_BASE_IMAGE": "c:2"})
    assert other == Choice("source", "final:1", NAMED | {"BUILD_BASE_IMAGE": "c:2"})
    assert chosen([KERNEL], BUILT, checkout, base="mine:1").base == "mine:1"
    assert chosen([KERNEL], BUILT, checkout, base="mine:1").known is None


def test_another_final_base_than_was_locked(checkout):
    moved = BUILT.model_copy(update={"base": "final:0"})
    assert chosen([KERNEL], moved, checkout).known is None


def test_a_source_without_a_checkout():
    with fails("image.no-checkout"):
        chosen([KERNEL])


def test_a_mode_that_was_asked_for_is_not_changed():
    with pytest.raises(ModeError):
        chosen([KERNEL], mode="overlay")


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        (Choice("source", "a:1", known=BUILT), "a build in the mode source fetches packages"),
        (Choice("cpu", "a:1"), "a build in the mode cpu fetches packages"),
        (Choice("overlay", "a:1", repin=True), "--repin asks a registry"),
    ],
)
def test_what_needs_a_network_is_refused_without_one(choice, said):
    with fails("image.offline", said):
        refuse_network(choice)
