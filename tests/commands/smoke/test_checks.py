from __future__ import annotations

from dataclasses import replace

import pytest

from tests.commands.smoke.builders import (
    CRASH,
    DIGESTS,
    NO_START,
    cell_of,
    measured_of,
    outputs_of,
    pass_of,
    said,
    text_of,
    with_counters,
    with_outputs,
    with_seconds,
)
from vpatch.commands.smoke.checks import Baseline, Check, judge, speed_of, total, verdict_of
from vpatch.declare.smoke import Sampling
from vpatch.harness.measured import Measured, Output
from vpatch.harness.predict import Counters

WARM = Sampling(temperature=0.7)
SHORT = Sampling.model_validate({"ignore-eos": False})
THREE = (10.0, 20.0, 60.0)
LOOP = said([250, 253, 252, 251] * 8)


def check_of(name, cell, measured=None, **against):
    measured = measured_of(cell) if measured is None else measured
    given = {"digests": DIGESTS, "acceptance": None, "base": None} | against
    (found,) = (check for check in judge(cell, measured, Baseline(**given)) if check.name == name)
    return found


def seen(name, cell, measured=None, **against):
    found = check_of(name, cell, measured, **against)
    return found.verdict, found.figure, found.reason


@pytest.mark.parametrize("k", [0, 2])
@pytest.mark.parametrize("mode", ["offline", "server"])
def test_nothing_fails_where_all_is_in_order(mode, k):
    cell = cell_of(k, mode)
    base = measured_of(cell_of(0, mode))
    against = Baseline(DIGESTS, "all", base, THREE, THREE)
    found = {c.name: c.verdict for c in judge(cell, measured_of(cell), against)}
    assert "fail" not in found.values()
    not_run = {name for name, verdict in found.items() if verdict == "not run"}
    expected = {"output as k=0", "acceptance"} if k == 0 else set()
    assert not_run == expected


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({}, ("pass", "loaded in 1.5 s", "")),
        ({"fault": CRASH}, ("fail", "loaded in 1.5 s", "crashed: the process ended with -9")),
        (
            {"load_seconds": None, "fault": replace(NO_START, cause="out of memory")},
            ("fail", "", "does not start: the process ended with 1 (out of memory)"),
        ),
    ],
)
def test_runs(keys, expected):
    cell = cell_of()
    assert seen("runs", cell, measured_of(cell, **keys)) == expected


def test_what_did_not_load_is_judged_by_nothing_that_comes_later():
    cell = cell_of(checks={"acceptance-rate": ">= 0.5", "load-seconds": "< 9"})
    found = judge(cell, Measured(fault=NO_START), Baseline(DIGESTS, "all", None))
    assert [(check.name, check.verdict) for check in found] == [
        ("runs", "fail"),
        ("patched files", "not run"),
        ("acceptance-rate >= 0.5", "not run"),
        ("load-seconds < 9", "not run"),
    ]


@pytest.mark.parametrize(
    ("digests", "verdict", "reason"),
    [
        (DIGESTS, "pass", "as the engine imports them"),
        ({}, "not run", "the process did not come to tell"),
        ({"vllm/a.py": None}, "fail", "the engine imports another vllm/a.py"),
        ({"vllm/a.py": "sha256:2"}, "fail", "the engine imports another vllm/a.py"),
        ({"vllm/b.py": "sha256:1"}, "fail", "the engine imports another vllm/a.py"),
    ],
)
def test_patched_files(digests, verdict, reason):
    cell = cell_of()
    found = check_of("patched files", cell, measured_of(cell, digests=digests))
    assert (found.verdict, found.reason) == (verdict, reason)


def test_patched_files_where_the_engine_tells_none():
    cell = cell_of()
    found = check_of("patched files", cell, measured_of(cell, digests={}), digests={})
    assert (found.verdict, found.figure) == ("pass", "0 files")


NO_DRAFTS = Counters(0, 0, 0, (0, 0))
TOLD = {"method": "mtp", "k": 2}


