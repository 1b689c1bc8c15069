"""What was measured, judged: a check passes, fails or was not run, with a figure and a reason."""

from __future__ import annotations

import operator
import re
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Literal

from vpatch.commands.smoke.arithmetic import other_counters, other_tokens, tolerated_steps
from vpatch.commands.smoke.repeats import Repeats, repeats
from vpatch.evidence import smoke_report
from vpatch.harness.predict import Counters
from vpatch.util.plural import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from vpatch.commands.smoke.cells import Cell
    from vpatch.harness.measured import Measured, Output, Pass

Verdict = Literal["pass", "fail", "not run"]
_GIB = 2**30
# Half of the 4-grams were there before: nobody writes so, unless asked to.
_LOOPING = 0.5
_MEDIAN_OF = 3
_TOO_SHORT = 16
# Chance does not halve what is accepted of so many drafts.
_COLLAPSE = 0.5
_FEWEST_DRAFTS = 16
_COMPARISONS = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "==": operator.eq,
}
_RATES = {"tokens-per-second", "speed-up"}


@dataclass(frozen=True)
class Check:
    """`figure` is what was seen, in short; `reason` says why it fails, or was not run.

    What was `claimed` in the plan must pass: if it was not judged, that does not count as success.
    """

    name: str
    verdict: Verdict
    figure: str = ""
    reason: str = ""
    claimed: bool = False


def verdict_of(checks: Sequence[Check]) -> Verdict:
    """Return the verdict on a cell, from its checks."""
    return smoke_report.verdict_of([(check.verdict, check.claimed) for check in checks])


@dataclass(frozen=True)
class Baseline:
    """What a cell is judged by.

    `digests` are of the files that are laid over; `acceptance` that of a synthetic checkpoint whose
    output is known; `base` the run with k = 0 of the same row; `speeds` and `base_speeds` the
    output tokens per second of each round.
    """

    digests: Mapping[str, str]
    acceptance: str | None
    base: Measured | None
    speeds: Sequence[float] = ()
    base_speeds: Sequence[float] = ()


def judge(cell: Cell, measured: Measured, against: Baseline) -> list[Check]:
    """Return every check of a cell, in the order in which they explain one another."""
    checks = [_runs(measured), _files(measured, against.digests)]
    if measured.load_seconds is None:
        return [*checks, *_claims(cell, measured, against)]
    checks += [_speculation(cell, measured), _tokens(cell, measured)]
    checks += [_same_output(cell, measured, against.base)]
    if against.acceptance is not None:
        checks += [_by_construction(cell, measured, against.acceptance)]
    checks += [_repeats(cell, measured), _acceptance(cell, measured)]
    checks += list(_course(cell, measured))
    checks += list(_server(cell, measured))
    checks += [_left_behind(measured), _memory(measured)]
    return [*checks, _speed(cell, against), *_claims(cell, measured, against)]


def speed_of(measured: Measured) -> float | None:
    """Return output tokens per second of all prompts at once."""
    one = _main_pass(measured)
    return sum(o.count for o in one.outputs) / one.seconds if one and one.seconds else None


def total(measured: Measured) -> Counters:
    return sum((one.counters for one in measured.passes.values()), Counters())


def _main_pass(measured: Measured) -> Pass | None:
    return measured.passes.get("prompts") or measured.passes.get("several at once")


def _runs(measured: Measured) -> Check:
    seconds = measured.load_seconds
    figure = "" if seconds is None else f"loaded in {seconds:.1f} s"
    if measured.fault is not None:
        return Check("runs", "fail", figure, str(measured.fault))
    return Check("runs", "pass", figure)


def _files(measured: Measured, digests: Mapping[str, str]) -> Check:
    name = "patched files"
    if not measured.digests and digests:
        return Check(name, "not run", reason="the process did not come to tell")
    wrong = [path for path, digest in digests.items() if measured.digests.get(path) != digest]
    if wrong:
        return Check(name, "fail", reason=f"the engine imports another {', '.join(wrong)}")
    return Check(name, "pass", counted(len(digests), "file"), "as the engine imports them")


def _speculation(cell: Cell, measured: Measured) -> Check:
    name, drafts = "speculation", total(measured).drafts
    if cell.k == 0:
        unasked = bool(drafts or measured.speculative)
        return Check(name, "fail" if unasked else "pass", "off", "nobody asked for it" * unasked)
    wrong = _wrong_speculation(cell, measured)
    if wrong is not None:
        asked = f"{cell.method} with k={cell.k} was asked for"
        return Check(name, "fail", f"{drafts} drafts", f"{asked}, and {wrong}")
    if drafts == 0:
        return Check(name, "not run", reason="it did not come so far")
    return Check(name, "pass", f"{drafts} drafts")


