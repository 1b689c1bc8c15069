"""What a build finds below the patches, with a container that answers as it is told."""

from __future__ import annotations

import json
from contextlib import contextmanager

import pytest

from vpatch.errors import VpatchError
from vpatch.image.record import recorded
from vpatch.lock import LockedImage


class Container:
    """A container whose python3 finds no package vllm."""

    def put(self, *_):
        pass

    def start(self):
        pass

    def wait(self, _):
        return 0

    def read(self, _):
        return json.dumps(None).encode()


class Engine:
    @contextmanager
    def container(self, *_):
        yield Container()


@pytest.mark.parametrize(
    ("mode", "todo"),
    [
        (
            "overlay",
            "name a --base with vLLM, or use --mode cpu to install its CPU build on this one",
        ),
        ("cpu", "name another --base"),
    ],
)
def test_a_base_without_vllm(mode, todo):
    image = LockedImage(mode=mode, base="python:3.12", pinned="sha256:1")
    with pytest.raises(VpatchError, match="python3 of this image has no package vllm") as caught:
        recorded(Engine(), "sha256:1", image)
    assert (caught.value.where, caught.value.todo) == ("python:3.12", todo)
