from __future__ import annotations

import copy

import pytest

from tests.bench.records import GPU, MACHINE, record, side
from vpatch.bench.match import differences, in_common, joined

PIN = {"tree": "vllm", "version": "0.23.0", "ref": None, "digest": "sha256:" + "1" * 64}
SUBJECT = [
    {"pin": PIN, "patches": [{"id": "a", "digest": "sha256:2", "variant": None}], "files": []}
]


def with_subject(found, subject=SUBJECT):
    return found | {"sides": [one | {"subject": subject} for one in found["sides"]]}


@pytest.fixture
def ours():
    return with_subject(record())


def said(one, other):
    return [str(difference) for difference in differences(one, other)]


def changed(found, *path, to):
    found = copy.deepcopy(found)
    place = found
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = to
    return found


def test_another_machine_is_no_difference(ours):
    theirs = copy.deepcopy(ours)
    theirs["sides"][0] |= {"machine": MACHINE | {"gpus": [GPU]}, "inherited": {"OMP_X": "1"}}
    theirs["made"] = "2030"
    assert said(ours, theirs) == []


@pytest.mark.parametrize(
    ("path", "to", "what"),
    [
        (
            ("models", "tiny", "digest"),
            "sha256:" + "b" * 64,
            "model: tiny is sha256:aaaaaaaaaaaaaaaa and sha256:bbbbbbbbbbbbbbbb",
        ),
        (("models",), {"big": {"model": "x", "digest": "sha256:c"}}, "model: tiny and big"),
        (("plan", "prompts"), 8, "prompts: prompts is 4 and 8"),
        (("plan", "warm-up"), False, "prompts: warm-up is True and False"),
        (("plan", "share-server"), True, "prompts: share-server is False and True"),
        (("plan", "sampling", "top-p"), 0.9, "prompts: sampling, top-p is not set and 0.9"),
        (("plan", "sampling", "temperature"), 1.0, "prompts: sampling, temperature is 0.0 and 1.0"),
        (
            ("plan", "flags", "enforce-eager"),
            False,
            "flags: flags, enforce-eager is True and False",
        ),
        (("plan", "flags"), {}, "flags: flags, enforce-eager is True and not set"),
        (
            ("plan", "environment", "VLLM_CPU_KVCACHE_SPACE"),
            "2",
            "flags: environment, VLLM_CPU_KVCACHE_SPACE is '1' and '2'",
        ),
        (("plan", "tensor-parallel"), 2, "flags: tensor-parallel is 1 and 2"),
        (("plan", "method"), "eagle", "flags: method is 'mtp' and 'eagle'"),
        (("client", "vllm"), "0.24.0", "pins: vllm bench serve is that of 0.23.0 and 0.24.0"),
        (
            ("sides", 0, "subject", 0, "patches", 0, "digest"),
            "sha256:3",
            "pins: the patch a has changed",
        ),
        (
            ("sides", 0, "subject", 0, "pin", "digest"),
            "sha256:" + "4" * 64,
            "pins: vllm is another source: 0.23.0, sha256:4444444444444444",
        ),
    ],
)
def test_what_must_be_the_same(ours, path, to, what):
    assert said(ours, changed(ours, *path, to=to)) == [what]


def test_a_dataset_of_other_bytes(ours):
    ours, theirs = ({**ours, "datasets": {"mixed/256": digest}} for digest in ("a", "b"))
    assert said(ours, theirs) == ["prompts: the file of mixed/256 is another"]


def test_a_running_server_does_not_say_what_it_runs(ours):
    server = side()
    del server["subject"]
    (what,) = said(ours, ours | {"sides": [server]})
    assert what == "pins: what a server that was there before runs is not known"


def test_only_what_all_have_is_joined(ours):
    theirs = with_subject(record(ks=(0, 2, 4), concurrency=(4, 8))) | {"name": "two"}
    common = in_common([ours, theirs])
    assert common == {("tiny", k, "24/32", 4) for k in (0, 2)}
    found = joined([ours, theirs], ["this"])
    assert found["differences"] == ["this"]
    assert found["name"] == "one against two"
    assert [(one["name"], one["what"]) for one in found["sides"]] == [
        ("A", "one: vLLM 0.23.0 with 6 patches"),
        ("B", "two: vLLM 0.23.0 with 6 patches"),
    ]
    assert {(p["side"], p["k"], p["concurrency"]) for p in found["points"]} == {
        (side, k, 4) for side in (0, 1) for k in (0, 2)
    }
    assert len(found["points"]) == 12


def test_records_of_two_sides_each(ours):
    two = with_subject(record(sides=(1, 1.1)))
    found = joined([two, ours], [])
    assert [one["name"] for one in found["sides"]] == ["A", "B", "C"]
    assert {point["side"] for point in found["points"]} == {0, 1, 2}