@pytest.mark.parametrize(
    ("k", "mode", "told", "counters", "expected"),
    [
        (2, "offline", TOLD, Counters(8, 16, 9, (5, 4)), ("pass", "8 drafts", "")),
        (2, "offline", None, NO_DRAFTS, ("fail", "0 drafts", "the engine has switched it off")),
        (2, "offline", None, Counters(8, 16, 9, (5, 4)), ("fail", "8 drafts", "switched it off")),
        (2, "offline", TOLD | {"k": 1}, Counters(8, 8, 8, (8,)), ("fail", "8 drafts", "with k=1")),
        (
            2,
            "offline",
            TOLD | {"method": "ngram"},
            Counters(8, 16, 9, (5, 4)),
            ("fail", "8 drafts", "the engine runs ngram with k=2"),
        ),
        (2, "server", None, Counters(8, 8, 8, (8, 0)), ("fail", "8 drafts", "1.00 tokens a step")),
        (2, "offline", TOLD, NO_DRAFTS, ("fail", "0 drafts", "nothing was drafted")),
        (2, "server", None, Counters(8, 16, 9, (5, 4)), ("pass", "8 drafts", "")),
        (2, "server", None, NO_DRAFTS, ("fail", "0 drafts", "mtp with k=2 was asked for, and")),
        (0, "offline", None, Counters(), ("pass", "off", "")),
        (0, "server", None, Counters(), ("pass", "off", "")),
        (0, "offline", TOLD, Counters(), ("fail", "off", "nobody asked for it")),
        (0, "server", None, Counters(8, 16, 9, (5, 4)), ("fail", "off", "nobody asked for it")),
    ],
)
def test_speculation(k, mode, told, counters, expected):
    cell = cell_of(k, mode)
    passes = {"prompts": replace(pass_of(cell), counters=counters)}
    found = check_of("speculation", cell, measured_of(cell, passes=passes, speculative=told))
    assert (found.verdict, found.figure) == expected[:2]
    assert expected[2] in found.reason
    assert bool(found.reason) == bool(expected[2])


def test_speculation_where_the_run_ended_before_a_draft():
    cell = cell_of()
    assert check_of("speculation", cell, measured_of(cell, passes={}, fault=CRASH)).verdict == (
        "not run"
    )


def test_every_check_that_was_not_run_says_why():
    cell = cell_of()
    found = judge(cell, measured_of(cell, passes={}, fault=CRASH), Baseline(DIGESTS, "all", None))
    assert [check.name for check in found if check.verdict == "not run" and not check.reason] == []


@pytest.mark.parametrize(
    ("sampling", "counts", "expected"),
    [
        (Sampling(), (32, 32), ("pass", "64 tokens", "")),
        (Sampling(), (32, 31), ("fail", "63 tokens", "prompts: 1 of 2 are shorter than 32")),
        (SHORT, (32, 1), ("pass", "33 tokens", "")),
        (SHORT, (0, 0), ("fail", "0 tokens", "prompts: 2 of 2 are shorter than 1")),
    ],
)
def test_tokens(sampling, counts, expected):
    cell = cell_of(sampling=sampling)
    outputs = [said(range(count)) for count in counts]
    assert seen("tokens", cell, with_outputs(measured_of(cell), *outputs)) == expected


def test_tokens_of_a_server_are_those_of_all_its_answers():
    assert check_of("tokens", cell_of(mode="server")).figure == "96 tokens"


def test_a_long_output_that_is_short():
    cell = cell_of(long_tokens=200)
    measured = measured_of(cell)
    long = pass_of(cell, (0,))
    found = seen("tokens", cell, replace(measured, passes={**measured.passes, "long": long}))
    assert found == ("fail", "96 tokens", "long: 1 of 1 are shorter than 200")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("tokens", "it did not come so far"),
        ("as arithmetic predicts", "it made no output"),
        ("output as k=0", "it made no output"),
        ("no loop", "no output has 16 tokens"),
        ("acceptance", "nothing was drafted"),
    ],
)
def test_what_made_no_output_is_not_judged_by_it(name, reason):
    cell = cell_of()
    measured = measured_of(cell, passes={}, fault=CRASH)
    base = measured_of(cell_of(0))
    found = seen(name, cell, measured, acceptance="all", base=base)
    assert found == ("not run", "", reason)


