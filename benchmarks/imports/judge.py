"""Whether a tool did right to a file of another release, by the definitions of a change."""

from __future__ import annotations

import ast
import warnings
from typing import Literal

Verdict = Literal["right", "wrong", "unknown"]
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def definitions(text: bytes) -> dict[str, str]:
    """The code of each function, and of each class without its functions, by qualified name."""
    found: dict[str, str] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ast.parse(text)

    def visit(node: ast.AST, scope: str) -> None:
        for inner in ast.iter_child_nodes(node):
            if not isinstance(inner, _DEFINITIONS):
                continue
            name = f"{scope}.{inner.name}" if scope else inner.name
            if isinstance(inner, ast.ClassDef):
                visit(inner, name)
                own = [each for each in inner.body if not isinstance(each, _DEFINITIONS)]
                head = [*inner.decorator_list, *inner.bases, *inner.keywords]
                code = "\n".join(map(ast.dump, [*head, *own]))
            else:
                code = ast.dump(inner)
            # An overload or a setter has the name of another one.
            found[name] = f"{found[name]}\n{code}" if name in found else code

    visit(tree, "")
    return found


def judged(before: bytes, after: bytes, target: bytes, made: bytes) -> Verdict:
    """Judge what was made of a file of another release.

    `before` and `after` are the file at the origin. Where the release has the touched definitions
    as they were before, they must become as they are after. Where it has them as they are after,
    nothing may change. Elsewhere nobody knows what is right.
    """
    try:
        old, new, there, got = map(definitions, (before, after, target, made))
    except (SyntaxError, ValueError):
        return "wrong"
    touched = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    if not touched:
        return "unknown"
    if all(there.get(name) == new.get(name) for name in touched):
        return "right" if made == target or got == there else "wrong"
    if any(there.get(name) != old.get(name) for name in touched):
        return "unknown"
    others = [name for name in there if name not in touched]
    right = all(got.get(name) == new.get(name) for name in touched)
    return "right" if right and all(got.get(n) == there[n] for n in others) else "wrong"
