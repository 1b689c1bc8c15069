"""Which nodes can take what, by what they say of themselves."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from vpatch.cluster.job import JobBegun, JobDone, JobLost
from vpatch.cluster.nodes import ClusterNode
from vpatch.cluster.storage import Storage
from vpatch.declare.smoke import Model, Needs
from vpatch.errors import UnavailableError
from vpatch.harness.machine import Gpu, Machine
from vpatch.runs.cluster_nodes import WantedNode, look_at_cluster, refuse_unfit
from vpatch.runs.node_image import ImageName

MODELS = {"m": Model.model_validate({"checkpoint": "/models/m"})}
WANTED = WantedNode("m k=0 offline", Needs(), 1, "m")
HOPPER = (Gpu("H200", "9.0", 139.8, "570"),)


class Notes:
    """Progress that keeps its notes."""

    def __init__(self):
        self.said = []

    def start(self, _what, **_settings):
        return self

    def done(self):
        pass

    def note(self, message):
        self.said.append(message)


class Nodes:
    """A cluster whose nodes answer what they are told to."""

    address = "head:1"

    def __init__(self, answers, **kinds):
        self.answers = answers
        self.kinds = kinds

    def nodes(self):
        return [
            ClusterNode(name * 4, name, 2.0, self.kinds.get("gpus", 0.0), {"slot": name})
            for name in self.answers
        ]

    def run(self, _parcel, jobs, **_settings):
        for number, answer in enumerate(self.answers.values()):
            clock = answer.get("clock", 0.0)
            yield JobBegun(number, 1, jobs[number].name, clock)
            if "why" in answer:
                yield JobLost(number, 2, jobs[number].name, answer["why"], last=True)
                continue
            machine = asdict(Machine("Linux", "a processor", 2, 16.0, answer.get("gpus", ())))
            found = {"machine": machine, "inherited": {}, "models": {}}
            found |= {"engine": None, "images": {}, "problems": {}}
            told = json.dumps(found | answer.get("told", {})).encode()
            yield JobDone(number, 1, jobs[number].name, {"result.json": told})


def look(answers, *wanted, here=None, engine="cpu", storage=None, **kinds):
    progress, cluster = Notes(), Nodes(answers, **kinds)
    asked = wanted or [WANTED]
    found = look_at_cluster(cluster, None, engine, MODELS, here or {}, asked, progress, storage)
    return found, progress.said


def has(digest):
    return {"told": {"models": {"m": digest}}}


LACKS = {"told": {"problems": {"m": "/models/m: there is no such folder"}}}


def test_a_node_without_the_checkpoint_takes_no_cells_of_it():
    found, _ = look({"a": has("sha256:1"), "b": LACKS})
    assert [one.node.name for one in found.fitting(WANTED)] == ["a"]
    progress = Notes()
    refuse_unfit(found, [WANTED], progress)
    assert progress.said == ["b takes no cells of m: /models/m: there is no such folder"]


def test_a_node_that_does_not_share_the_storage_takes_no_cells(tmp_path):
    """One cannot read it, and what another one wrote there went elsewhere."""
    storage = Storage.of_a_run(str(tmp_path))
    storage.probe()
    shares = {"told": {"models": {"m": "sha256:1"}, "probe": storage.answer_probe()}}
    elsewhere = {"told": {"models": {"m": "sha256:1"}, "probe": "probe-elsewhere"}}
    fails = {"told": {"problems": {"storage": "the storage does not give probe: no folder"}}}
    found, _ = look({"a": shares, "b": elsewhere, "c": fails}, storage=storage)
    assert [one.node.name for one in found.fitting(WANTED)] == ["a"]
    progress = Notes()
    refuse_unfit(found, [WANTED], progress)
    from_b, from_c = progress.said
    assert from_b.startswith("b takes no cells: the storage does not give probe-elsewhere: ")
    assert from_b.endswith("; the node says that it wrote it")
    assert from_c == "c takes no cells: the storage does not give probe: no folder"


@pytest.mark.parametrize(
    "told",
    [
        {"machine": {}},
        {"machine": None},
        {"models": ["m"]},
        {"models": {"m": 5}},
        {"engine": "cpu"},
        {"problems": {"m": None}},
        {"probe": "../../../etc/passwd"},
        {"probe": 5},
    ],
)
def test_a_node_that_answers_something_else_takes_no_cells(told, tmp_path):
    storage = Storage.of_a_run(str(tmp_path))
    storage.probe()
    fine = {"told": {"models": {"m": "sha256:1"}, "probe": storage.answer_probe()}}
    found, notes = look({"a": fine, "b": {"told": told}}, storage=storage)
    assert [one.node.name for one in found.nodes] == ["a"]
    (note,) = notes
    assert note.startswith("b takes no cells: what it answers is not understood: ")


def test_a_node_without_one_image_runs_the_other_one():
    """Two sides of a benchmark are two images."""
    one, other = (
        WantedNode(f"of {name}", Needs(), 1, "m", image=ImageName(name, "id")) for name in "ab"
    )
    has_both = {"models": {"m": "sha256:1"}, "images": {"a": "cuda", "b": "cpu"}}
    has_one = {"models": {"m": "sha256:1"}, "images": {"a": "cuda"}}
    has_one["problems"] = {"b": "b: the image is not on this node"}
    answers = {"x": {"told": has_both}, "y": {"told": has_one}}
    found, _ = look(answers, one, other, engine=None, gpus=1.0)
    assert [each.node.name for each in found.fitting(one)] == ["x", "y"]
    assert [each.node.name for each in found.fitting(other)] == ["x"]
    assert [found.engine_for(wanted) for wanted in (one, other)] == ["a", "b"]
    assert [found.kind_for(wanted) for wanted in (one, other)] == ["cuda", "cpu"]
    progress = Notes()
    refuse_unfit(found, [one, other], progress)
    assert progress.said == ["y takes no cells: b: the image is not on this node"]


def test_an_engine_needs_no_image():
    found, _ = look({"a": has("sha256:1")}, engine=None)
    assert (found.engine_for(WANTED), found.kind_for(WANTED)) == ("cpu", "cpu")


def test_no_node_has_the_checkpoint():
    found, _ = look({"a": LACKS, "b": LACKS})
    with pytest.raises(UnavailableError) as error:
        refuse_unfit(found, [WANTED], Notes())
    assert error.value.code == "cluster.no-node-fits"
    assert error.value.what.count("there is no such folder") == 2


@pytest.mark.parametrize("here", [{}, {"m": "sha256:2"}])
def test_a_checkpoint_that_is_not_the_same_everywhere(here):
    answers = {"a": has("sha256:1")} | ({} if here else {"b": has("sha256:2")})
    with pytest.raises(UnavailableError) as error:
        look(answers, here=here)
    assert error.value.code == "cluster.model-differs"
    assert ("this machine: sha256:2" if here else "b: sha256:2") in error.value.what


def test_nodes_that_cannot_run_vpatch():
    why = "the job ended with 1\nModuleNotFoundError: No module named 'psutil'"
    found, notes = look({"a": has("sha256:1"), "b": {"why": why}})
    assert [one.node.name for one in found.nodes] == ["a"]
    assert notes[0].startswith("b takes no cells: ModuleNotFoundError: No module named 'psutil'")
    with pytest.raises(UnavailableError) as error:
        look({"a": {"why": why}})
    assert error.value.code == "cluster.no-node-answers"
    assert "pip install 'vpatch[ray]'" in error.value.hint


@pytest.mark.parametrize(("clock", "said"), [(3600.0, "3600 s ahead"), (-3600.0, "3600 s behind")])
def test_a_clock_that_is_off(clock, said):
    found, notes = look({"a": has("sha256:1") | {"clock": clock}})
    assert notes == [f"the clock of a is {said}; times in its logs are so, too"]
    assert found.fitting(WANTED)


def test_what_no_node_has_is_not_even_asked_for():
    wanted = WantedNode("m k=0 offline", Needs(labels={"slot": "z"}), 1, "m")
    with pytest.raises(UnavailableError) as error:
        look({"a": {"why": "it was asked"}}, wanted)
    assert error.value.code == "cluster.no-node-fits"
    assert "Ray has a, 2 CPUs, 0 GPUs, slot=a; wanted: 1 CPUs, 0 GPUs, slot=z" in error.value.what


def test_gpus_are_those_of_the_node():
    wanted = WantedNode("m k=0", Needs.model_validate({"capability": "9.0", "gpus": 1}), 1, "m")
    hopper = has("sha256:1") | {"gpus": HOPPER}
    found, _ = look({"a": hopper, "b": has("sha256:1")}, wanted, engine=None, gpus=1.0)
    assert (found.engine, found.kind) == ("cuda", "cuda")
    assert [one.node.name for one in found.fitting(wanted)] == ["a"]