def changed(tokens, position):
    return [*tokens[:position], 499, *tokens[position + 1 :]]


@pytest.mark.parametrize(
    ("ours", "theirs", "reason"),
    [
        (range(32), range(32), None),
        (changed(range(32), 7), range(32), "prompt 1 differs from token 7 on"),
        (changed(range(32), 0), range(32), "prompt 1 differs from token 0 on"),
        (range(30), range(32), "prompt 1 differs from token 30 on"),
        (range(32), range(30), "prompt 1 differs from token 30 on"),
    ],
)
def test_output_as_without_speculation(ours, theirs, reason):
    cell, plain = cell_of(2), cell_of(0)
    measured = with_outputs(measured_of(cell), said(range(32)), said(ours))
    base = with_outputs(measured_of(plain), said(range(32)), said(theirs))
    found = check_of("output as k=0", cell, measured, base=base)
    assert (found.verdict, found.reason) == ("fail" if reason else "pass", reason or "")


def test_output_of_a_server_is_compared_by_its_text():
    cell, name = cell_of(2, "server"), "several at once"
    measured, base = measured_of(cell), measured_of(cell_of(0))
    assert check_of("output as k=0", cell, measured, base=base).figure == "2 of 2 the same"
    outputs = list(measured.passes[name].outputs)
    outputs[1] = replace(outputs[1], tokens=None, text="<024>x" + outputs[1].text[6:])
    found = check_of("output as k=0", cell, with_outputs(measured, *outputs, name=name), base=base)
    assert (found.verdict, found.reason) == ("fail", "prompt 1 differs from character 5 on")


@pytest.mark.parametrize(
    ("cell", "base", "reason"),
    [
        (cell_of(0), measured_of(cell_of(0)), "it is that of k=0"),
        (cell_of(2, sampling=WARM), measured_of(cell_of(0)), "temperature is 0.7"),
        (cell_of(2), None, "no k=0 was run"),
        (cell_of(2), measured_of(cell_of(0), passes={}), "k=0 made no output"),
    ],
)
def test_output_that_cannot_be_compared(cell, base, reason):
    assert seen("output as k=0", cell, base=base) == ("not run", "", reason)


def test_as_arithmetic_predicts():
    found = check_of("as arithmetic predicts", cell_of(), acceptance="all")
    assert (found.verdict, found.figure) == ("pass", "22 drafts, 44 of 44 accepted [22, 22]")


@pytest.mark.parametrize(
    ("counters", "figure"),
    [
        (Counters(22, 44, 43, (22, 21)), "22 drafts, 43 of 44 accepted [22, 21]"),
        (Counters(23, 46, 44, (22, 22)), "23 drafts, 44 of 46 accepted [22, 22]"),
        (Counters(22, 44, 44, (21, 23)), "22 drafts, 44 of 44 accepted [21, 23]"),
    ],
)
@pytest.mark.parametrize("mode", ["offline", "server"])
def test_counters_that_arithmetic_does_not_predict(mode, counters, figure):
    cell = cell_of(2, mode)
    name = "prompts" if mode == "offline" else "several at once"
    measured = with_counters(measured_of(cell), counters, name)
    expected = "22 drafts, 44 of 44 accepted [22, 22]"
    reason = f"{name}: vLLM counts {figure}, not {expected}"
    found = seen("as arithmetic predicts", cell, measured, acceptance="all")
    assert found == ("fail", figure, reason)


@pytest.mark.parametrize("k", [0, 2])
def test_tokens_that_arithmetic_does_not_predict(k):
    cell = cell_of(k)
    measured = measured_of(cell)
    one, two = measured.passes["prompts"].outputs
    measured = with_outputs(measured, one, said(changed(two.tokens, 31)))
    found = seen("as arithmetic predicts", cell, measured, acceptance="all")
    assert found == ("fail", "", "prompts: prompt 1 has other tokens")


