from __future__ import annotations

import pytest

from tests.commands.bench.reading import (
    RECORDS,
    SERVER,
    Element,
    of_servers,
    read,
    said,
    several,
    without,
)
from tests.commands.bench.records import GPU, MACHINE, record, side

PIN = {"tree": "vllm", "version": "0.23.0", "ref": None, "digest": "sha256:" + "b" * 64}


@pytest.fixture(autouse=True)
def undrawn(monkeypatch):
    """Pictures take long, and are no matter here."""
    monkeypatch.setattr("vpatch.commands.bench.report.page.plots_of", lambda _: [])


def test_side():
    facts = said(read(RECORDS["whole"]), "What was measured")
    assert facts == {
        "what": ["vLLM 0.23.0 with 6 patches"],
        "vLLM": ["0.23.0 (cpu)"],
        "digest of what was run": ["sha256:aaaaaaaaaaaaaaaa"],
        "machine": ["a processor, 2 cores, 16 GiB Linux 6.1 x86_64"],
    }


def test_what_must_be_known_first():
    plain = read(RECORDS["whole"])
    assert plain.all("section", class_="notes") == []
    found = record(ks=(0,), concurrency=(1,), sides=(1, 1))
    found["points"][0]["measured"]["cached_tokens"] = 16 * 24
    (section,) = read(found | {"notes": ["they differ in flags: <x>"]}).all(
        "section", class_="notes"
    )
    differing, cached = [item.text for item in section.all("li")]
    assert differing == "they differ in flags: <x>"
    assert cached.startswith("A tiny k = 0, 24/32 at concurrency 1: 33% of the prompts' tokens")


def test_side_with_all_that_it_may_have():
    found = record(ks=(0,), concurrency=(1,), repeats=1)
    subject = [{"pin": PIN, "patches": [{"id": "fix-a"}, {"id": "fix-b"}], "files": []}]
    subject += [
        {"pin": PIN | {"tree": "other", "version": None, "ref": "main"}, "patches": [], "files": []}
    ]
    machine = MACHINE | {"gpus": [GPU, GPU, GPU | {"name": "T4"}], "problem": "it is odd"}
    image = {"name": "vllm:x", "id": "sha256:" + "c" * 64}
    found["sides"] = [side(subject=subject, machine=machine, image=image)]
    facts = said(read(found), "What was measured")
    assert facts["source of vllm"] == ["vllm 0.23.0 (sha256:bbbbbbbbbbbbbbbb)"]
    assert facts["patches for vllm"] == ["fix-a fix-b"]
    assert facts["source of other"] == ["other main (sha256:bbbbbbbbbbbbbbbb)"]
    assert facts["patches for other"] == ["none"]
    assert facts["image"] == ["vllm:x (sha256:cccccccccccccccc)"]
    (words,) = facts["machine"]
    assert words == (
        "2 x NVIDIA H200, 139.8 GiB, compute capability 9.0, driver 580.1 "
        "1 x T4, 139.8 GiB, compute capability 9.0, driver 580.1 "
        "a processor, 2 cores, 16 GiB Linux 6.1 x86_64 it is odd"
    )


def test_servers_that_were_there_before():
    page = read(RECORDS["servers"])
    facts = said(page, "What was measured")
    assert facts["servers"] == [f"{SERVER['url']}: k = {k}, m, vLLM 0.23.0" for k in (0, 2)]
    assert "machine" not in facts
    assert "digest of what was run" not in facts
    assert facts["loads sent from"] == ["a processor, 2 cores, 16 GiB Linux 6.1 x86_64"] * 2
    assert said(page, "How")["models"] == ["tiny: synthetic: all, files not known"]


def test_a_server_that_does_not_tell_its_version():
    found = of_servers()
    found["sides"][0]["servers"][0]["vllm"] = None
    assert said(read(found), "What was measured")["servers"][0].endswith("m, vLLM unknown")


