from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from tests.commands.smoke.builders import (
    CRASH,
    NO_START,
    cell_of,
    measured_of,
    said,
    with_outputs,
    with_seconds,
)
from tests.projects import write_tree
from vpatch.commands.smoke.run import PhaseContext, run_phase
from vpatch.declare.smoke import Sampling
from vpatch.harness.measured import Measured, StartHangs
from vpatch.harness.models import PreparedModel
from vpatch.harness.sandbox import OverlaySandbox
from vpatch.util.digest import digest_of

OUT_OF_ORDER = Measured(fault=NO_START)


@pytest.fixture
def phase(tmp_path, monkeypatch):
    """Run cells with `answer`, which gets a cell and the number of the run; notes what happens."""
    overlay = write_tree(tmp_path / "overlay", {"vllm/a.py": b"patched\n"})
    file = overlay / "vllm/a.py"
    digests = {"vllm/a.py": digest_of(b"patched\n")}
    for name in ("room", "logs"):
        (tmp_path / name).mkdir()

    def run(cells, answer=None, phase="after", port=None, acceptance="all"):
        seen = SimpleNamespace(events=[], told=[], rooms=[], logs=[], ports=[], judged=[])
        sandbox = OverlaySandbox("python", (overlay,), digests)
        models = dict.fromkeys(
            (cell.model for cell in cells),
            PreparedModel("m", tmp_path / "model", "", "", acceptance),
        )

        def started(mode, cell, model, given, workdir, log, **keys):
            assert (mode, model, given) == (cell.mode, tmp_path / "model", sandbox)
            assert list(workdir.iterdir()) == []
            (workdir / "left").touch()
            seen.events.append((cell.mode, cell.k))
            seen.rooms.append(workdir)
            seen.logs.append(log.name)
            seen.ports += keys.values()
            found = answer(cell, len(seen.events)) if answer else measured_of(cell)
            return replace(found, digests=digests if found.load_seconds else {})

        for mode in ("offline", "server"):
            monkeypatch.setattr(
                f"vpatch.commands.smoke.run.run_{mode}",
                lambda *args, mode=mode, **keys: started(mode, *args, **keys),
            )

        def start(what):
            seen.told.append(what)
            return SimpleNamespace(done=lambda: seen.told.append("done"))

        place = PhaseContext(phase, sandbox, models, tmp_path / "logs", tmp_path / "room", port)

        def tell(result):
            seen.judged.append((len(seen.events), result))

        seen.results = run_phase(place, cells, SimpleNamespace(start=start), tell)
        told = [result for _, result in seen.judged]
        assert len(told) == len(cells)
        assert all(result in told for result in seen.results)
        assert list((tmp_path / "room").iterdir()) == []
        return seen

    run.overlay = file
    return run


def check_of(result, name):
    (found,) = (check for check in result.checks if check.name == name)
    return found


def test_rounds_alternate_and_each_has_its_log_and_its_room(phase):
    seen = phase([cell_of(0, rounds=2), cell_of(2, rounds=2)])
    assert seen.events == [("offline", k) for k in (0, 2, 2, 0)]
    assert seen.logs == [
        "after-01-m-k-0-offline.log",
        "after-02-m-k-2-offline.log",
        "after-03-m-k-2-offline.log",
        "after-04-m-k-0-offline.log",
    ]
    assert len(set(seen.rooms)) == 4
    begun = [f"after, {n} of 4: m k={k} offline" for n, k in ((1, 0), (2, 2), (3, 2), (4, 0))]
    assert seen.told == [text for what in begun for text in (what, "done")]
    assert [(r.phase, r.cell.k, len(r.visits), r.verdict) for r in seen.results] == [
        ("after", 0, 2, "pass"),
        ("after", 2, 2, "pass"),
    ]


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        # After how many runs each k is judged.
        ([(0, 1), (2, 1)], [(1, 0), (2, 2)]),
        # k = 0 is the last of the second round, and all are compared with it.
        ([(0, 2), (2, 2)], [(4, 0), (4, 2)]),
        ([(0, 3), (2, 3)], [(5, 0), (6, 2)]),
        # What it is compared with comes later.
        ([(2, 1), (0, 1)], [(2, 2), (2, 0)]),
    ],
)
def test_a_cell_is_judged_as_soon_as_nothing_changes_it(phase, cells, expected):
    seen = phase([cell_of(k, rounds=rounds) for k, rounds in cells])
    assert [(runs, result.cell.k) for runs, result in seen.judged] == expected


def test_after_an_interrupt_what_ran_is_judged(phase):
    def answer(cell, number):
        if number == 3:
            raise KeyboardInterrupt
        return measured_of(cell)

    cells = [cell_of(0, rounds=2), cell_of(2), cell_of(2, "server")]
    seen = phase(cells, answer)
    assert seen.events == [("offline", 0), ("offline", 2), ("server", 2)]
    half, whole, other = seen.results
    assert (half.verdict, check_of(half, "rounds").figure) == ("not run", "1 of 2")
    assert check_of(half, "runs").verdict == "pass"
    assert whole.verdict == "pass"
    assert [(c.name, c.verdict, c.reason) for c in other.checks] == [
        ("runs", "not run", "interrupted")
    ]


