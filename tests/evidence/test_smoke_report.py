from __future__ import annotations

import shlex

import pytest

from tests.commands.smoke.builders import PASSING, SUBJECT, record_of_run, result_of
from vpatch.commands.smoke.checks import Check
from vpatch.evidence.records import SymptomRecord
from vpatch.evidence.smoke_report import command_of, cures_of, report_of

CRASH = Check("runs", "fail", "loaded in 1.5 s", "crashed: it ended")
SKIPPED = Check("runs", "not run", reason="k=1 did not even start")
HEADINGS = ("After: with the patches", "Before: the pristine tree")
SEEN = {"patch": "fix", "symptom": "KeyError: 'x'", "log": "logs/x", "line": 1}


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log"
    path.touch()
    return path


def lines_of(log, **keys):
    return report_of(record_of_run(log, **keys)).splitlines()


def test_head(log):
    lines = lines_of(log)
    assert lines[:3] == [
        "## Smoke run: passed",
        "",
        lines[2],
    ]
    assert lines[2].startswith("`vpatch smoke --vllm 0.23.0 --patch fix --before` with vpatch ")
    assert lines[2].endswith(", 2026-01-02T03:04:05+00:00")
    assert lines[4:10] == [
        "- vllm 0.23.0 (sha256:aaaaaaaaaaaaaaaa)",
        "  with `fix`; 1 files are changed",
        "- engine: vLLM 0.23.0 (cpu)",
        "- machine: a processor, 2 cores, 16.0 GiB; H200",
        "- model m: synthetic: all (sha256:dddddddddddddddd)",
        lines[9],
    ]
    assert lines[9].startswith("- digest of what was run: `sha256:")


@pytest.mark.parametrize(
    ("pin", "patches", "expected"),
    [
        ({"version": None, "ref": "main"}, SUBJECT["patches"], ["- vllm main (", "  with `fix`;"]),
        ({"version": None}, [], ["- vllm  (", "  with none;"]),
    ],
)
def test_trees(log, pin, patches, expected):
    tree = SUBJECT | {"pin": SUBJECT["pin"] | pin, "patches": patches}
    lines = lines_of(log, subject=[tree])
    assert [line[: len(e)] for line, e in zip(lines[4:6], expected, strict=True)] == expected


def test_table(log):
    acceptance = Check("acceptance", "pass", "8 drafts")
    others = [
        Check("as arithmetic predicts", "pass", "8 drafts"),
        Check("output as k=0", "pass", "2 outputs"),
        Check("speed", "not run", "10.0 tokens/s", "1 of 3 rounds"),
    ]
    lines = lines_of(log, results=[result_of(log, PASSING, acceptance, *others)])
    start = lines.index("### After: with the patches") + 2
    assert lines[start : start + 3] == [
        "| model | k | mode | result | acceptance | as predicted | output as k=0 | speed |",
        "|---|---|---|---|---|---|---|---|",
        "| m | 2 | offline | pass | 8 drafts | pass | pass | 10.0 tokens/s |",
    ]


def test_a_cell_that_did_not_run_has_no_figures(log):
    lines = lines_of(log, results=[result_of(log, SKIPPED, phase="before", k=3)])
    assert "| m | 3 | offline | not run | - | - | - | - |" in lines


def test_what_fails_is_said_with_its_reason(log):
    results = [result_of(log, PASSING, Check("tokens", "fail", "3 tokens", "too few")), None]
    results[1] = result_of(log, CRASH, phase="before")
    lines = lines_of(log, results=results)
    assert lines[0] == "## Smoke run: failed"
    assert "- m k=2 offline: tokens fails (3 tokens): too few" in lines
    assert "- m k=2 offline: crashed: it ended" in lines
    after, before = (lines.index(f"### {said}") for said in HEADINGS)
    assert lines[after + 4] == "| m | 2 | offline | fail | - | - | - | - |"
    assert lines[after + 6] == "- m k=2 offline: tokens fails (3 tokens): too few"
    assert lines[after + 8 :][:1] == lines[before : before + 1]
    assert lines[before + 6 :] == ["- m k=2 offline: crashed: it ended"]