def test_sides_have_their_names():
    page = read(RECORDS["several"])
    (heading,) = [one for one in page.all("h2") if one.text == "What was measured"]
    assert [one.text for one in heading.parent.one("thead").all("th")] == ["A", "B", "C"]
    assert read(RECORDS["whole"]).one("div", class_="facts").all("thead") == []


def test_plan():
    assert said(read(RECORDS["whole"]), "How") == {
        "models": ["tiny: synthetic: all (sha256:aaaaaaaaaaaaaaaa)"],
        "k": ["tiny: 0, 1, 2, 3"],
        "method": ["mtp, tensor parallel 1"],
        "shapes": ["24/32: 24 random input tokens, 32 output tokens"],
        "concurrency": ["1, 4"],
        "prompts": ["4 for each of the concurrent requests, after a warm-up"],
        "repeats": ["3"],
        "servers": ["a new one for each load"],
        "sampling": ["temperature=0.0 ignore-eos=true"],
        "flags": ["--enforce-eager"],
        "environment": ["VLLM_CPU_KVCACHE_SPACE=1"],
        "loads sent by": ["vllm bench serve of vLLM 0.23.0"],
        "asked for": ["vllm=0.23 engine=cpu"],
    }


def test_plan_that_says_otherwise():
    found = several() | {"asked": {"vllm": None, "despite": []}}
    found["plan"] |= {"share-server": True, "warm-up": False, "flags": {}, "environment": {}}
    plan = said(read(found), "How")
    assert plan["servers"] == ["one for all loads"]
    assert plan["prompts"] == ["4 for each of the concurrent requests, without a warm-up"]
    (words,) = plan["shapes"]
    assert words == (
        "24/32: 24 random input tokens, 32 output tokens "
        "s/9: prompts of sharegpt, d/s.json (sha256:aaaaaaaaaaaaaaaa), 9 output tokens"
    )
    assert plan["k"] == ["one: 0, 1 two: 0, 1"]
    assert not {"flags", "environment", "asked for"} & plan.keys()


def test_flags_are_as_the_server_is_given_them():
    found = record(ks=(0,), concurrency=(1,), repeats=1) | {"asked": {"url": ["a", "b"]}}
    flags = {"a": True, "b": False, "c": 1, "d": "x", "e": {"f": None}, "g": [1, "two"]}
    found["plan"] |= {"flags": flags}
    plan = said(read(found), "How")
    assert plan["flags"] == ['--a --no-b --c 1 --d x --e {"f": null} --g 1 two']
    assert plan["asked for"] == ['url=["a", "b"]']


def test_faults_of_one_reason_are_one_and_come_before_all_else():
    found = without(record(sides=(1.0, 1.2), ks=(0, 1)), 1)
    first = found["points"].index(next(p for p in found["points"] if p["fault"]))
    changed = {"what": "it is gone", "cause": "a cause", "ending": ["a", "b"]}
    found["points"][first]["fault"] |= changed
    page = read(found)
    section = page.one("section", class_="failed")
    assert section.one("h2").text == "12 of 24 runs could not be measured"
    gone, ended = "does not start: it is gone (a cause)", "does not start: the server ended with 1"
    at = "24/32 at concurrency 1"
    assert [item.text for item in section.all("li")] == [
        f"A tiny k = 1 : {gone} 1 run: {at}; logs/001.log the end of the log a b",
        f"B tiny k = 1 : {ended} 6 runs: {at}, 4; logs/001.log",
        f"A tiny k = 1 : {ended} 5 runs: {at}, 4; logs/001.log",
    ]
    main = [part for part in page.one("main").parts if isinstance(part, Element)]
    assert main[0] is section


def test_without_faults_there_is_no_such_section():
    assert read(RECORDS["whole"]).all("section", class_="failed") == []


def test_a_fault_without_a_log():
    found = without(record(ks=(0,)), 0)
    for one in found["points"]:
        one["log"] = None
    (item,) = read(found).one("section", class_="failed").all("li")
    assert item.text.endswith("6 runs: 24/32 at concurrency 1, 4")
