from __future__ import annotations

import re

import pytest
from pydantic import ValidationError

from tests.commands.smoke.builders import smoke_of
from vpatch.declare.smoke import Model, Smoke, Threshold
from vpatch.declare.yamlfile import Declared, read_yaml
from vpatch.errors import VpatchError

FIGURES = (
    *("acceptance-rate", "acceptance-length", "tokens-per-second", "speed-up", "load-seconds"),
    *("memory-gib", "bigram-repeats", "trigram-repeats", "4gram-repeats", "most-repeated-4gram"),
)


class Limit(Declared):
    threshold: Threshold


def row(**keys):
    return smoke_of({"k": (0, 1), **keys}).cells[0]


@pytest.mark.parametrize(
    "keys",
    [
        {"modes": ("server", "offline")},
        {"tensor-parallel": 8, "rounds": 3, "max-tokens": 2, "long-tokens": 0},
        {"sampling": {"temperature": 0.7, "top-p": 1, "top-k": 1, "seed": 0, "ignore-eos": False}},
        {"flags": {"enforce-eager": True, "compilation-config": {"mode": 3}}},
        {"environment": {"VLLM_USE_V2": "1"}, "timeouts": {"start": 1, "token": 0.5}},
        {"checks": dict.fromkeys(FIGURES, ">= 0.75")},
        {"k": (0,)},
    ],
)
def test_a_row(keys):
    declared = row(**keys).model_dump(mode="json", exclude_unset=True)
    assert {key: declared[key] for key in keys}.keys() == keys.keys()


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"k": ()}, "at least 1 item"),
        ({"k": (-1,)}, "greater than or equal to 0"),
        ({"modes": ()}, "at least 1 item"),
        ({"modes": ("online",)}, "offline"),
        ({"tensor-parallel": 0}, "greater than or equal to 1"),
        ({"rounds": 0}, "greater than or equal to 1"),
        ({"max-tokens": 1}, "greater than or equal to 2"),
        ({"long-tokens": -1}, "greater than or equal to 0"),
        ({"sampling": {"temperature": -1}}, "greater than or equal to 0"),
        ({"sampling": {"top-p": 1.1}}, "less than or equal to 1"),
        ({"sampling": {"top-p": 0}}, "greater than 0"),
        ({"sampling": {"top-k": 0}}, "greater than or equal to 1"),
        ({"timeouts": {"token": 0}}, "greater than 0"),
        *(
            ({"timeouts": {name: value}}, words)
            for name in ("start", "token", "cell", "stop")
            for value, words in ((float("inf"), "finite number"), (1e300, "less than or equal to"))
        ),
        ({"sampling": {"temperature": float("nan")}}, "finite number"),
        ({"needs": {"memory-gib": float("inf")}}, "finite number"),
        ({"flags": {"seed": float("nan")}}, "not a value that JSON has"),
        ({"flags": {"x": [{(1, 2): 3}]}}, "not a value that JSON has"),
        ({"environment": {"A": 1}}, "valid string"),
        ({"checks": {"acceptance": ">= 1"}}, "acceptance-rate"),
        ({"checks": {"speed-up": "1.5"}}, "match pattern"),
        ({"model": "n"}, r"model 'n' is not in models \(m\)"),
        ({"prompts": "q"}, r"prompts 'q' is not in prompts \(p\)"),
        ({"eager": True}, "Extra inputs"),
    ],
)
def test_a_row_that_is_refused(keys, message):
    with pytest.raises(ValidationError, match=message):
        row(**keys)


@pytest.mark.parametrize("typed", [">= 0.75", ">=0.75", "<= 1", "> 1", "< 10.5", "==1"])
def test_threshold(typed):
    assert Limit(threshold=typed).threshold == typed