def test_every_pass_is_predicted_by_the_prompt_that_it_asks():
    cell = cell_of(long_tokens=50)
    passes = {"prompts": pass_of(cell), "long": pass_of(cell, (1,), count=50)}
    measured = measured_of(cell, passes=passes)
    found = check_of("as arithmetic predicts", cell, measured, acceptance="all")
    assert (found.verdict, found.figure) == ("pass", "39 drafts, 78 of 78 accepted [39, 39]")
    wrong = replace(passes["long"], asked=(0,))
    measured = measured_of(cell, passes=passes | {"long": wrong})
    found = check_of("as arithmetic predicts", cell, measured, acceptance="all")
    assert found.reason == "long: prompt 0 has other tokens"


def test_text_that_arithmetic_does_not_predict():
    cell = cell_of(0, "server")
    measured = measured_of(cell)
    outputs = [Output(text_of(range(32)), None, 32)] * 2
    measured = with_outputs(measured, *outputs, name="several at once")
    assert check_of("as arithmetic predicts", cell, measured, acceptance="all").verdict == "fail"


def judged_loops(*outputs, k=2, **keys):
    cell = cell_of(k, **keys)
    return check_of("no loop", cell, with_outputs(measured_of(cell), *outputs))


def test_loop():
    found = judged_loops(LOOP)
    assert (found.verdict, found.reason) == ("fail", "4-gram [250, 253, 252, 251] is there 8 times")
    assert found.figure == "0.8710 / 0.8667 / 0.8621, most 8"


@pytest.mark.parametrize(
    ("tokens", "verdict"),
    [
        (range(16), "pass"),
        (range(15), "not run"),
        # 12 of 24 4-grams were there before, and 13 of 25.
        ([n % 12 for n in range(27)], "pass"),
        ([n % 12 for n in range(28)], "fail"),
    ],
)
def test_repeats_up_to_a_half(tokens, verdict):
    assert judged_loops(said(tokens)).verdict == verdict


def test_a_declared_threshold_stands_for_the_half():
    assert judged_loops(LOOP, checks={"4gram-repeats": "<= 0.9"}).verdict == "pass"
    assert judged_loops(LOOP, checks={"trigram-repeats": "<= 0.9"}).verdict == "fail"


def test_the_longest_output_is_judged():
    assert judged_loops(said(range(31)), LOOP).verdict == "fail"


def test_a_loop_in_any_output_is_found():
    assert judged_loops(said(range(32)), LOOP).verdict == "fail"


def test_loops_of_a_server_that_tells_no_tokens():
    cell = cell_of(mode="server")
    streamed = measured_of(cell).passes["streaming"]
    texts = [replace(output, tokens=None) for output in streamed.outputs]
    measured = replace(measured_of(cell), passes={"streaming": pass_of(cell, (0,))})
    found = check_of("no loop", cell, with_outputs(measured, *texts, name="streaming"))
    assert (found.verdict, found.reason) == ("not run", "no output has 16 tokens")


def test_a_loop_without_speculation_is_found_whatever_is_declared():
    assert judged_loops(LOOP, k=0, checks={"4gram-repeats": "<= 0.1"}).verdict == "fail"


@pytest.mark.parametrize("may_differ", [False, True])
def test_output_that_may_differ(may_differ):
    cell = cell_of(2, output_may_differ=may_differ)
    measured = with_outputs(measured_of(cell), said(range(32)), said(changed(range(32), 7)))
    base = with_outputs(measured_of(cell_of(0)), said(range(32)), said(range(32)))
    found = seen("output as k=0", cell, measured, base=base)
    verdict = "pass" if may_differ else "fail"
    assert found == (verdict, "1 of 2 the same", "prompt 1 differs from token 7 on")


def test_a_long_output_is_compared_as_well():
    cell = cell_of(2, long_tokens=32)
    one, other = (
        replace(m, passes={**m.passes, "long": replace(pass_of(cell, (0,)), outputs=(output,))})
        for m, output in (
            (measured_of(cell), said(changed(range(32), 9))),
            (measured_of(cell_of(0)), said(range(32))),
        )
    )
    found = seen("output as k=0", cell, one, base=other)
    assert found == ("fail", "2 of 3 the same", "prompt long differs from token 9 on")


