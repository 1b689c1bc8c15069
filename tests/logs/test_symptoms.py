from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers import patch_of
from vpatch.library.catalog import installed
from vpatch.library.loading import load_patch
from vpatch.logs.symptoms import find_in_pieces, find_symptoms
from vpatch.trust.decision import EVERYTHING

LOG = Path(__file__).parents[1] / "resources" / "vllm-0.23.0-cpu-mtp.log"
FLOAT = "expected scalar type Float but found Double"
EDITS = [{"find": "f()", "rewrite": "g()"}]
RECORD = "ERROR 11-21 08:00:00 [core.py:1158]"
COLOURED = (
    "\x1b[0;36m(A pid=1)\x1b[0;0m \x1b[31mERROR\x1b[0m \x1b[90m11-21 08:00:00\x1b[0m "
    "\x1b[90m[core.py:1158]\x1b[0m"
)


def found(lines, *symptoms, tmp_path):
    patch = patch_of(tmp_path, edits=EDITS, symptoms=list(symptoms))
    return [(s.symptom, s.line, s.count) for s in find_symptoms(lines, [patch])]


def test_the_log_of_a_real_failure():
    folders = sorted(p.parent for p in installed("patches").glob("*/patch.yaml"))
    with LOG.open(encoding="utf-8", newline="\n") as lines:
        (sighting,) = find_symptoms(lines, (load_patch(folder, EVERYTHING) for folder in folders))
    assert sighting.patch.id == "cpu-spec-decode-fp64-gumbel"
    assert sighting.symptom == sighting.patch.declaration.symptoms[0]
    assert sighting.count == 4
    lines = LOG.read_bytes().decode().split("\n")
    assert sighting.text == lines[sighting.line - 1].strip()
    assert sighting.text.startswith("(Worker pid=3833) ERROR 11-21 08:53:35 [multiproc_executor")
    assert not any(sighting.symptom in line for line in lines[: sighting.line - 1])


@pytest.mark.parametrize(
    "lines",
    [
        [f"RuntimeError: {FLOAT}"],
        [f"(Worker pid=1) {RECORD} RuntimeError:  expected scalar\ttype Float but found Double"],
        ["RuntimeError: expected scalar type", "Float but found Double"],
        [
            f"(Worker pid=1) {RECORD} expected scalar",
            f"(Worker pid=1) {RECORD} type Float but found Double",
        ],
        [f"(A pid=1) {RECORD} expected scalar ty\r\n", "(A pid=1) pe Float but found Double\n"],
        ["expected scalar \x1b[1mtype\x1b[0m Float", "\x1b[0;36m\x1b[0m but found Double"],
        [f"{COLOURED} expected scalar type", f"(A pid=1) {RECORD} Float but found Double"],
        [
            "(A pid=1) RuntimeError: expected scalar type",
            "(B pid=2) RuntimeError: expected scalar",
            "(A pid=1) Float but found Double",
        ],
        # Broken twice, and behind a prefix that the first line alone has.
        [f"(A pid=1) {RECORD} RuntimeError: expected sca", "lar type Fl", "oat but found Double"],
        [f"vllm-1 | (A pid=1) {RECORD} expected scalar", "type Float but found Double"],
        ["RuntimeError: expected scalar type &#70;loat but found Double"],
    ],
)
def test_a_symptom_is_found(lines, tmp_path):
    assert found(lines, FLOAT, tmp_path=tmp_path) == [(FLOAT, 1, 1)]


@pytest.mark.parametrize(
    "lines",
    [
        ["expected scalar type Float but found Half"],
        ["expected scalar type", "something else", "Float but found Double"],
        ["(A pid=1) expected scalar type", "(B pid=2) Float but found Double"],
        ["Float but found Double", "expected scalar type"],
        [],
    ],
)
def test_what_only_resembles_a_symptom_is_not(lines, tmp_path):
    assert found(lines, FLOAT, tmp_path=tmp_path) == []


def test_an_empty_name_is_not_a_name(tmp_path):
    symptom = "Unable to find matching target for  in the config"
    named = "Unable to find matching target for model.layers.1 in the config"
    assert found([named], symptom, tmp_path=tmp_path) == []
    assert found([symptom], symptom, tmp_path=tmp_path) == [(symptom, 1, 1)]


def test_each_occurrence_counts_once(tmp_path):
    lines = ["x", FLOAT, f"{FLOAT} {FLOAT}", "", "expected scalar type", "Float but found Double"]
    assert found(lines, FLOAT, tmp_path=tmp_path) == [(FLOAT, 2, 4)]


def test_sightings_are_in_the_order_of_the_log(tmp_path):
    lines = ["second", "x", "first"]
    expected = [("second", 1, 1), ("first", 3, 1)]
    assert found(lines, "first", "second", "never", tmp_path=tmp_path) == expected
    lines = ["(A pid=1) fi", "(B pid=2) second", "(A pid=1) rst"]
    expected = [("first", 1, 1), ("second", 2, 1)]
    assert found(lines, "first", "second", tmp_path=tmp_path) == expected


def test_a_symptom_of_two_patches_is_seen_for_both(tmp_path):
    patches = [patch_of(tmp_path, name, edits=EDITS, symptoms=[FLOAT]) for name in ("a", "b")]
    assert [s.patch.id for s in find_symptoms([FLOAT], patches)] == ["a", "b"]


def test_a_symptom_of_white_space_is_never_found(tmp_path):
    assert found(["a b"], " ", tmp_path=tmp_path) == []


def test_a_symptom_over_the_border_of_two_pieces(tmp_path):
    patch = patch_of(tmp_path, edits=EDITS, symptoms=[FLOAT])
    pieces = [(7, "(A pid=1) x expected sca"), (7, "lar type Float but found"), (8, "(B pid=2) x")]
    assert find_in_pieces(pieces, [patch]) == []
    pieces[1] = (7, "lar type Float but found Double\n")
    (sighting,) = find_in_pieces(pieces, [patch])
    assert (sighting.line, sighting.count) == (7, 1)


def test_only_so_many_processes_are_kept_in_mind(tmp_path):
    lines = ["(A pid=0) expected scalar type", "(A pid=0) Float but found Double"]
    others = [f"(A pid={pid}) x" for pid in range(1, 301)]
    assert found([lines[0], *others[:200], lines[1]], FLOAT, tmp_path=tmp_path)
    assert not found([lines[0], *others, lines[1]], FLOAT, tmp_path=tmp_path)
    again = ["(A pid=0) x", *others[:200], lines[0], *others[200:], lines[1]]
    assert found(again, FLOAT, tmp_path=tmp_path)
