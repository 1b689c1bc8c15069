"""An image on a node of a cluster: its name, and one that is not there."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from vpatch.errors import UnavailableError
from vpatch.runs.node_image import ImageName, image_on_node, name_for_nodes

ID = "sha256:aaaa"
NOWHERE = f"sha256:{'0' * 64}"


@pytest.mark.parametrize(
    ("name", "digests", "expected"),
    [
        ("team/vllm:1", ["other/vllm@sha256:1", "team/vllm@sha256:2"], "team/vllm@sha256:2"),
        ("team/vllm@sha256:2", ["other/vllm@sha256:1", "team/vllm@sha256:2"], "team/vllm@sha256:2"),
        ("index.docker.io/team/vllm", ["a/b@sha256:1", "team/vllm@sha256:2"], "team/vllm@sha256:2"),
        ("docker.io/team/vllm", ["a/b@sha256:1", "team/vllm@sha256:2"], "team/vllm@sha256:2"),
        # It was pushed under another name: the bytes are the same.
        ("local:1", ["team/vllm@sha256:2"], "team/vllm@sha256:2"),
        ("local:1", [], ID),
    ],
)
def test_the_registry_that_the_user_named(name, digests, expected):
    found = name_for_nodes({"name": name, "digests": digests, "id": ID})
    assert found == ImageName(expected, ID)


def test_an_image_that_only_another_node_has(docker, tmp_path):  # noqa: ARG001 - an engine
    with ExitStack() as stack, pytest.raises(UnavailableError) as error:
        image_on_node(ImageName(NOWHERE, NOWHERE), tmp_path, stack)
    assert error.value.code == "cluster.no-image"
    assert "push it to a registry" in error.value.hint
    assert list(tmp_path.iterdir()) == []