REJECTED = Counters(62, 124, 0, (0, 0))


@pytest.mark.parametrize(
    ("checks", "counters", "verdict", "reason"),
    [
        ({}, REJECTED, "pass", ""),
        ({"acceptance-rate": ">= 0"}, REJECTED, "pass", ""),
        ({"speed-up": "> 1"}, REJECTED, "fail", "nothing is accepted, where a speed-up is claimed"),
        ({"speed-up": "> 1"}, replace(REJECTED, accepted=1), "pass", ""),
        ({"speed-up": "> 1"}, Counters(0, 0, 0, (0, 0)), "not run", "nothing was drafted"),
    ],
)
def test_acceptance(checks, counters, verdict, reason):
    cell = cell_of(checks=checks)
    found = check_of("acceptance", cell, with_counters(measured_of(cell), counters))
    assert (found.verdict, found.reason) == (verdict, reason)


def test_acceptance_in_figures():
    cell = cell_of()
    measured = with_counters(measured_of(cell), Counters(8, 16, 12, (8, 4)))
    figure = "8 drafts, 12 of 16 accepted [8, 4], rate 0.750, length 2.50"
    assert check_of("acceptance", cell, measured).figure == figure
    found = check_of("acceptance", cell_of(0))
    assert (found.verdict, found.reason) == ("not run", "nothing is drafted with k=0")


def halves(first, later, **keys):
    """A long answer: what was counted in its first half, and what in its second."""
    cell = cell_of(2, long_tokens=200, **keys)
    measured = measured_of(cell)
    half, long = (pass_of(cell, (0,), count=count) for count in (100, 200))
    half = replace(half, counters=first)
    long = replace(long, counters=first + later)
    return cell, replace(measured, passes={**measured.passes, "half": half, "long": long})


def counted_as(drafts, accepted):
    return Counters(drafts, 2 * drafts, accepted, (accepted, 0))


@pytest.mark.parametrize(
    ("first", "later", "expected"),
    [
        ((40, 60), (40, 60), ("pass", "0.750, then 0.750", "")),
        ((40, 60), (40, 30), ("pass", "0.750, then 0.375", "")),
        (
            (40, 60),
            (40, 29),
            ("fail", "0.750, then 0.362", "acceptance falls along the long answer"),
        ),
        # Nothing to lose.
        ((40, 0), (40, 0), ("pass", "0.000, then 0.000", "")),
        (
            (40, 60),
            (15, 0),
            (
                "not run",
                "0.750, then 0.000",
                "a half of the long answer has fewer than 16 drafts",
            ),
        ),
    ],
)
def test_late_acceptance(first, later, expected):
    cell, measured = halves(counted_as(*first), counted_as(*later))
    assert seen("late acceptance", cell, measured) == expected


def test_a_threshold_of_late_acceptance_takes_the_place_of_the_check():
    cell, measured = halves(
        counted_as(40, 60), counted_as(40, 15), checks={"late-acceptance": ">= 0.25"}
    )
    assert seen("late acceptance", cell, measured)[0] == "pass"
    assert seen("late-acceptance >= 0.25", cell, measured) == ("pass", "0.250", "")
    stricter = replace(cell, checks={"late-acceptance": ">= 0.5"})
    assert seen("late-acceptance >= 0.5", stricter, measured)[0] == "fail"


def test_late_acceptance_of_what_did_not_come_so_far():
    cell = cell_of(2, long_tokens=200)
    assert seen("late acceptance", cell) == ("not run", "", "it did not come so far")


def test_preemptions_and_cached_tokens():
    cell = cell_of(checks={"preemptions": ">= 3", "cached-tokens": ">= 128"})
    measured = measured_of(cell)
    one = replace(measured.passes["prompts"], preemptions=2, cached_tokens=128)
    passes = {"prompts": one, "long": replace(one, preemptions=1, cached_tokens=0)}
    measured = replace(measured, passes=passes)
    assert seen("preemptions >= 3", cell, measured) == ("pass", "3.000", "")
    assert seen("cached-tokens >= 128", cell, measured) == ("pass", "128.000", "")
    assert seen("preemptions >= 3", cell)[0] == "fail"


