"""Which patches of a series need another one, as they import what only that one defines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vpatch.deriving.module_names import bound_in, imports_in
from vpatch.deriving.source_code import parsed_if_python

if TYPE_CHECKING:
    from collections.abc import Sequence
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
