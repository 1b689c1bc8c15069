from __future__ import annotations

import copy

import pytest

from tests.commands.bench.records import GPU, MACHINE, record, side, validated
from vpatch.commands.bench.match import aligned, differences, in_common, joined

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
    return [str(difference) for difference in differences(validated(one), validated(other))]


def join(records, differing=()):
    return joined([validated(one) for one in records], differing)


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
    theirs["made"] = "2030-01-01T00:00:00+00:00"
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
        (("plan", "warm-up"), False, "prompts: warm-up is True in one and False in one"),
        (("plan", "share-server"), True, "prompts: share-server is False in one and True in one"),
        (("plan", "sampling", "top-p"), 0.9, "prompts: top-p is not set in one and 0.9 in one"),
        (
            ("plan", "sampling", "temperature"),
            1.0,
            "prompts: temperature is 0.0 in one and 1.0 in one",
        ),
        (
            ("plan", "flags", "enforce-eager"),
            False,
            "flags: enforce-eager is True in one and False in one",
        ),
        (("plan", "flags"), {}, "flags: enforce-eager is True in one and not set in one"),
        (
            ("plan", "environment", "VLLM_CPU_KVCACHE_SPACE"),
            "2",
            "flags: VLLM_CPU_KVCACHE_SPACE is '1' in one and '2' in one",
        ),
        (("plan", "tensor-parallel"), 2, "flags: tensor-parallel is 1 in one and 2 in one"),
        (("plan", "method"), "eagle", "flags: method is 'mtp' in one and 'eagle' in one"),
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
    common = in_common([validated(ours), validated(theirs)])
    assert common == {("tiny", k, "24/32", 4) for k in (0, 2)}
    both = join([ours, theirs], ["this"])
    differing, ours, theirs = both.notes
    assert differing == "they differ in this"
    assert ours == (
        "left out, since one alone has it: tiny k=0 24/32 c=1, tiny k=1 24/32 c=1, "
        "tiny k=1 24/32 c=4, tiny k=2 24/32 c=1, tiny k=3 24/32 c=1, tiny k=3 24/32 c=4"
    )
    assert theirs.startswith("left out, since two alone has it: tiny k=0 24/32 c=8, ")
    assert both.name == "one against two"
    assert [(one.name, one.what) for one in both.sides] == [
        ("A", "one: vLLM 0.23.0 with 6 patches"),
        ("B", "two: vLLM 0.23.0 with 6 patches"),
    ]
    assert {(p.side, p.k, p.concurrency) for p in both.points} == {
        (side, k, 4) for side in (0, 1) for k in (0, 2)
    }
    assert len(both.points) == 12


def test_more_than_a_few_that_only_one_has(ours):
    theirs = with_subject(record(ks=(0,), concurrency=(1,))) | {"name": "two"}
    (note,) = join([ours, theirs]).notes
    assert note.endswith("tiny k=3 24/32 c=1, and 1 more")


def test_one_that_broke_off(ours):
    theirs = ours | {"name": "two", "planned": 99}
    (note,) = join([ours, theirs]).notes
    assert note == "two broke off after 24 of 99 runs"


def test_what_reached_servers_from_outside_is_said(ours):
    theirs = copy.deepcopy(ours)
    theirs["sides"][0]["inherited"] = {"LD_PRELOAD": "x.so"}
    assert said(ours, theirs) == []
    (note,) = join([ours, theirs]).notes
    assert note == "the environment's LD_PRELOAD is 'x.so' in B and not set in A"


def test_the_same_bytes_by_another_name(ours):
    theirs = with_subject(record(models=("flash",))) | {"name": "two"}
    assert said(ours, theirs) == ["model: tiny and flash"]
    both = aligned([validated(ours), validated(theirs)])
    assert said(*both) == []
    assert len(in_common(both)) == 8
    other = validated(changed(theirs, "models", "flash", "digest", to="sha256:c"))
    assert aligned([validated(ours), other])[1] == other
    twice = validated(with_subject(record(models=("x", "y"))))
    assert aligned([validated(ours), twice])[1] == twice


def test_models_of_servers_that_ran_are_not_known_to_be_the_same(ours):
    ours = changed(ours, "models", "tiny", "digest", to=None)
    assert said(ours, ours) == ["model: the files of tiny on a server that ran are not known"]
    theirs = with_subject(record(models=("flash",))) | {"name": "two"}
    theirs = changed(theirs, "models", "flash", "digest", to=None)
    assert said(*aligned([validated(ours), validated(theirs)])) == ["model: tiny and flash"]


@pytest.mark.parametrize(
    ("shape", "what"),
    [
        (
            {"dataset": "custom", "path": "24.jsonl", "output": 32},
            "prompts: the shape 24/32 is random, 24 tokens and custom, a file",
        ),
        ({"input": 24, "output": 32}, None),
    ],
)
def test_shapes_that_are_called_the_same(ours, shape, what):
    theirs = changed(ours, "plan", "shapes", to=[shape])
    assert said(ours, theirs) == ([what] if what else [])


@pytest.mark.parametrize(("key", "what"), [("seed", "seeds"), ("prompts", "number of prompts")])
def test_other_prompts(ours, key, what):
    theirs = changed(ours, "points", 0, key, to=99)
    assert said(ours, theirs) == [f"prompts: the {what} of a load: other prompts were sent"]


def test_another_vllm_for_the_same_patches(ours):
    theirs = changed(ours, "sides", 0, "engine", to={"kind": "cpu", "vllm": "0.24.0"})
    assert said(ours, theirs) == ["pins: vLLM is 0.23.0 and 0.24.0"]


def test_records_of_two_sides_each(ours):
    two = with_subject(record(sides=(1, 1.1)))
    both = join([two, ours])
    assert [one.name for one in both.sides] == ["A", "B", "C"]
    assert {point.side for point in both.points} == {0, 1, 2}
