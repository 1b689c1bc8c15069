"""Which patches of a series need another one: by what they import, and by what they give."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from vpatch.deriving.module_names import bound_in, imports_in
from vpatch.deriving.source_code import parsed_if_python

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from vpatch.changes.change import FileChange, SourceChange


def patches_needed_by_name(changes: Sequence[SourceChange]) -> dict[str, tuple[str, ...]]:
    """For each patch the earlier ones that define a module or a name that it begins to import."""
    if len(changes) == 1:
        return {changes[0].id: ()}
    needed: dict[str, tuple[str, ...]] = {}
    defined: list[tuple[str, AbstractSet[str]]] = []
    for change in changes:
        files = [file for file in change.files if file.path.endswith(".py")]
        imports = {name for file in files for name in _new_imports(file)}
        needed[change.id] = tuple(
            other
            for other, names in defined
            if any(name in names or name.rpartition(".")[0] in names for name in imports)
        )
        defined.append((change.id, {name for file in files for name in _new_names(file)}))
    return needed


def _new_imports(file: FileChange) -> set[str]:
    after, before = (
        set(imports_in(parsed_if_python(text or b""), file.path).values())
        for text in (file.after, file.before)
    )
    return after - before


def _new_names(file: FileChange) -> set[str]:
    """The dotted names that a file begins to define; a new file is a module as well."""
    module = file.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    after, before = (bound_in(parsed_if_python(text or b"")) for text in (file.after, file.before))
    names = {f"{module}.{name}" for name in after - before}
    return names | ({module} if file.before is None else set())


def same_calls(some: Mapping[str, bytes], others: Mapping[str, bytes]) -> bool:
    """Whether files have the same code; the keywords of a call may be in another order."""
    return some.keys() == others.keys() and all(
        text == others[path] or (path.endswith(".py") and _dumped(text) == _dumped(others[path]))
        for path, text in some.items()
    )


def _dumped(text: bytes) -> str | bytes:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return text
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and all(one.arg for one in node.keywords):
            node.keywords.sort(key=lambda one: one.arg or "")
    return ast.dump(tree)
