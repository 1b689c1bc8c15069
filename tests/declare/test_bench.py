from __future__ import annotations

import pytest
from pydantic import ValidationError

from vpatch.declare.bench import Bench, Shape
from vpatch.declare.recipe import RecipeDeclaration
from vpatch.declare.yamlfile import read_yaml
from vpatch.errors import VpatchError

WHOLE = {
    "models": {"tiny": {"synthetic": "all"}},
    "shapes": ({"input": 8, "output": 4},),
    "cells": ({"model": "tiny", "k": (0, 2)},),
}
FROM_FILE = {
    "shapes": ({"dataset": "custom", "path": "mixed.jsonl", "output": 4},),
    "share-server": True,
}


def test_prompts_from_a_file_on_one_server_that_keeps_nothing():
    Bench.model_validate(WHOLE | FROM_FILE | {"flags": {"enable-prefix-caching": False}})
    Bench.model_validate(WHOLE | FROM_FILE | {"share-server": False})
    # One load is alone on its server in any case.
    Bench.model_validate(WHOLE | FROM_FILE | {"concurrency": (4,)})
    Bench.model_validate(WHOLE | {"environment": {"VLLM_MAX_TOKENS_PER_EXPERT": "1"}})
    Bench.model_validate(WHOLE | {"flags": {"max-model-len": "1k", "max-num-batched-tokens": 1}})


def test_a_flag_that_no_record_can_have():
    with pytest.raises(ValidationError, match="not a value that JSON has"):
        Bench.model_validate(WHOLE | {"flags": {"x": {"y": float("inf")}}})


def test_what_nobody_says():
    bench = Bench.model_validate(WHOLE)
    assert bench.concurrency == (1, 4, 8, 16)
    assert (bench.prompts, bench.repeats) == (8, 3)
    assert (bench.share_server, bench.warm_up) == (False, True)
    assert bench.sampling.temperature == 0
    assert bench.sampling.ignore_eos


@pytest.mark.parametrize(
    ("shape", "name"),
    [
        ({"input": 8192, "output": 1024}, "8192/1024"),
        ({"dataset": "custom", "path": "data/mixed.jsonl", "output": 256}, "mixed/256"),
    ],
)
def test_the_name_of_a_shape(shape, name):
    assert Shape.model_validate(shape).name == name


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"concurrency": (1, 1)}, "concurrency has a value twice; for more runs give repeats"),
        ({"concurrency": (0,)}, "greater than or equal to 1"),
        ({"shapes": ({"input": 8, "output": 4},) * 2}, "shapes has a value twice"),
        ({"shapes": ({"output": 4},)}, "random prompts need input, a number of tokens"),
        (
            {"shapes": ({"input": 1, "path": "x", "output": 4},)},
            "random prompts need input, a number of tokens",
        ),
        ({"shapes": ({"dataset": "custom", "output": 4},)}, "custom has path, a file"),
        (
            {"shapes": ({"dataset": "sharegpt", "path": "x", "input": 1, "output": 4},)},
            "sharegpt has path, a file on this machine, and no input",
        ),
        ({"shapes": ({"input": 8, "output": 1},)}, "greater than or equal to 2"),
        ({"cells": ({"model": "big", "k": (0,)},)}, "model 'big' is not in models (tiny)"),
        ({"cells": ({"model": "tiny", "k": (1, 1)},)}, "tiny has k=1 twice"),
        ({"cells": ({"model": "tiny", "k": (1,)},) * 2}, "tiny has k=1 twice"),
        ({"cells": ()}, "at least 1 item"),
        ({"repeats": 0}, "greater than or equal to 1"),
        ({"sampling": {"ignore-eos": False}}, "leave out sampling.ignore-eos: false"),
        ({"environment": {"HF_TOKEN": "hf_x"}}, "HF_TOKEN must not be in a plan"),
        ({"flags": {"api-key": "x"}}, "api-key must not be in a plan"),
        ({"flags": {"max-model-len": 11}}, "8/4 needs 12 tokens, and max-model-len is 11"),
        (
            {"shapes": ({"input": 8, "output": 4, "chat-template": False},)},
            "random prompts do not use a chat template",
        ),
        (FROM_FILE, "have prompts of mixed/4 in common, whose prefixes it keeps"),
        (FROM_FILE | {"flags": {"enable-prefix-caching": True}}, "leave out share-server"),
    ],
)
def test_what_is_no_plan(keys, said):
    with pytest.raises(ValidationError) as error:
        Bench.model_validate(WHOLE | keys)
    assert said in str(error.value)


def test_a_typo_in_a_recipe_is_found(tmp_path):
    recipe = tmp_path / "one.yaml"
    recipe.write_text(
        "vllm: 0.23.0\npatches: [a]\nbench:\n  models: {tiny: {synthetic: all}}\n"
        "  shapes: [{input: 8, output: 4}]\n  concurency: [1]\n"
        "  cells: [{model: tiny, k: [0]}]\n"
    )
    with pytest.raises(VpatchError) as error:
        read_yaml(recipe, RecipeDeclaration)
    assert f"{recipe}:6" in str(error.value)
    assert "concurrency" in str(error.value)