# Two prompts of 32 tokens with k = 2: 11 drafts each.
@pytest.mark.parametrize(
    ("preemptions", "drafts", "accepted", "verdict"),
    [(0, 21, 42, "fail"), (1, 21, 42, "pass"), (1, 24, 44, "pass"), (1, 19, 38, "fail")],
)
def test_a_preemption_may_cost_drafts_and_no_more(preemptions, drafts, accepted, verdict):
    cell = cell_of(2)
    counters = Counters(drafts, 2 * drafts, accepted, (accepted // 2, accepted // 2))
    measured = with_counters(measured_of(cell), counters)
    one = replace(measured.passes["prompts"], preemptions=preemptions)
    measured = replace(measured, passes={"prompts": one})
    assert seen("as arithmetic predicts", cell, measured, acceptance="all")[0] == verdict


@pytest.mark.parametrize(
    ("limit", "verdict"),
    [(None, "fail"), (512, "fail"), (37, "fail"), (36, "pass"), (34, "pass")],
)
def test_the_last_steps_before_the_longest_length_may_draft_less(limit, verdict):
    """A prompt of 2 tokens and an answer of 32."""
    cell = cell_of(2, flags={} if limit is None else {"max-model-len": limit})
    fewer = Counters(22, 42, 42, (22, 20))
    measured = with_counters(measured_of(cell), fewer)
    assert seen("speculation", cell, measured)[0] == verdict
    assert seen("as arithmetic predicts", cell, measured, acceptance="all")[0] == verdict


def test_a_text_has_no_more_tokens_than_bytes():
    cell = cell_of(2, prompts=("<003>", "<009>"), flags={"max-model-len": 40})
    measured = with_counters(measured_of(cell), Counters(22, 42, 42, (22, 20)))
    assert seen("speculation", cell, measured)[0] == "fail"
    longer = replace(cell, prompts=("aaa<003>", "aaa<009>"))
    assert seen("speculation", longer, measured)[0] == "pass"


def served(cell=None, **keys):
    measured = measured_of(cell or cell_of(mode="server"))
    return replace(measured, server=replace(measured.server, **keys))


def test_what_a_server_answered():
    problems = {"/health": (), "/v1/models": ("it names x", "it names y")}
    measured = served(problems=problems, not_run={"chat": "no chat template"})
    found = {
        check.name: (check.verdict, check.reason)
        for check in judge(cell_of(mode="server"), measured, Baseline(DIGESTS, None, None))
    }
    assert found["/health"] == ("pass", "")
    assert found["/v1/models"] == ("fail", "it names x; it names y")
    assert found["chat"] == ("not run", "no chat template")


@pytest.mark.parametrize(
    ("generated", "expected"),
    [
        (96, ("pass", "96 tokens", "")),
        (97, ("fail", "97 tokens", "vLLM counts 97, the answers 96")),
        (0, ("fail", "0 tokens", "vLLM counts 0, the answers 96")),
    ],
)
def test_metrics(generated, expected):
    measured = served(generated=generated, answered=96)
    assert seen("/metrics", cell_of(mode="server"), measured) == expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (0, ("pass", "2.0 s", "")),
        (1, ("fail", "2.0 s", "it ended with 1")),
        (-9, ("fail", "2.0 s", "it ended with -9")),
        (None, ("not run", "", "it had ended before")),
    ],
)
def test_stop(code, expected):
    measured = served(stop_code=code, stop_seconds=2.0)
    assert seen("stop", cell_of(mode="server"), measured) == expected


def agreement(texts, count=32, **keys):
    """The verdict on texts by the name of a pass, each of prompt 0."""
    cell = cell_of(2, "server", **keys)
    one = pass_of(cell, (0,))
    passes = {
        name: replace(one, outputs=(Output(text, None, count),)) for name, text in texts.items()
    }
    found = check_of("answers agree", cell, replace(measured_of(cell), passes=passes))
    return found.verdict, found.reason


