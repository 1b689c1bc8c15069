"""Write the pages of the reference that the code knows.

    python docs/generate.py

- errors.md: the codes and exit codes of all errors, with their meanings from errors.yaml.
- json-keys.md: what each command prints with `--json`, from the models of its result.

tests/test_docs.py compares the pages with what this makes.
"""

from __future__ import annotations

import sys
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.error_codes import meanings, raised
from vpatch.registry import RESULTS, schema_of

if TYPE_CHECKING:
    from collections.abc import Iterator

REFERENCE = Path(__file__).parent / "reference"
MARK = "<!-- generated: python docs/generate.py -->"
_SUFFIX = "Output"
_PARTS = ("anyOf", "oneOf", "items", "additionalProperties")
# Models that are files, and have pages of their own.
_FILES = {
    "LockFile": "[vpatch.lock](lock.md)",
    "SmokeRecord": "[record of a smoke run](evidence.md)",
    "BehaviourTestRecord": "[record of a behaviour test](evidence.md)",
    "BenchRecord": "record of a benchmark",
}
_ERRORS = """# Error codes

Each error has a code, such as `trust.not-trusted`. Scripts can rely on it: the English text of an
error may change, but its code does not. The part before the dot is the area of vpatch that found
the error. [Exit codes](exit-codes.md) explains the numbers.

In Python, `error.code` has the code. One exception can hold several errors: its code is
`vpatch.several-errors`, and each error in `error.errors` has its own code.
"""
_JSON = """# JSON keys

This page has the keys of each command's `result`. [JSON output](json.md) has the keys around it.
`vpatch schema output COMMAND` prints the same as a JSON Schema.
"""


def errors_page() -> str:
    """All codes, a table for each area."""
    exits = {code: int(exit_code) for _, codes, exit_code in raised() for code in codes}
    lines = [_ERRORS, MARK]
    for area, rows in groupby(meanings().items(), key=lambda row: row[0].partition(".")[0]):
        lines += ["", f"## `{area}`", "", "| code | exit code | meaning |", "|---|---|---|"]
        lines += [f"| `{code}` | {exits[code]} | {meaning} |" for code, meaning in rows]
    return "\n".join(lines) + "\n"


def json_page() -> str:
    """The keys of the result of each command, and below them those of the objects in it."""
    schemas = {command: schema_of(command) for command in sorted(RESULTS)}
    definitions = {k: one for schema in schemas.values() for k, one in schema["$defs"].items()}
    names = {command: _names(schema["properties"]["result"]) for command, schema in schemas.items()}
    objects = {
        name
        for schema in schemas.values()
        for one in schema["$defs"].values()
        for part in one.get("properties", {}).values()
        for name in _names(part)
        if name.endswith(_SUFFIX)
    }
    lines = [_JSON, MARK]
    for command, (name,) in names.items():
        lines += ["", f"## {command}", "", *_table(definitions[name], definitions)]
    lines += ["", "## Objects"]
    for name in sorted(objects):
        one = definitions[name]
        described = [one["description"], ""] if "description" in one else []
        lines += ["", f"### {name}", "", *described, *_table(one, definitions)]
    return "\n".join(lines) + "\n"


def _names(schema: Any) -> list[str]:
    """The names of the definitions that a schema mentions."""
    if isinstance(schema, list):
        return [name for one in schema for name in _names(one)]
    if not isinstance(schema, dict):
        return []
    own = [schema["$ref"].rpartition("/")[2]] if "$ref" in schema else []
    return own + [name for key in _PARTS for name in _names(schema.get(key))]


def _table(schema: dict[str, Any], definitions: dict[str, Any]) -> Iterator[str]:
    yield from ("| key | type | meaning |", "|---|---|---|")
    for key, one in schema["properties"].items():
        meaning = " ".join(one.get("description", "").split()).replace("|", "\\|")
        yield f"| `{key}` | {_type(one, definitions)} | {meaning} |".replace("  ", " ")


def _type(schema: dict[str, Any], definitions: dict[str, Any]) -> str:
    match schema:
        case {"anyOf": parts} | {"oneOf": parts}:
            text = " or ".join(_type(one, definitions) for one in parts)
        case {"$ref": ref}:
            name = ref.rpartition("/")[2]
            file = _FILES.get(name) or _type(definitions[name], definitions)
            text = f"[{name}](#{name.lower()})" if name.endswith(_SUFFIX) else file
        case {"enum": values}:
            text = ", ".join(f"`{value}`" for value in values)
        case {"const": value}:
            text = f"`{value}`"
        case {"type": "array", "items": {} as item}:
            text = f"list of {_type(item, definitions)}"
        case {"type": "object", "additionalProperties": {} as item}:
            text = f"object of {_type(item, definitions)}"
        case _:
            text = str(schema.get("type", "any value"))
    return text


PAGES = {"errors.md": errors_page, "json-keys.md": json_page}


def main() -> None:
    for name, text in PAGES.items():
        (REFERENCE / name).write_text(text(), encoding="utf-8")


if __name__ == "__main__":
    main()