def test_imports(log):
    checks = (
        Check("modules, main process", "pass", "2 of 2"),
        Check("operators, main process", "fail", "0 of 1", "_C::x: gone"),
    )
    lines = lines_of(log, imports={"after": checks})
    assert lines[0] == "## Smoke run: failed"
    start = lines.index("### After: with the patches")
    assert lines[start + 2 : start + 4] == [
        "- modules, main process passes (2 of 2)",
        "- operators, main process fails (0 of 1): _C::x: gone",
    ]


@pytest.mark.parametrize(
    ("phases", "taken", "expected"),
    [
        (["before"], True, "  seen before in c before; gone with fix"),
        (["before", "before"], True, "  seen before in c before; gone with fix"),
        (["before", "after"], True, "  seen in c after; fix, which cures it, was taken"),
        (["after"], False, "  seen in c after; fix, which cures it, was not taken"),
        (["before"], False, None),
    ],
)
def test_symptoms(log, phases, taken, expected):
    record = record_of_run(log)
    (cell,) = record.cells
    symptoms = [
        SymptomRecord(**SEEN, phase=phase, cell=f"c {phase}", taken=taken) for phase in phases
    ]
    cells = [cell.model_copy(update={"cell": "c before", "verdict": "pass"})]
    record = record.model_copy(update={"cells": cells, "symptoms": symptoms})
    lines = report_of(record).splitlines()
    shown = ["### Symptoms", "", "- `KeyError: 'x'`", expected]
    assert lines[-4:] == shown if expected else "### Symptoms" not in lines


def test_a_symptom_is_not_cured_where_the_cell_fails_otherwise(log):
    seen = SymptomRecord(**SEEN, phase="before", cell="c", taken=True)
    (cure,) = cures_of(record_of_run(log).model_copy(update={"symptoms": [seen]}))
    assert str(cure) == "seen before, and not after; but c fails now for another reason"


def test_each_reason_of_what_was_not_run_is_said_once(log):
    slow = Check("speed", "not run", reason="1 of 3 rounds")
    chat = Check("chat", "not run", reason="no template")
    results = [result_of(log, PASSING, slow, k=k) for k in (1, 2)]
    results += [result_of(log, PASSING, chat), result_of(log, SKIPPED, phase="before")]
    lines = lines_of(log, results=results)
    start = lines.index("### Not run")
    assert lines[start + 2 :] == [
        "- speed, in 2 cells: 1 of 3 rounds",
        "- chat, in 1 cell: no template",
    ]


def test_what_is_not_there_has_no_heading(log):
    headings = [line for line in lines_of(log) if line.startswith("#")]
    assert headings == ["## Smoke run: passed", "### After: with the patches"]


@pytest.mark.parametrize(
    ("asked", "command"),
    [
        ({}, "vpatch smoke"),
        ({"vllm": None, "before": False, "tree": ()}, "vpatch smoke"),
        ({"before": True, "rounds": 3}, "vpatch smoke --before --rounds 3"),
        ({"patch": ["a", "b"]}, "vpatch smoke --patch a --patch b"),
        (
            {"tree": ("x=1", "y=2"), "engine": "cpu"},
            "vpatch smoke --tree x=1 --tree y=2 --engine cpu",
        ),
    ],
)
def test_command(log, asked, command):
    assert command_of(record_of_run(log, asked=asked)) == command


@pytest.mark.parametrize("asked", [{"engine": "/my env/bin/python"}, {"tree": ["x=/a b"]}])
def test_command_can_be_given_to_a_shell(log, asked):
    ((name, value),) = asked.items()
    word = value if isinstance(value, str) else value[0]
    assert shlex.split(command_of(record_of_run(log, asked=asked))) == [
        "vpatch",
        "smoke",
        f"--{name}",
        word,
    ]


def test_every_row_of_the_table_has_its_columns(log):
    lines = lines_of(log, results=[result_of(log, model="a|b")])
    rows = [line for line in lines if line.startswith("|")]
    assert {row.replace("\\|", "").count("|") for row in rows} == {9}
