from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from jsonschema.validators import Draft202012Validator
from ruamel.yaml import YAML

ROOT = Path(__file__).parents[2]


def read(path):
    # As JSON has it: without dates and tuples.
    return json.loads(json.dumps(YAML(typ="safe").load(path)))


@pytest.mark.parametrize("kind", ["patch", "recipe"])
def test_schema_is_one(empty, kind):
    schema = json.loads(empty.run("schema", kind).out)
    assert schema["$schema"] == Draft202012Validator.META_SCHEMA["$id"]
    Draft202012Validator.check_schema(schema)
    assert schema["additionalProperties"] is False


@pytest.mark.parametrize(
    ("kind", "pattern"), [("patch", "patches/*/patch.yaml"), ("recipe", "recipes/*.yaml")]
)
def test_schema_takes_what_the_library_has(empty, kind, pattern):
    schema = json.loads(empty.run("schema", kind).out)
    files = sorted(ROOT.glob(pattern))
    assert files
    for file in files:
        jsonschema.validate(read(file), schema, cls=Draft202012Validator)


@pytest.mark.parametrize("more", [{}, {"trees": {"vllm-ascend": "0.23.0"}}])
def test_schema_takes_the_short_forms_of_a_recipe(empty, more):
    schema = json.loads(empty.run("schema", "recipe").out)
    recipe = {"vllm": "0.23.0", "patches": ["a"]} | more
    jsonschema.validate(recipe, schema, cls=Draft202012Validator)


@pytest.mark.parametrize("expect", [2, {"at-least": 1}])
def test_schema_takes_the_short_forms_of_a_patch(project, expect):
    schema = json.loads(project.run("schema", "patch").out)
    good = read(project.patches / "name-proj" / "patch.yaml")
    good["edits"][0] |= {"files": "vllm/*", "expect": expect, "where": {"$x": "one"}}
    jsonschema.validate(good, schema, cls=Draft202012Validator)
    good["edits"][0] |= {"expect": 0}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(good, schema, cls=Draft202012Validator)


def test_schema_refuses_what_is_refused(project):
    schema = json.loads(project.run("schema", "patch").out)
    good = read(project.patches / "name-proj" / "patch.yaml")
    jsonschema.validate(good, schema, cls=Draft202012Validator)
    for bad in (
        good | {"remove-wen": "x"},
        good | {"id": "Not An Id"},
        {key: value for key, value in good.items() if key != "why"},
        good | {"edits": [{"find": "x"}]},
    ):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(bad, schema, cls=Draft202012Validator)


def test_schema_used_wrongly(empty):
    assert "is not one of 'patch', 'recipe'" in empty.run("schema", "lock", code=2).err
