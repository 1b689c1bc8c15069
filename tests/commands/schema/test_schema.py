from __future__ import annotations

import io
import json
from contextlib import redirect_stdout
from pathlib import Path

import jsonschema
import pytest
from jsonschema.validators import Draft202012Validator
from ruamel.yaml import YAML

from tests.projects import NAME_PROJ, write_patch
from vpatch.commands.schema.command import command

ROOT = Path(__file__).parents[3]


def read(path):
    # As JSON has it: without dates and tuples.
    return json.loads(json.dumps(YAML(typ="safe").load(path)))


def validator_of(kind):
    printed = io.StringIO()
    with redirect_stdout(printed):
        command.main([kind], standalone_mode=False)
    return Draft202012Validator(json.loads(printed.getvalue()))


@pytest.fixture(scope="module")
def patch_validator():
    return validator_of("patch")


@pytest.fixture(scope="module")
def recipe_validator():
    return validator_of("recipe")


@pytest.fixture
def good(tmp_path):
    """A patch as a document."""
    return read(write_patch(tmp_path, "name-proj", NAME_PROJ) / "patch.yaml")


@pytest.mark.parametrize("kind", ["patch", "recipe"])
def test_schema_is_one(empty, kind):
    schema = json.loads(empty.run("schema", kind).out)
    assert schema["$schema"] == Draft202012Validator.META_SCHEMA["$id"]
    Draft202012Validator.check_schema(schema)
    assert schema["additionalProperties"] is False


def test_schema_takes_what_the_library_has(patch_validator, recipe_validator):
    for validator, pattern in (
        (patch_validator, "patches/*/patch.yaml"),
        (recipe_validator, "recipes/*.yaml"),
    ):
        files = sorted(ROOT.glob(pattern))
        assert files
        for file in files:
            validator.validate(read(file))


@pytest.mark.parametrize("more", [{}, {"trees": {"vllm-ascend": "0.23.0"}}])
def test_schema_takes_the_short_forms_of_a_recipe(recipe_validator, more):
    recipe_validator.validate({"vllm": "0.23.0", "patches": ["a"]} | more)


@pytest.mark.parametrize("expect", [2, {"at-least": 1}])
def test_schema_takes_the_short_forms_of_a_patch(patch_validator, good, expect):
    good["edits"][0] |= {"files": "vllm/*", "expect": expect, "where": {"$x": "one"}}
    patch_validator.validate(good)
    good["edits"][0] |= {"expect": 0}
    with pytest.raises(jsonschema.ValidationError):
        patch_validator.validate(good)


def test_schema_refuses_what_is_refused(patch_validator, good):
    patch_validator.validate(good)
    for bad in (
        good | {"remove-wen": "x"},
        good | {"id": "Not An Id"},
        {key: value for key, value in good.items() if key != "why"},
        good | {"edits": [{"find": "x"}]},
    ):
        with pytest.raises(jsonschema.ValidationError):
            patch_validator.validate(bad)


def test_schema_used_wrongly(empty):
    assert "is not one of 'patch', 'recipe'" in empty.run("schema", "lock", code=2).err
