"""Which nodes fit, and how Ray is told of them."""

from __future__ import annotations

import pytest

from vpatch.cluster.nodes import NODE_ID, ClusterNode, nodes_from, selector


def node_of(name, cpus=2.0, gpus=0.0, **labels):
    return ClusterNode(name * 3, name, cpus, gpus, labels)


def told(node_id, host, *, alive=True, **resources):
    return {
        "NodeID": node_id,
        "NodeManagerHostname": host,
        "Alive": alive,
        "Resources": resources,
        "Labels": {NODE_ID: node_id},
    }


def test_nodes_are_called_after_their_hosts():
    found = nodes_from(
        [
            told("a" * 56, "one", CPU=2.0),
            told("b" * 56, "two", CPU=4.0, GPU=1.0),
            told("c" * 56, "two"),
            told("d" * 56, "gone", alive=False),
        ]
    )
    assert [(n.name, n.cpus, n.gpus) for n in found] == [
        ("one", 2.0, 0.0),
        ("two-bbbbbb", 4.0, 1.0),
        ("two-cccccc", 0.0, 0.0),
    ]


@pytest.mark.parametrize(
    ("wanted", "fits"),
    [
        ("h200", True),
        ("gb10", False),
        ("!gb10", True),
        ("!h200", False),
        ("in(gb10, h200)", True),
        ("in(gb10)", False),
        ("!in(gb10, h200)", False),
    ],
)
def test_labels_as_ray_reads_them(wanted, fits):
    assert node_of("a", slot="h200").fits(1, 0, {"slot": wanted}) is fits


def test_a_label_that_a_node_does_not_have():
    assert not node_of("a").fits(1, 0, {"slot": "h200"})
    assert node_of("a").fits(1, 0, {"slot": "!h200"})


def test_what_a_node_has():
    assert node_of("a", gpus=1.0).fits(2, 1, {})
    assert not node_of("a", gpus=1.0).fits(3, 1, {})
    assert not node_of("a", gpus=1.0).fits(2, 2, {})


def test_the_selector_is_the_shorter_one():
    a, b, c, d = (node_of(name) for name in "abcd")
    assert selector([a, b], [a, b]) == {}
    assert selector([a, b, c, d], [a]) == {NODE_ID: "in(aaa)"}
    assert selector([a, b, c, d], [a, b, c]) == {NODE_ID: "!in(ddd)"}
