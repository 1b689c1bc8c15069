from __future__ import annotations

import re

import pytest
from jsonschema.validators import Draft202012Validator

from vpatch.registry import RESULTS, schema_of

# What people declare keeps the keys of its file.
OF_FILES = ("PlanRecord", "Shape")


def properties(schema):
    """Every declared key of a schema, at any depth, with what is said of it."""
    if isinstance(schema, dict):
        found = schema.get("properties", {})
        if isinstance(found, dict):
            yield from found.items()
        for value in schema.values():
            yield from properties(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from properties(value)


@pytest.mark.parametrize("command", RESULTS)
def test_each_schema_is_one_and_is_closed(command):
    schema = schema_of(command)
    Draft202012Validator.check_schema(schema)
    parts = [schema, *schema["$defs"].values()]
    objects = [part for part in parts if "properties" in part]
    assert len(objects) >= 3  # the envelope, an error and the result
    # A record is read by later versions too, and may have more.
    own = [part for part in objects if part["title"].endswith(("Output", "--json"))]
    assert len(own) >= 3
    assert [part["title"] for part in own if part["additionalProperties"] is not False] == []
    assert schema["properties"]["command"]["const"] == command


@pytest.mark.parametrize("command", RESULTS)
def test_keys_have_one_style(command):
    schema = schema_of(command)
    for name in OF_FILES:
        schema["$defs"].pop(name, None)
    keys = {key for key, _ in properties(schema)}
    assert {key for key in keys if not re.fullmatch(r"[a-z0-9]+(_[a-z0-9]+)*", key)} == set()


def test_what_the_envelope_has_is_described():
    schema = schema_of("check")
    described = [schema["properties"], schema["$defs"]["ErrorOutput"]["properties"]]
    assert [key for part in described for key in part if "description" not in part[key]] == []