@pytest.mark.parametrize(
    "typed", ["0.75", "=> 1", ">=  1", "!= 1", ">= .5", ">= 1.", ">= 1x", " >= 1", ">= -1", "= 1"]
)
def test_threshold_that_is_refused(typed):
    with pytest.raises(ValidationError, match="match pattern"):
        Limit(threshold=typed)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({}, "give either synthetic or checkpoint"),
        ({"synthetic": "all", "checkpoint": "x/y"}, "give either synthetic or checkpoint"),
        ({"synthetic": "all", "revision": "main"}, "a synthetic model has no revision"),
        ({"synthetic": "half"}, "'first', 'most', 'quantised-trunk' or 'deepseek-v4'"),
        ({"checkpoint": ""}, "at least 1 character"),
    ],
)
def test_a_model_that_is_refused(keys, message):
    with pytest.raises(ValidationError, match=message):
        Model.model_validate(keys)


@pytest.mark.parametrize("prompt", ["", (5,), (), (5, -1), (5, "6"), 5])
def test_a_prompt_that_is_refused(prompt):
    with pytest.raises(ValidationError):
        smoke_of(prompts={"p": (prompt,)})


@pytest.mark.parametrize("key", ["models", "prompts"])
def test_what_may_not_be_empty(key):
    with pytest.raises(ValidationError, match=f"(?s){key}.*at least 1 item"):
        smoke_of(**{key: {}})


def test_cells_may_not_be_empty():
    with pytest.raises(ValidationError, match="there are no cells"):
        smoke_of(cells=())


def test_each_k_once():
    with pytest.raises(ValidationError, match="k has a number twice"):
        smoke_of({"k": (1, 1), "prompts": "p"})


def test_prompts_must_be_named_somewhere():
    with pytest.raises(ValidationError, match="prompts None is not in prompts"):
        smoke_of(defaults={})
    assert smoke_of({"k": (1,), "prompts": "p"}, defaults={}).cells[0].prompts == "p"


@pytest.mark.parametrize(
    ("needs", "message"),
    [
        ({"gpus": -1}, "greater than or equal to 0"),
        ({"capability": "9"}, "match pattern"),
        ({"capability": "sm90"}, "match pattern"),
        ({"memory-gib": -1}, "greater than or equal to 0"),
    ],
)
def test_needs_that_are_refused(needs, message):
    with pytest.raises(ValidationError, match=message):
        smoke_of(needs=needs)


YAML = """models:
  tiny: {synthetic: all}
prompts:
  words: [Say <003>, [5, 17]]
defaults: {prompts: words}
cells:
  - model: tiny
    k: [0, 1]
"""


def test_as_people_write_it(tmp_path):
    file = tmp_path / "smoke.yaml"
    file.write_text(YAML)
    declared, _ = read_yaml(file, Smoke)
    assert declared.prompts == {"words": ("Say <003>", (5, 17))}
    assert declared.cells[0].k == (0, 1)
    assert (declared.needs.gpus, declared.imports.modules) == (0, ())


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("    k: [0, 1]", "    k: [0, x]", 8, "cells.0.k.1"),
        ("    k:", "    ks:", 8, "unknown key 'ks'"),
        ("[5, 17]", "[5]", 4, "prompts.words.1"),
        ("model: tiny", "model: tyni", 1, "model 'tyni' is not in models (tiny)"),
        ("    k:", "    rouns: 3\n    k:", 8, "did you mean 'rounds'"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(tmp_path, old, new, line, message):
    file = tmp_path / "smoke.yaml"
    file.write_text(YAML.replace(old, new))
    with pytest.raises(VpatchError) as caught:
        read_yaml(file, Smoke)
    assert any(
        said.startswith(f"{file}:{line}: ") and message in said
        for said in re.split(r"\n(?=/)", str(caught.value))
    ), str(caught.value)


def test_one_mistake_is_said_once(tmp_path):
    file = tmp_path / "smoke.yaml"
    file.write_text(YAML.replace("    k:", "    rouns: 3\n    k:"))
    with pytest.raises(VpatchError) as caught:
        read_yaml(file, Smoke)
    assert str(caught.value).count(str(file)) == 1
