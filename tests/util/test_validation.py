from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError
from ruamel.yaml import YAML

from vpatch.declare.patch import PatchDeclaration
from vpatch.declare.recipe import RecipeDeclaration
from vpatch.declare.target import Target
from vpatch.declare.yamlfile import Positions, _explain_keys, _plain
from vpatch.util.validation import explained

ROOT = Path(__file__).parents[2]
FILES = {
    "patches/mtp-proj-prefix/patch.yaml": PatchDeclaration,
    "recipes/deepseek-v4-flash-mtp.yaml": RecipeDeclaration,
    "targets/vllm.yaml": Target,
}
WRONG = ("", "x", -1, None, ["x", 3], {"x": 3})
# How pydantic speaks.
RAW = ("Input should", "String should", "Tuple should", "List should", "Value should")
RAW += ("Value error", "Field required", "Extra inputs", "valid dictionary")


def places(node):
    """Each place at which something stands: the node that holds it, and its key there."""
    for key in list(node) if isinstance(node, dict) else range(len(node)):
        yield node, key
        if isinstance(node[key], (dict, list)):
            yield from places(node[key])


@pytest.mark.parametrize("name", FILES)
def test_whatever_stands_anywhere_is_explained_in_plain_words(name):
    document = YAML().load((ROOT / name).read_text(encoding="utf-8"))
    said = set()
    for node, key in list(places(document)):
        was = node[key]
        for value in WRONG:
            node[key] = value
            try:
                FILES[name].model_validate(_plain(document))
            except ValidationError as error:
                found = _explain_keys(error.errors(), Positions(ROOT / name, document), FILES[name])
                said |= {one.what for one in found}
                assert all(one.hint for one in found), found
        node[key] = was
    assert len(said) > 30
    assert [what for what in said if any(raw in what for raw in RAW)] == []


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "nothing"),
        (True, "true"),
        (3, "the number 3"),
        ("y" * 50, f"the string '{'y' * 40}...'"),
        ((), "a list"),
        ({}, "a mapping of keys"),
    ],
)
def test_what_is_there_instead(value, shown):
    details = {"type": "list_type", "input": value, "msg": "", "loc": ()}
    assert explained(details) == f"must be a list, not {shown}"
