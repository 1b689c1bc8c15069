"""How a known shape was proven, by what is on record."""

from __future__ import annotations

import pytest

from vpatch.library.shapes import BehaviourOnRelease, KnownShape, Shapes
from vpatch.planning.proven import proof_of


def shape(*releases, state="needed", examples=()):
    return KnownShape(
        releases=releases, state=state, variant=None, definitions={}, examples=examples
    )


def result(outcome, reason=None, *, state="needed", digest="sha256:1"):
    return BehaviourOnRelease(
        test="test_it.py",
        engine="cpu",
        outcome=outcome,
        reason=reason,
        state=state,
        patch_digest=digest,
        test_digest="sha256:2",
    )


def proof(known, behaviour, release="0.1.0"):
    shapes = Shapes(patch_digest="sha256:1", shapes={"vllm": (known,)}, behaviour=behaviour)
    shown = proof_of(shapes, "vllm", release)
    return shown.by, shown.sentence


def test_a_result_in_any_release_of_the_shape_proves_it():
    behaviour = {"vllm": {"0.2.0": (result("holds"),), "0.3.0": (result("contradicts", "no"),)}}
    assert proof(shape("0.1.0", "0.2.0"), behaviour) == (
        "behaviour",
        "by behaviour on cpu in 0.2.0",
    )


def test_one_contradiction_outweighs_all_else():
    behaviour = {"vllm": {"0.1.0": (result("holds"), result("contradicts", "it passed"))}}
    assert proof(shape("0.1.0", examples=("needed-x",)), behaviour) == (
        "contradicted",
        "behaviour contradicts it in 0.1.0: it passed",
    )


@pytest.mark.parametrize("other", [{"state": "upstreamed"}, {"digest": "sha256:old"}])
def test_results_of_another_state_or_edition_do_not_count(other):
    behaviour = {"vllm": {"0.1.0": (result("holds", **other),)}}
    by, said = proof(shape("0.1.0"), behaviour)
    assert (by, said.partition(":")[0]) == ("not asked", "not asked")


def test_examples_count_without_behaviour():
    behaviour = {"vllm": {"0.1.0": (result("not asked", "there is no engine"),)}}
    known = shape("0.1.0", examples=("needed-x", "needed-y"))
    assert proof(known, behaviour) == ("example", "by the example needed-x, needed-y")


def test_it_says_why_nothing_proves_a_shape():
    idle = {"vllm": {"0.1.0": (result("not asked", "there is no engine"),)}}
    assert proof(shape("0.1.0"), idle)[1] == "not asked: there is no engine"
    assert proof(shape("0.1.0"), {})[1].startswith("not asked: no behaviour test is recorded")
    absent = shape("0.1.0", state="absent")
    assert proof(absent, {})[1] == "not asked: nothing can run where the patch is absent"
    plugin = {"vllm-metax": {"0.1.0": (result("holds"),)}}
    assert proof(absent, plugin)[1].endswith("; a test holds for vllm-metax beside vLLM 0.1.0")


def test_a_release_without_a_known_shape_has_no_proof():
    with pytest.raises(KeyError):
        proof(shape("0.1.0"), {}, "0.9.0")
