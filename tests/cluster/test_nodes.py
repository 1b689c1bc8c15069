"""Which nodes fit, and how Ray is told of them."""

from __future__ import annotations

import pytest

from vpatch.cluster.job import ClusterJob
from vpatch.cluster.nodes import NODE_ID, ClusterNode, LivingNodes, nodes_from, selector


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


def test_the_labels_of_a_job_lead_to_a_node_that_fits_and_was_not_tried():
    nodes = [ClusterNode(name, name, 4, 0, {"slot": name}) for name in "abcd"]
    living = LivingNodes([*nodes, ClusterNode("e", "e", 1, 0, {"slot": "e"})])
    job = ClusterJob("cell", "module", b"", cpus=2, labels={"slot": "!d"}, nodes=frozenset("abde"))
    assert [node.id for node in living.fitting(job)] == ["a", "b"]
    assert living.labels(job, set()) == {"slot": "!d", NODE_ID: "!in(c)"}
    assert living.labels(job, {"b"}) == {"slot": "!d", NODE_ID: "in(a)"}
    # None is left: each of them may be tried again.
    assert living.labels(job, {"a", "b"}) == {"slot": "!d", NODE_ID: "!in(c)"}
    anywhere = ClusterJob("cell", "module", b"", cpus=2)
    assert living.labels(anywhere, set()) == {}
    assert living.labels(anywhere, {"a"}) == {NODE_ID: "!in(a)"}
    nowhere = ClusterJob("cell", "module", b"", gpus=1)
    assert (living.fitting(nowhere), living.labels(nowhere, set())) == ([], {})


def test_jobs_that_ask_for_the_same_are_decided_once(monkeypatch):
    """The cost of 10,000 jobs and 1,000 nodes must not be that of each job with each node."""
    asked = []
    fits = ClusterNode.fits
    monkeypatch.setattr(ClusterNode, "fits", lambda *all_of: asked.append(1) or fits(*all_of))
    living = LivingNodes([ClusterNode(str(n), str(n), 4, 0, {}) for n in range(10)])
    for number in range(100):
        living.labels(ClusterJob(f"cell {number}", "module", b""), ())
    assert len(asked) <= 20
