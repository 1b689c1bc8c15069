"""Write the pages of the reference that the code knows.

    python docs/generate.py

- errors.md: the codes and exit codes of all errors, with their meanings from errors.yaml.
- json-keys.md: what each command prints with `--json`, from the models of its result.
- fixtures.md: what the modules for behaviour tests offer, from their `__all__` and docstrings. What
  is above the mark is written by hand.
- patches.md: the patches of the library, from patch.yaml and shapes.json.
- known-issues.md: the entries of known-issues/, and known-issues-schema.json: their form.

tests/test_docs.py compares the pages with what this makes.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from docs.patches_page import patches_page, thread_link
from tests.error_codes import meanings, raised
from vpatch.engine import PAYLOAD
from vpatch.logs.known_issues import KnownIssue, known_issues
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
_JSON = """---
search:
  boost: 0.3
---

# JSON keys

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


def fixtures_page() -> str:
    """The page as it is, with what each module of the payload offers below the mark."""
    written, _, _ = (REFERENCE / "fixtures.md").read_text(encoding="utf-8").partition(MARK)
    lines = [written + MARK]
    for module in sorted(PAYLOAD.glob("*.py")):
        tree = ast.parse(module.read_text(encoding="utf-8"))
        offered = _offered(tree)
        if offered:
            summary = str(ast.get_docstring(tree)).partition("\n\n")[0]
            lines += ["", f"## {module.stem}", "", *summary.splitlines()]
            for name in offered:
                lines += ["", *_fixture(tree, name)]
    return "\n".join(lines) + "\n"


def _offered(tree: ast.Module) -> list[str]:
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name("__all__")], value=value):
                names: list[str] = ast.literal_eval(value)
                return names
    return []


def _fixture(tree: ast.Module, name: str) -> Iterator[str]:
    """The heading, the signature and the docstring of a name that a module offers."""
    yield from (f"### `{name}`", "")
    # A docstring of a variable comes after it.
    for node, after in zip(tree.body, [*tree.body[1:], None], strict=True):
        match node, after:
            case ast.ImportFrom(module=source, names=aliases), _:
                if name in {alias.name for alias in aliases}:
                    yield f"The same as in [{source}](#{source})."
            case ast.Assign(targets=[ast.Name(one)]), ast.Expr(ast.Constant(str(text))):
                if one == name:
                    yield from _code(ast.unparse(node))
                    yield from text.splitlines()
            case ast.FunctionDef(), _ if node.name == name:
                yield from _code(_signature(node))
                yield from _prose(node)
            case ast.ClassDef(), _ if node.name == name:
                methods = [part for part in node.body if isinstance(part, ast.FunctionDef)]
                yield from _code(*(_signature(m, name) for m in methods if m.name == "__init__"))
                yield from _prose(node)
                for method in methods:
                    if not method.name.startswith("_"):
                        yield from ("", *_code(_signature(method, name)))
                        yield from _prose(method)


def _signature(node: ast.FunctionDef, owner: str = "") -> str:
    arguments = ast.unparse(node.args).removeprefix("self").removeprefix(", ")
    # All of them have types, so that a default has spaces before and after its sign.
    arguments = arguments.replace("=", " = ")
    if node.name == "__init__":
        return f"{owner}({arguments})"
    name = f"{owner}.{node.name}" if owner else node.name
    return f"{name}({arguments}) -> {ast.unparse(node.returns) if node.returns else None}"


def _code(*lines: str) -> list[str]:
    # ruff formats what is Python, here as well.
    return ["```python", *(line.replace("'", '"') for line in lines), "```", ""]


def _prose(node: ast.FunctionDef | ast.ClassDef) -> Iterator[str]:
    """A docstring, with its arguments as a list."""
    text, _, arguments = str(ast.get_docstring(node)).partition("\n\nArgs:\n")
    yield from text.splitlines()
    if arguments:
        yield ""
        joined = re.sub(r"\n {5,}", " ", arguments)
        for line in joined.splitlines():
            name, _, meaning = line.strip().partition(": ")
            yield f"- `{name}`: {meaning}"


_ISSUES = """# Known issues

`vpatch diagnose` knows these messages that people reported in public.
[Diagnose](../how-to/diagnose.md) says what it does with them. Whether a release has a fix was read
from the code of vLLM 0.20.0 to 0.33.0. A test holds the entries to that code.

The entries lie in `known-issues/`, as TOML. [Their schema](known-issues-schema.json) has every key.
"""


_RELEASES = {
    "fix": "with the fix",
    "defect": "without the defect",
    "message": "without the message",
}


def issues_page() -> str:
    """All known issues."""
    lines = [_ISSUES, MARK]
    for issue in known_issues():
        threads = ", ".join(thread_link(one) for one in issue.thread)
        lines += [
            "",
            f"## `{issue.id}`",
            "",
            f"{issue.title}.",
            "",
            "```text",
            issue.example,
            "```",
            "",
        ]
        lines += [f"- Meaning: {issue.meaning}.", f"- Do: {issue.do}.", f"- Reported in: {threads}"]
        if issue.fix:
            lines.append(f"- Pull requests: {', '.join(thread_link(one) for one in issue.fix)}")
        if issue.code is not None and issue.code.fixes:
            releases = (
                issue.code.releases if issue.fixed_somewhere else "none of those that were read"
            )
            lines.append(f"- Releases {_RELEASES[issue.code.tells]}: {releases}")
        elif issue.code is None:
            lines.append("- The code of no release was read for it.")
        if not issue.alone:
            lines.append("- The message has other causes too.")
    return "\n".join(lines) + "\n"


def issues_schema() -> str:
    """The form of a known issue, as JSON Schema."""
    schema = KnownIssue.model_json_schema(by_alias=True)
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


PAGES = {
    "errors.md": errors_page,
    "fixtures.md": fixtures_page,
    "json-keys.md": json_page,
    "known-issues.md": issues_page,
    "known-issues-schema.json": issues_schema,
    "patches.md": partial(patches_page, MARK),
}


def main() -> None:
    for name, text in PAGES.items():
        (REFERENCE / name).write_text(text(), encoding="utf-8")


if __name__ == "__main__":
    main()