def test_answers_agree():
    assert agreement({"streaming": "a", "/v1/completions": "a"}) == ("pass", "")
    assert agreement({"streaming": "a", "/v1/completions": "b"}) == (
        "fail",
        "/v1/completions: prompt 0 got another text",
    )
    assert agreement({"streaming": "a", "chat": "b"}) == ("pass", "")
    found = agreement({"streaming": "a", "/v1/completions": "b"}, sampling=WARM)
    assert found == ("not run", "temperature is 0.7")


def test_answers_of_one_pass_and_of_the_same_prompt_agree():
    cell = cell_of(2, "server")
    texts = [Output("a", None, 32), Output("b", None, 32)]
    for asked, verdict in (((0, 0), "fail"), ((0, 1), "pass")):
        one = replace(pass_of(cell), asked=asked, outputs=tuple(texts))
        measured = replace(measured_of(cell), passes={"/v1/completions": one})
        assert check_of("answers agree", cell, measured).verdict == verdict


def test_a_warm_up_is_shorter_and_agrees_with_nothing():
    cell = cell_of(2, "server")
    measured = measured_of(cell)
    warm_up = replace(pass_of(cell, (0,), count=2))
    measured = replace(measured, passes={"warm-up": warm_up, **measured.passes})
    assert check_of("answers agree", cell, measured).verdict == "pass"


def test_answers_that_end_by_themselves_agree():
    texts = {"streaming": "a", "/v1/completions": "b"}
    assert agreement(texts, 5, sampling=SHORT)[0] == "fail"


def test_no_answers_do_not_agree():
    assert agreement({})[0] == "not run"


@pytest.mark.parametrize(("left", "verdict"), [(0, "pass"), (1, "fail")])
def test_nothing_left(left, verdict):
    cell = cell_of()
    found = check_of("nothing left", cell, measured_of(cell, left_behind=left))
    assert (found.verdict, found.figure) == (verdict, f"{left} processes")
    assert bool(found.reason) == bool(left)


def test_memory():
    assert seen("memory", cell_of()) == ("pass", "1.00 GiB", "")


@pytest.mark.parametrize(
    ("k", "speeds", "base", "expected"),
    [
        (2, (), (), ("not run", "", "it made no output")),
        (2, (20.0,), (10.0,), ("not run", "2.00 times k=0", "1 of 3 rounds")),
        (2, (20.0, 30.0), (), ("not run", "25.0 tokens/s (20.0 to 30.0)", "2 of 3 rounds")),
        (2, THREE, (10.0, 10.0, 16.0), ("pass", "20.0 tokens/s (10.0 to 60.0), 2.00 times", "")),
        (2, THREE, (), ("pass", "20.0 tokens/s", "there is no k=0 to compare it with")),
        (0, THREE, (), ("pass", "20.0 tokens/s (10.0 to 60.0)", "")),
        (0, THREE, THREE, ("pass", "20.0 tokens/s (10.0 to 60.0)", "")),
    ],
)
def test_speed(k, speeds, base, expected):
    found = check_of("speed", cell_of(k), speeds=speeds, base_speeds=base)
    assert (found.verdict, found.reason) == (expected[0], expected[2])
    assert expected[1] in found.figure
    assert ("times" in found.figure) == ("times" in expected[1])


def test_speed_against_nothing():
    assert "times" not in check_of("speed", cell_of(), speeds=THREE, base_speeds=(0.0,)).figure


def claimed(figure, threshold, measured=None, **against):
    cell = cell_of(checks={figure: threshold})
    return check_of(f"{figure} {threshold}", cell, measured, **against)


@pytest.mark.parametrize(
    ("threshold", "verdict"),
    [
        (">= 0.75", "pass"),
        (">= 0.76", "fail"),
        ("<= 0.75", "pass"),
        ("<=0.74", "fail"),
        ("> 0.74", "pass"),
        ("> 0.75", "fail"),
        ("< 0.76", "pass"),
        ("<0.75", "fail"),
        ("==0.75", "pass"),
        ("== 1", "fail"),
    ],
)
def test_each_sign(threshold, verdict):
    measured = with_counters(measured_of(cell_of()), Counters(8, 16, 12, (8, 4)))
    found = claimed("acceptance-rate", threshold, measured)
    reason = "it is 0.750" if verdict == "fail" else ""
    assert (found.verdict, found.figure, found.reason) == (verdict, "0.750", reason)