def test_the_port_is_for_servers(phase):
    assert phase([cell_of(0), cell_of(0, "server")], port=8000).ports == [8000]


def test_logs_of_parallel_cells_and_phases_differ(phase):
    seen = phase([cell_of(2, tensor_parallel=8)], phase="before")
    assert seen.logs == ["before-01-m-k-2-tp-8-offline.log"]


HANGS = StartHangs("does not start", "not loaded after 300 s")


@pytest.mark.parametrize(
    ("first", "other", "skipped"),
    [
        ({"k": 2}, {"k": 2, "mode": "server"}, True),
        ({"k": 2}, {"k": 2, "mode": "server", "row": 1, "environment": {"A": "1"}}, True),
        ({"k": 0}, {"k": 2, "mode": "server"}, True),
        ({"k": 2}, {"k": 3}, False),
        ({"k": 2}, {"k": 2, "mode": "server", "tensor_parallel": 2}, False),
        ({"k": 2}, {"k": 2, "mode": "server", "model": "n"}, False),
        ({"k": 2}, {"k": 2, "mode": "server", "flags": {"enforce-eager": True}}, False),
    ],
)
@pytest.mark.parametrize("name", ["before", "after"])
def test_a_start_that_hangs_is_tried_once(phase, first, other, skipped, name):
    seen = phase([cell_of(**first), cell_of(**other)], lambda *_: Measured(fault=HANGS), name)
    if name == "after" or skipped:
        assert len(seen.events) == (1 if skipped else 2)
    if skipped:
        (check,) = seen.results[1].checks
        assert check.verdict == "not run"
        assert check.reason == f"the start of k={first['k']} offline hangs: not loaded after 300 s"


def test_a_start_that_hangs_is_not_tried_in_further_rounds(phase):
    cells = [cell_of(2, rounds=3), cell_of(2, "server", rounds=3)]
    seen = phase(cells, lambda *_: Measured(fault=HANGS))
    assert len(seen.events) == 1
    assert [result.verdict for result in seen.results] == ["fail", "not run"]


def starts_up_to(k, fault=NO_START):
    return lambda cell, _: measured_of(cell) if cell.k <= k else Measured(fault=fault)


def ran(seen):
    return [k for _, k in seen.events]


def test_on_the_pristine_tree_more_is_not_tried_where_fewer_did_not_start(phase):
    cells = [cell_of(k) for k in (0, 1, 2, 3)]
    seen = phase(cells, starts_up_to(1), "before")
    assert ran(seen) == [0, 1, 2]
    assert [result.verdict for result in seen.results] == ["pass", "pass", "fail", "not run"]
    (check,) = seen.results[3].checks
    assert (check.name, check.reason) == ("runs", "k=2 did not even start")
    (visit,) = seen.results[3].visits
    assert (visit.measured, visit.skipped) == (None, "k=2 did not even start")
    assert seen.told.count("done") == 3
    assert ran(phase(cells, starts_up_to(1))) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("other", "skipped"),
    [
        ({"k": 3}, True),
        ({"k": 3, "mode": "server"}, False),
        ({"k": 3, "row": 1}, False),
        ({"k": 2, "row": 1}, False),
        ({"k": 1}, False),
    ],
)
def test_what_is_skipped(phase, other, skipped):
    seen = phase([cell_of(2), cell_of(**other)], lambda *_: OUT_OF_ORDER, "before")
    assert len(seen.events) == (1 if skipped else 2)


@pytest.mark.parametrize(
    "found", [Measured(1.5, fault=CRASH), Measured(fault=replace(NO_START, kind="crashed"))]
)
def test_what_fails_otherwise_skips_nothing(phase, found):
    assert ran(phase([cell_of(1), cell_of(2)], lambda *_: found, "before")) == [1, 2]


def test_without_speculation_nothing_is_skipped(phase):
    assert ran(phase([cell_of(0), cell_of(2)], lambda *_: OUT_OF_ORDER, "before")) == [0, 2]


def test_a_skipped_cell_is_skipped_in_every_round(phase):
    cells = [cell_of(k, rounds=2) for k in (1, 2)]
    assert ran(phase(cells, lambda *_: OUT_OF_ORDER, "before")) == [1, 1]


@pytest.mark.parametrize("failing", [1, 2, 3])
def test_what_fails_in_any_round_fails(phase, failing):
    def answer(cell, number):
        return measured_of(cell, left_behind=2 if number == failing else 0)

    (result,) = phase([cell_of(0, rounds=3)], answer).results
    check = check_of(result, "nothing left")
    assert (result.verdict, check.verdict, check.figure) == ("fail", "fail", "2 processes")
    assert len({check.name for check in result.checks}) == len(result.checks)