def _wrong_speculation(cell: Cell, measured: Measured) -> str | None:
    """What is done instead of that which was asked for."""
    counters, config = total(measured), measured.speculative
    if cell.mode == "offline" and config is None:
        return "the engine has switched it off"
    if config is not None and (config["method"], config["k"]) != (cell.method, cell.k):
        return f"the engine runs {config['method']} with k={config['k']}"
    if counters.drafts == 0:
        return None if measured.fault else "nothing was drafted"
    missing = counters.drafts * cell.k - counters.draft_tokens
    # The steps before a request reaches the longest length draft no more than fits.
    if 0 <= missing <= cell.k * sum(tolerated_steps(cell, one) for one in measured.passes.values()):
        return None
    return f"{counters.draft_tokens / counters.drafts:.2f} tokens a step are drafted"


def _tokens(cell: Cell, measured: Measured) -> Check:
    name = "tokens"
    if not measured.passes:
        return Check(name, "not run", reason="it did not come so far")
    wanted = {"warm-up": 2, "half": cell.long_tokens // 2, "long": cell.long_tokens}
    short = []
    for label, one in measured.passes.items():
        least = wanted.get(label, cell.max_tokens) if cell.sampling.ignore_eos else 1
        few = sum(output.count < least for output in one.outputs)
        if few:
            short.append(f"{label}: {few} of {len(one.outputs)} are shorter than {least}")
    count = sum(output.count for one in measured.passes.values() for output in one.outputs)
    return Check(name, "fail" if short else "pass", f"{count} tokens", "; ".join(short))


def _same_output(cell: Cell, measured: Measured, base: Measured | None) -> Check:
    name = "output as k=0"
    one, other = _main_pass(measured), _main_pass(base) if base else None
    if cell.k == 0:
        return Check(name, "not run", reason="it is that of k=0")
    if cell.sampling.temperature > 0:
        return Check(name, "not run", reason=f"temperature is {cell.sampling.temperature:g}")
    if one is None or other is None:
        missing = "it made no output" if one is None else "k=0 made no output"
        return Check(name, "not run", reason=missing if base else "no k=0 was run")
    pairs = _pairs(one, other)
    if base and "long" in measured.passes and "long" in base.passes:
        pairs |= {"long": _pairs(measured.passes["long"], base.passes["long"])[0]}
    places = {which: _first_difference(*pair) for which, pair in pairs.items()}
    differing = {which: where for which, where in places.items() if where is not None}
    figure = f"{len(pairs) - len(differing)} of {len(pairs)} the same"
    reason = "; ".join(f"prompt {which} differs from {w} on" for which, w in differing.items())
    fails = bool(differing) and not cell.output_may_differ
    return Check(name, "fail" if fails else "pass", figure, reason)


def _pairs(one: Pass, other: Pass) -> dict[int | str, tuple[Output, Output]]:
    """Answers to the same prompt; a server may have been asked one more often."""
    theirs = dict(zip(other.asked, other.outputs, strict=True))
    return {
        number: (output, theirs[number])
        for number, output in zip(one.asked, one.outputs, strict=True)
        if number in theirs
    }


def _first_difference(ours: Output, theirs: Output) -> str | None:
    if ours.tokens is not None and theirs.tokens is not None:
        pairs: Sequence[tuple[object, object]] = list(zip(ours.tokens, theirs.tokens, strict=False))
        what, same = "token", ours.tokens == theirs.tokens
    else:
        pairs = list(zip(ours.text, theirs.text, strict=False))
        what, same = "character", ours.text == theirs.text
    if same:
        return None
    position = next((i for i, (a, b) in enumerate(pairs) if a != b), len(pairs))
    return f"{what} {position}"


def _by_construction(cell: Cell, measured: Measured, acceptance: str) -> Check:
    name = "as arithmetic predicts"
    if not measured.passes:
        return Check(name, "not run", reason="it made no output")
    for label, one in measured.passes.items():
        number = other_tokens(cell, one)
        if number is not None:
            return Check(name, "fail", reason=f"{label}: prompt {number} has other tokens")
        expected = other_counters(cell, one, acceptance)
        if expected is not None:
            reason = f"{label}: vLLM counts {_in_short(one.counters)}, not {_in_short(expected)}"
            return Check(name, "fail", _in_short(one.counters), reason)
    return Check(name, "pass", _in_short(total(measured)))


def _in_short(counters: Counters) -> str:
    share = f"{counters.accepted} of {counters.draft_tokens} accepted"
    return f"{counters.drafts} drafts, {share} {list(counters.per_position)}"


def _worst(measured: Measured) -> Repeats | None:
    """The repeats of the output that has most of them, of those that are long enough."""
    outputs = [o.tokens for one in measured.passes.values() for o in one.outputs if o.tokens]
    counts = [repeats(tokens) for tokens in outputs if len(tokens) >= _TOO_SHORT]
    return max(counts, key=lambda one: (one.fourgram, one.most), default=None)


def _repeats(cell: Cell, measured: Measured) -> Check:
    name = "no loop"
    worst = _worst(measured)
    if worst is None:
        return Check(name, "not run", reason=f"no output has {_TOO_SHORT} tokens")
    figure = f"{worst.bigram:.4f} / {worst.trigram:.4f} / {worst.fourgram:.4f}, most {worst.most}"
    declared = cell.k > 0 and "4gram-repeats" in cell.checks
    if worst.fourgram > _LOOPING and not declared:
        reason = f"4-gram {list(worst.which)} is there {worst.most} times"
        return Check(name, "fail", figure, reason)
    return Check(name, "pass", figure)


def _acceptance(cell: Cell, measured: Measured) -> Check:
    name, counters = "acceptance", total(measured)
    if cell.k == 0:
        return Check(name, "not run", reason="nothing is drafted with k=0")
    if counters.rate is None or counters.length is None:
        return Check(name, "not run", reason="nothing was drafted")
    figure = f"{_in_short(counters)}, rate {counters.rate:.3f}, length {counters.length:.2f}"
    if counters.accepted == 0 and "speed-up" in cell.checks:
        return Check(name, "fail", figure, "nothing is accepted, where a speed-up is claimed")
    return Check(name, "pass", figure)


def _course(cell: Cell, measured: Measured) -> Iterator[Check]:
    """Whether drafts are accepted as often at the end of a long answer as at its beginning."""
    if cell.k == 0 or not cell.long_tokens or cell.mode == "server":
        return
    name = "late acceptance"
    half, later = measured.passes.get("half"), _later(measured)
    if half is None or later is None:
        yield Check(name, "not run", reason="it did not come so far")
        return
    figure = f"{half.counters.rate or 0:.3f}, then {later.rate or 0:.3f}"
    ratio = _late_acceptance(measured)
    if min(half.counters.drafts, later.drafts) < _FEWEST_DRAFTS:
        reason = f"a half of the long answer has fewer than {_FEWEST_DRAFTS} drafts"
        yield Check(name, "not run", figure, reason)
    elif ratio is not None and ratio < _COLLAPSE and "late-acceptance" not in cell.checks:
        yield Check(name, "fail", figure, "acceptance falls along the long answer")
    else:
        yield Check(name, "pass", figure)


def _later(measured: Measured) -> Counters | None:
    """What was counted in the second half of the long answer."""
    half, whole = measured.passes.get("half"), measured.passes.get("long")
    return whole.counters - half.counters if half and whole else None


def _late_acceptance(measured: Measured) -> float | None:
    """The acceptance rate of the second half of the long answer, by that of the first half."""
    half, later = measured.passes.get("half"), _later(measured)
    if half is None or later is None or not half.counters.rate or later.rate is None:
        return None
    return later.rate / half.counters.rate


def _server(cell: Cell, measured: Measured) -> Iterator[Check]:
    served = measured.server
    if served is None:
        return
    for name, problems in served.problems.items():
        yield Check(name, "fail" if problems else "pass", reason="; ".join(problems))
    for name, reason in served.not_run.items():
        yield Check(name, "not run", reason=reason)
    yield _agreement(cell, measured)
    same = served.generated == served.answered
    reason = "" if same else f"vLLM counts {served.generated}, the answers {served.answered}"
    yield Check("/metrics", "pass" if same else "fail", f"{served.generated} tokens", reason)
    if served.stop_code is None:
        yield Check("stop", "not run", reason="it had ended before")
    else:
        code = served.stop_code
        reason = f"it ended with {code}" if code else ""
        yield Check("stop", "fail" if code else "pass", f"{served.stop_seconds:.1f} s", reason)


def _agreement(cell: Cell, measured: Measured) -> Check:
    """The same request gets the same text: streamed or not, alone or beside others, chat apart."""
    name = "answers agree"
    if cell.sampling.temperature > 0:
        return Check(name, "not run", reason=f"temperature is {cell.sampling.temperature:g}")
    texts: dict[tuple[bool, int], str] = {}
    for label, one in measured.passes.items():
        for number, output in zip(one.asked, one.outputs, strict=True):
            # The first, to warm up, is shorter.
            if label == "warm-up":
                continue
            key = (label == "chat", number)
            if texts.setdefault(key, output.text) != output.text:
                verdict: Verdict = "pass" if cell.output_may_differ else "fail"
                return Check(name, verdict, reason=f"{label}: prompt {number} got another text")
    return Check(name, "pass" if texts else "not run", reason="" if texts else "there are none")


def _left_behind(measured: Measured) -> Check:
    count = measured.left_behind
    reason = "it ended, and these did not" if count else ""
    return Check("nothing left", "fail" if count else "pass", f"{count} processes", reason)


def _memory(measured: Measured) -> Check:
    """Whether it is too much is for a threshold to say."""
    gpus = measured.gpu_memory
    on_gpus = "" if gpus is None else f", {gpus / _GIB:.2f} GiB on GPUs"
    return Check("memory", "pass", f"{measured.memory / _GIB:.2f} GiB{on_gpus}")


def _speed(cell: Cell, against: Baseline) -> Check:
    name, speeds, base = "speed", against.speeds, against.base_speeds
    if not speeds:
        return Check(name, "not run", reason="it made no output")
    figure = f"{median(speeds):.1f} tokens/s"
    if len(speeds) > 1:
        figure += f" ({min(speeds):.1f} to {max(speeds):.1f})"
    ratio = _speed_up(cell, against)
    if ratio is not None:
        figure += f", {ratio:.2f} times k=0"
    if len(speeds) < _MEDIAN_OF:
        return Check(name, "not run", figure, f"{len(speeds)} of {_MEDIAN_OF} rounds")
    reason = "" if base or cell.k == 0 else "there is no k=0 to compare it with"
    return Check(name, "pass", figure, reason)


def _speed_up(cell: Cell, against: Baseline) -> float | None:
    if cell.k == 0 or not against.base_speeds or not against.speeds:
        return None
    base = median(against.base_speeds)
    return median(against.speeds) / base if base else None


def _claims(cell: Cell, measured: Measured, against: Baseline) -> Iterator[Check]:
    """The thresholds that are declared, for cells that speculate."""
    if cell.k == 0:
        return
    values = _figures(cell, measured, against)
    for figure, threshold in cell.checks.items():
        name, value = f"{figure} {threshold}", values.get(figure)
        sign, _, limit = re.split(r"(?<=[=<>])( ?)(?=\d)", threshold)
        if value is None:
            yield Check(name, "not run", reason="there is no such figure", claimed=True)
        elif figure in _RATES and _rounds(figure, against) < _MEDIAN_OF:
            reason = f"a median takes {_MEDIAN_OF} rounds: give --rounds {_MEDIAN_OF}"
            yield Check(name, "not run", f"{value:.3f}", reason, claimed=True)
        else:
            held = _COMPARISONS[sign](value, float(limit))
            reason = "" if held else f"it is {value:.3f}"
            yield Check(name, "pass" if held else "fail", f"{value:.3f}", reason, claimed=True)


def _rounds(figure: str, against: Baseline) -> int:
    base = against.base_speeds if figure == "speed-up" else against.speeds
    return min(len(against.speeds), len(base))


def _figures(cell: Cell, measured: Measured, against: Baseline) -> dict[str, float | None]:
    counters, worst = total(measured), _worst(measured)
    values: dict[str, float | None] = {
        "acceptance-rate": counters.rate,
        "acceptance-length": counters.length,
        "late-acceptance": _late_acceptance(measured),
        "preemptions": float(sum(one.preemptions for one in measured.passes.values())),
        "cached-tokens": float(sum(one.cached_tokens for one in measured.passes.values())),
        "tokens-per-second": median(against.speeds) if against.speeds else None,
        "speed-up": _speed_up(cell, against),
        "load-seconds": measured.load_seconds,
        "memory-gib": measured.memory / _GIB if measured.memory else None,
    }
    if worst is not None:
        values |= {"bigram-repeats": worst.bigram, "trigram-repeats": worst.trigram}
        values |= {"4gram-repeats": worst.fourgram, "most-repeated-4gram": worst.most}
    return values
