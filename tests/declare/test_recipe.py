from __future__ import annotations

import pytest
from pydantic import ValidationError

from vpatch.declare.recipe import RecipeDeclaration

GOOD = {"vllm": "0.23.0", "patches": ("fix",)}
DIGEST = "0" * 64
SMOKE = {
    "models": {"m": {"synthetic": "all"}},
    "prompts": {"p": ("say",)},
    "cells": ({"model": "m", "k": (0, 1), "prompts": "p", "checks": {"speed-up": ">= 1.2"}},),
}


def test_pin_in_one_word():
    assert RecipeDeclaration.model_validate(GOOD).vllm.source == "0.23.0"


@pytest.mark.parametrize(
    "changes",
    [
        {"vllm": {"source": "0.23.0", "sha256": DIGEST}},
        {"trees": {"vllm-ascend": "0.23.0"}},
        {"image": {"base": "vllm/vllm-openai:v0.23.0"}},
        {"smoke": SMOKE},
    ],
)
def test_recipe(changes):
    RecipeDeclaration.model_validate({**GOOD, **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"vllm": 0.23}, "vllm"),
        ({"vllm": {"source": "0.23.0", "sha256": "0"}}, "match pattern"),
        ({"patches": ()}, "at least one patch, or security: all"),
        ({"patches": ("../x",)}, "match pattern"),
        ({"trees": {"vllm_metax": "1"}}, "vllm-metax"),
        ({"patchs": ("fix",)}, "Extra inputs"),
        ({"smoke": SMOKE | {"models": {}}}, "at least 1 item"),
    ],
)
def test_recipe_refused(changes, message):
    with pytest.raises(ValidationError, match=message):
        RecipeDeclaration.model_validate({**GOOD, **changes})