def test_a_cell_is_judged_by_its_own_rounds(phase):
    cells = [cell_of(2), cell_of(2, row=1), cell_of(2, "server")]
    seen = phase(cells, lambda cell, n: measured_of(cell, left_behind=int(n == 2)))
    assert [result.verdict for result in seen.results] == ["pass", "fail", "pass"]
    assert [len(result.visits) for result in seen.results] == [1, 1, 1]


def test_speeds_are_those_of_all_rounds(phase):
    def answer(cell, number):
        return with_seconds(measured_of(cell), 6.4 if cell.k == 0 else 64 / (10 * number))

    cells = [cell_of(k, rounds=3, checks={"speed-up": ">= 3"}) for k in (0, 2)]
    seen = phase(cells, answer)
    assert ran(seen) == [0, 2, 2, 0, 0, 2]
    speed = check_of(seen.results[1], "speed")
    assert (speed.verdict, speed.figure) == (
        "pass",
        "30.0 tokens/s (20.0 to 60.0), 3.00 times k=0",
    )
    assert check_of(seen.results[1], "speed-up >= 3").verdict == "pass"


def with_base_of(*bases):
    """A cell with k=2 says 0, 1, ...; each of the others says what stands beside it."""

    def answer(cell, number):
        tokens = range(32) if cell.k else bases[number - 1]
        return with_outputs(measured_of(cell), *[said(tokens)] * 2)

    return answer


SAME, OTHER = range(32), range(1, 33)
SERVER = {"mode": "server"}


@pytest.mark.parametrize(
    ("others", "says", "verdict"),
    [
        ([{}], [SAME], "pass"),
        ([{}], [OTHER], "fail"),
        # Of its own row before others, of its own mode before others, else of any.
        ([{"row": 1}, {}], [OTHER, SAME], "pass"),
        ([{"row": 1}, {"row": 2}], [SAME, OTHER], "pass"),
        ([{"row": 1}], [OTHER], "fail"),
        # Asked something else.
        ([{"prompts": ((1, 2), (3, 4))}], [OTHER], "not run"),
        ([{"model": "n"}], [OTHER], "not run"),
        ([{"max_tokens": 31}], [OTHER], "not run"),
        ([{"sampling": Sampling(seed=1)}], [OTHER], "not run"),
        ([{"flags": {"a": 1}}], [OTHER], "not run"),
        ([{"long_tokens": 9}], [OTHER], "fail"),
        ([], [], "not run"),
    ],
)
def test_what_an_output_is_compared_with(phase, others, says, verdict):
    cells = [*(cell_of(0, **keys) for keys in others), cell_of(2)]
    seen = phase(cells, with_base_of(*says), acceptance=None)
    assert check_of(seen.results[-1], "output as k=0").verdict == verdict


@pytest.mark.parametrize("first", ["offline", "server"])
def test_a_base_of_its_own_mode_comes_first(phase, first):
    """The others say something else, and a server's text is compared as text."""
    second = "server" if first == "offline" else "offline"

    def answer(cell, _):
        measured = measured_of(cell)
        if cell.k or cell.mode == "offline":
            return measured
        name = "several at once"
        outputs = [replace(o, text="other") for o in measured.passes[name].outputs]
        return with_outputs(measured, *outputs, name=name)

    seen = phase([cell_of(0, first), cell_of(0, second), cell_of(2)], answer)
    assert check_of(seen.results[-1], "output as k=0").verdict == "pass"


@pytest.mark.parametrize("keys", [{"row": 1}, {"mode": "server"}])
def test_speeds_are_compared_with_those_of_the_same_row_and_mode(phase, keys):
    seen = phase([cell_of(0, **keys), cell_of(2)])
    assert "times k=0" not in check_of(seen.results[1], "speed").figure
    assert "1.00 times k=0" in check_of(phase([cell_of(0), cell_of(2)]).results[1], "speed").figure


def test_a_synthetic_model_is_judged_by_arithmetic_and_others_are_not(phase):
    names = [check.name for check in phase([cell_of(2)]).results[0].checks]
    assert "as arithmetic predicts" in names
    names = [check.name for check in phase([cell_of(2)], acceptance=None).results[0].checks]
    assert "as arithmetic predicts" not in names


@pytest.mark.parametrize("mode", ["offline", "server"])
def test_a_site_that_is_tampered_with(phase, mode):
    def answer(cell, _):
        phase.overlay.write_bytes(b"other\n")
        return measured_of(cell)

    (result,) = phase([cell_of(0, mode)], answer).results
    check = check_of(result, "runs")
    assert (result.verdict, check.verdict) == ("fail", "fail")
    assert check.reason.startswith("tampered with: vllm/a.py: the patched file is sha256:")