@pytest.mark.parametrize(
    ("figure", "value"),
    [
        ("acceptance-rate", "0.750"),
        ("acceptance-length", "2.500"),
        ("tokens-per-second", "20.000"),
        ("speed-up", "2.500"),
        ("load-seconds", "1.500"),
        ("memory-gib", "1.000"),
        ("bigram-repeats", "0.871"),
        ("trigram-repeats", "0.867"),
        ("4gram-repeats", "0.862"),
        ("most-repeated-4gram", "8.000"),
    ],
)
def test_each_figure(figure, value):
    measured = with_counters(measured_of(cell_of()), Counters(8, 16, 12, (8, 4)))
    measured = with_outputs(measured, LOOP)
    found = claimed(figure, ">= 100", measured, speeds=THREE, base_speeds=(8.0, 1.0, 9.0))
    assert (found.verdict, found.figure, found.reason) == ("fail", value, f"it is {value}")


@pytest.mark.parametrize("figure", ["tokens-per-second", "speed-up"])
def test_rates_take_three_rounds(figure):
    found = claimed(figure, "> 1", speeds=(20.0, 20.0), base_speeds=(10.0, 10.0))
    assert (found.verdict, found.reason) == (
        "not run",
        "a median takes 3 rounds: give --rounds 3",
    )
    found = claimed(figure, "> 1", speeds=(20.0,) * 3, base_speeds=(10.0,) * 3)
    assert found.verdict == "pass"


def test_a_speed_up_takes_three_rounds_of_both():
    found = claimed("speed-up", "> 1", speeds=(20.0,) * 3, base_speeds=(10.0,))
    assert found.verdict == "not run"


@pytest.mark.parametrize(
    ("figure", "keys"),
    [
        ("speed-up", {"speeds": THREE}),
        ("tokens-per-second", {}),
        ("memory-gib", {"measured": measured_of(cell_of(), memory=0)}),
        ("acceptance-rate", {"measured": measured_of(cell_of(), passes={})}),
        ("4gram-repeats", {"measured": measured_of(cell_of(), passes={})}),
    ],
)
def test_a_figure_that_is_not_there(figure, keys):
    found = claimed(figure, "> 1", **keys)
    assert (found.verdict, found.reason) == ("not run", "there is no such figure")


def test_thresholds_are_for_cells_that_speculate():
    cell = cell_of(0, checks={"memory-gib": "< 0.1"})
    found = judge(cell, measured_of(cell), Baseline(DIGESTS, None, None))
    assert [check for check in found if check.name.startswith("memory-gib")] == []


@pytest.mark.parametrize(
    ("verdicts", "verdict"),
    [
        (("pass", "fail", "not run"), "fail"),
        (("not run", "pass"), "pass"),
        (("not run", "not run"), "not run"),
        ((), "not run"),
    ],
)
def test_verdict_of_several_checks(verdicts, verdict):
    assert verdict_of(Check("x", one) for one in verdicts) == verdict


def test_speed_and_total_of_a_run():
    cell = cell_of()
    measured = measured_of(cell)
    assert speed_of(measured) == 32
    assert speed_of(with_seconds(measured, 0)) is None
    assert speed_of(replace(measured, passes={})) is None
    long = pass_of(cell, (0,), count=2, seconds=100)
    measured = replace(measured, passes={**measured.passes, "long": long})
    assert speed_of(measured) == 32
    assert total(measured) == Counters(23, 46, 46, (23, 23))
    assert speed_of(measured_of(cell_of(mode="server"))) == 32


def test_outputs_are_as_the_builders_say():
    assert outputs_of(cell_of(), (1,), 3)[0] == Output("<024><031><038>", (24, 31, 38), 3)
