"""A library of patches that a script makes of real definitions of a vLLM, to measure many of them.

Each patch changes one definition or constant, by one of five edits. It is needed in the release
that it was made from. What it means elsewhere depends on the release, as with any patch.
"""

from __future__ import annotations

import ast
import json
import random
from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

Edit = dict[str, Any]
# Characters of an expression that a patch searches.
_LONGEST = 60


def write_library(into: Path, files: Mapping[str, bytes], count: int, seed: int = 17) -> list[str]:
    """Write patches for a release's files, and return their ids."""
    chance = random.Random(seed)  # noqa: S311 - the same for everybody
    found = [edit for path in sorted(files) for edit in _edits(path, files[path])]
    chance.shuffle(found)
    taken: list[str] = []
    kinds = ["add-keyword", "insert", "rewrite", "replace-body", "set-value"]
    for number in range(count):
        # Patches of one file may be in each other's way.
        kind = kinds[number % len(kinds)]
        free = [e for e in found if e["files"] not in taken and not e.get("orphans")]
        # Few files have a keyword to add: later patches are of another kind.
        chosen = next((e for e in free if kind in e), free[0])
        taken.append(chosen["files"])
        _write(into, f"made-{number:03}-{next(k for k in kinds if k in chosen)}", chosen)
    return sorted(path.parent.name for path in into.glob("*/patch.yaml"))


def _write(into: Path, name: str, edit: Edit) -> None:
    concerned = edit.get("of", "").rpartition(".")[2] or edit["name"]
    declaration = {
        "id": name,
        "title": f"[Misc] Change {concerned}",
        "why": "It is changed to measure how long a decision takes.",
        "symptoms": ["none"],
        "needed-in": {"vllm": ">=0.20"},
        "concerns": {"text": concerned, "files": edit["files"]},
        "edits": [{key: value for key, value in edit.items() if key not in {"name", "orphans"}}],
        "remove-when": "never",
    }
    (into / name).mkdir(parents=True)
    text = json.dumps(declaration, indent=1)
    (into / name / "patch.yaml").write_text(text, encoding="utf-8")


def _edits(path: str, text: bytes) -> Iterator[Edit]:
    """The edits that can be made of a file, each of one that can be told by its name."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    names = [node.name for node in functions]
    for node in tree.body:
        plain = isinstance(node, ast.FunctionDef) and names.count(node.name) == 1
        if plain and not node.decorator_list and node.args.kwarg is None:
            yield from _of_function(path, node, _orphans(tree, node))
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=int(value))) if (
                not isinstance(value, bool) and text.count(name.encode()) == 1
            ):
                new = str(value + 1)
                yield {"set-value": new, "of": name, "was": str(value), "files": path}


def _orphans(tree: ast.Module, node: ast.FunctionDef) -> list[str]:
    """Names that are imported for the body of a function alone.

    A patch must not leave an import that nothing uses, so another body would conflict.
    """
    imports = [one for one in ast.walk(tree) if isinstance(one, (ast.Import, ast.ImportFrom))]
    imported = {
        alias.asname or alias.name.partition(".")[0] for one in imports for alias in one.names
    }
    inside = Counter(name for statement in node.body for name in _names(statement))
    everywhere = Counter(_names(tree))
    return sorted(n for n in imported & inside.keys() if inside[n] == everywhere[n])


def _names(node: ast.AST) -> Iterator[str]:
    return (one.id for one in ast.walk(node) if isinstance(one, ast.Name))


def _of_function(path: str, node: ast.FunctionDef, orphans: list[str]) -> Iterator[Edit]:
    found = {"files": path, "name": node.name}
    head = f"def {node.name}(...): ..."
    if node.args.vararg is None and not node.args.kwonlyargs:
        yield {"find": head, "add-keyword": {"made_option": "None"}, **found}
    yield {"insert": "made_local = None", "at-start-of": head, **found}
    returns = [one for one in ast.walk(node) if isinstance(one, ast.Return) and one.value]
    if len(returns) == 1 and isinstance(returns[0].value, ast.Call):
        returned = ast.unparse(returns[0].value)
        if len(returned) < _LONGEST and "..." not in returned and "$" not in returned:
            rewritten = f"return [{returned}]"
            yield {"find": f"return {returned}", "rewrite": rewritten, "within": node.name, **found}
            body = {"replace-body": "raise NotImplementedError", "having": [returned]}
            yield {"find": head, **body, "orphans": orphans, **found}
