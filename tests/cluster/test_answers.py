"""What a node answers that lies, or has another vpatch."""

from __future__ import annotations

import json
import math

import pytest

from tests.helpers import fails
from vpatch.cluster.answers import files_from, letters_from
from vpatch.runs.cluster_run import why_again

PLACE = {"host": "a", "node": "1", "clock": 0.0}
MACHINE = {"system": "Linux", "processor": "x", "cores": 1, "memory": 1, "gpus": []}


@pytest.mark.parametrize(
    "answer",
    [
        None,
        [],
        {"a": "text"},
        {1: b""},
        {"../../.ssh/authorized_keys": b""},
        {"/etc/cron.d/x": b""},
        {"logs/../../x": b""},
        {"": b""},
        {"a\0b": b""},
        {"a\nb": b""},
        {".git/config": b""},
        {"a": b"", "a/b": b""},
        {"x" * 300: b""},
    ],
)
def test_files_that_lead_out_of_their_folder(answer):
    with fails("cluster.bad-answer"):
        files_from(answer)


def test_files_of_a_job():
    files = {"result.json": b"{}", "logs/1.log": b"x", "logs/2.log": b"y"}
    assert files_from(files) == files


@pytest.mark.parametrize(
    "answer",
    [
        1,
        [1],
        [("a", "begun")],
        [("a", "begun", {})],
        [("a", "begun", PLACE | {"clock": "now"})],
        [("a", "begun", PLACE | {"clock": math.nan})],
        [("a", "begun", PLACE | {"node": ["1"]})],
        [(["a"], "log", b"")],
    ],
)
def test_messages_that_are_none(answer):
    with fails("cluster.bad-answer"):
        list(letters_from(answer))


def test_messages():
    answer = [("a", "begun", PLACE), ("a", "log", b"x"), ("a", "log", "x"), ("a", "alive", None)]
    begun, *others = letters_from(answer)
    assert begun[1].host == "a"
    assert others == [("a", b"x"), ("a", None), ("a", None)]


def result(**changed):
    found = {"machine": MACHINE, "inherited": {}, "hangs": None}
    return {"result.json": json.dumps(found | changed).encode()}


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"result.json": b"["},
        {"result.json": b"[]"},
        {"result.json": b"[" * 100_000},
        {"result.json": b"9" * 5000},
        {"refused.json": b"[]"},
        {"refused.json": b"{}"},
        result(machine={}),
        result(inherited=[]),
    ],
)
def test_results_that_are_none(files):
    with fails("cluster.bad-answer"):
        why_again(files)


def test_results():
    assert why_again(result()) is None
    assert why_again(result(hangs="it hangs")) == "it hangs"
    assert why_again({"refused.json": b'{"what": "no"}'}) == "no"
