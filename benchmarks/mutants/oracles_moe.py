"""The oracle of the patch for a plugin's experts."""

from __future__ import annotations

import ast
import inspect
from typing import Any

from mutants.oracles import required
from mutants.scene import Answer, Scene, together
from mutants.world import CannotSayError, Stub


def optional_disable_inplace(scene: Scene) -> Answer:
    """Call what reads the field, with a configuration that lacks it and with one that has it."""
    if scene.holding(r"disable_inplace: bool"):
        return "absent"
    answers: list[Answer] = []
    for path in scene.holding("disable_inplace"):
        tree = ast.parse(scene.files[path])
        for name in readers(tree, scene.files[path].decode()):
            lacking = _in_place(scene, path, name, given=None)
            having = _in_place(scene, path, name, given=True)
            answers.append("cured" if (lacking, having) == (True, False) else "defect")
    return together(answers)


def readers(tree: ast.AST, text: str, above: str = "") -> list[str]:
    """The innermost functions that have the word."""
    found: list[str] = []
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            name = f"{above}{node.name}"
            inner = readers(node, text, f"{name}.") if isinstance(node, ast.ClassDef) else []
            found += inner
            segment = ast.get_source_segment(text, node) or ""
            if isinstance(node, ast.FunctionDef) and "disable_inplace" in segment:
                found.append(name)
        elif not isinstance(node, ast.expr):
            found += readers(node, text, above)
    return found


def _in_place(scene: Scene, path: str, name: str, *, given: bool | None) -> bool | None:
    """What the experts get for `inplace`; None where the field is missed."""
    made: list[object] = []
    fields = {} if given is None else {"disable_inplace": given}

    def experts(*_: object, **values: Any) -> Any:
        if "inplace" in values:
            made.append(values["inplace"])
        return Stub(world, "experts()")

    world = scene.world(
        path,
        special={"fused_experts": experts, **fields},
        missing=lambda n: given is None and n.endswith(".disable_inplace"),
    )
    found: Any = world.run(path)
    for part in name.split("."):
        found = inspect.getattr_static(found, part)
    if isinstance(found, property):
        found = found.fget
    found = getattr(found, "__func__", found)
    names = required(found)
    try:
        got = found(**{p: Stub(world, p) for p in names})
    except AttributeError:
        return None
    values = made or [c.kwargs["inplace"] for c in world.calls if "inplace" in c.kwargs]
    if not values and isinstance(got, bool):
        values = [got]  # a helper that only tells
    if not values:
        raise CannotSayError("nothing got `inplace`")
    return values == [True] * len(values)
