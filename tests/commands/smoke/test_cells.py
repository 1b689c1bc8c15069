from __future__ import annotations

import pytest

from tests.commands.smoke.builders import cell_of, smoke_of
from vpatch.commands.smoke.cells import cells_of, visits
from vpatch.declare.smoke import Sampling, Smoke


def only(*rows, **keys):
    (cell,) = cells_of(smoke_of(*(rows or [{"k": (1,), "modes": ("offline",)}]), **keys))
    return cell


def test_what_nobody_says():
    cell = only()
    assert (cell.method, cell.tensor_parallel, cell.rounds) == ("mtp", 1, 1)
    assert (cell.max_tokens, cell.long_tokens) == (32, 0)
    assert (cell.flags, cell.environment, cell.checks) == ({}, {}, {})
    assert (cell.sampling.temperature, cell.sampling.ignore_eos) == (0, True)
    assert (cell.timeouts.start, cell.timeouts.token) == (900, 120)
    assert cell.prompts == ("Say <003>", (5, 17))


def test_a_long_prompt_ends_with_the_last_of_its_tokens():
    prompts = {"p": ({"repeat": (5, 17, 40), "length": 8}, {"repeat": (5, 17), "length": 2})}
    assert only(prompts=prompts).prompts == ((17, 40, 5, 17, 40, 5, 17, 40), (5, 17))


def test_both_modes_of_each_k_and_k_0_first():
    found = cells_of(smoke_of({"k": (3, 0, 1)}, {"k": (2,), "modes": ("server",)}))
    assert [(c.row, c.mode, c.k) for c in found] == [
        (0, "offline", 0),
        (0, "offline", 1),
        (0, "offline", 3),
        (0, "server", 0),
        (0, "server", 1),
        (0, "server", 3),
        (1, "server", 2),
    ]


@pytest.mark.parametrize(
    ("key", "default", "own", "result"),
    [
        ("flags", {"a": 1, "b": 1}, {"b": 2, "c": 2}, {"a": 1, "b": 2, "c": 2}),
        ("environment", {"A": "1", "B": "1"}, {"B": "2"}, {"A": "1", "B": "2"}),
        ("checks", {"speed-up": "> 1"}, {"memory-gib": "< 1"}, None),
        ("rounds", 3, 2, 2),
        ("max-tokens", 64, None, 64),
        ("long-tokens", 200, 0, 0),
        ("method", "eagle", "mtp", "mtp"),
    ],
)
def test_a_row_over_the_defaults(key, default, own, result):
    row = {"k": (1,), "modes": ("offline",)} | ({} if own is None else {key: own})
    cell = only(row, defaults={"prompts": "p", key: default})
    assert getattr(cell, key.replace("-", "_")) == (default | own if result is None else result)


def test_timeouts_are_merged_as_other_mappings():
    row = {"k": (1,), "modes": ("offline",), "timeouts": {"token": 5}}
    cell = only(row, defaults={"prompts": "p", "timeouts": {"start": 300}})
    assert (cell.timeouts.start, cell.timeouts.token) == (300, 5)


def test_rows_do_not_meet():
    rows = {"k": (1,), "modes": ("offline",), "flags": {"a": 1}}, {"k": (1,), "modes": ("offline",)}
    assert [dict(c.flags) for c in cells_of(smoke_of(*rows))] == [{"a": 1}, {}]


def test_rounds_of_the_command_line_stand_for_those_of_the_plan():
    smoke = smoke_of({"k": (0,), "rounds": 2}, {"k": (1,)})
    assert [cell.rounds for cell in cells_of(smoke)] == [2, 2, 1, 1]
    assert [cell.rounds for cell in cells_of(smoke, rounds=5)] == [5] * 4


@pytest.mark.parametrize(
    ("keys", "name"),
    [
        ({"k": 2}, "m k=2 offline"),
        ({"k": 0, "mode": "server"}, "m k=0 server"),
        ({"k": 1, "tensor_parallel": 2}, "m k=1 tp=2 offline"),
    ],
)
def test_name(keys, name):
    assert cell_of(**keys).name == name


def test_what_an_engine_is_told():
    sampling = Sampling.model_validate({"temperature": 0.7, "top-p": 0.9})
    assert cell_of(sampling=sampling).sampling_arguments == {
        "temperature": 0.7,
        "top_p": 0.9,
        "ignore_eos": True,
    }
    assert cell_of(k=3).speculative == {"method": "mtp", "num_speculative_tokens": 3}
    assert cell_of(k=0).speculative is None


def test_every_other_round_is_backwards():
    a, b, c = (cell_of(k, rounds=rounds) for k, rounds in ((0, 3), (1, 1), (2, 3)))
    assert [(number, cell.k) for number, cell in visits([a, b, c])] == [
        (0, 0),
        (0, 1),
        (0, 2),
        (1, 2),
        (1, 0),
        (2, 0),
        (2, 2),
    ]
    assert list(visits([])) == []


def test_cells_of_one_plan_can_be_told_apart():
    row = {"model": "m", "k": (1,), "modes": ("offline",), "prompts": "p"}
    smoke = Smoke.model_validate(
        {
            "models": {"m": {"synthetic": "all"}},
            "prompts": {"p": ("say",)},
            "cells": (row, {**row, "k": (1, 2), "flags": {"enforce-eager": True}}),
        }
    )
    assert [cell.name for cell in cells_of(smoke)] == [
        "m k=1 offline row=1",
        "m k=1 offline row=2",
        "m k=2 offline",
    ]
