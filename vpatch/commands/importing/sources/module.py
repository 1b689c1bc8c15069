"""A module that patches a tree at run time: what it assigns becomes the code of the release."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from vpatch.changes.change import FileChange, Message, SourceChange
from vpatch.changes.message import id_of
from vpatch.commands.importing.sources.assignment_edit import AssignmentEdit
from vpatch.commands.importing.sources.plugin_module import Assigned, PluginModule
from vpatch.errors import BadValueError, VpatchError, combine

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from vpatch.changes.stack import Stack

_EVERYWHERE = (
    "the module replaces what other modules find under a name; the patch changes the code itself"
)


def from_module(module: Path, stack: Stack, only: Sequence[str] = ()) -> list[SourceChange]:
    """Read a module that patches a tree at run time. Nothing of it runs.

    Args:
        module: the file.
        stack: the release.
        only: names of what to take, such as `Class.method`; all if there are none.

    Raises:
        UsageError: it is not Python, or patches nothing of the tree, or does so in another form.
    """
    source = PluginModule(module, stack.paths.packages)
    assigned = list(source.assigned())
    chosen = [one for one in assigned if not only or any(_is_named(one, name) for name in only)]
    _refuse_unknown(source, assigned, only)
    files: dict[str, bytes] = {}
    notes = [_EVERYWHERE]
    errors: list[VpatchError] = []
    met: set[str] = set()
    for one in chosen:
        try:
            if one.dotted in met:
                raise source.refused(one.line, f"{one.dotted} is assigned several times")
            met.add(one.dotted)
            notes += AssignmentEdit(source, one, stack, files).make()
        except VpatchError as error:
            errors.append(error)
    if errors:
        raise combine(errors)
    if not chosen:
        tree = "vLLM" if "vllm" in source.roots else " or ".join(sorted(source.roots))
        raise source.refused(1, f"it assigns nothing to a class or a module of {tree}")
    notes += [
        f"line {one.line}: {one.dotted} is left out, as --only does not name it"
        for one in assigned
        if one not in chosen
    ]
    notes += source.left_out()
    title, _, body = (ast.get_docstring(source.tree) or "").partition("\n")
    message = Message(title or f"What {module.stem} changes", body.strip())
    changed = tuple(FileChange(path, stack.read(path), text) for path, text in files.items())
    name = id_of("", module.stem)
    return [stack.push(SourceChange(name, str(module), message, changed, (), tuple(notes)))]


def _is_named(one: Assigned, name: str) -> bool:
    return f".{one.dotted}".endswith(f".{name}")


def _refuse_unknown(
    source: PluginModule, assigned: Sequence[Assigned], only: Sequence[str]
) -> None:
    for name in only:
        if not any(_is_named(one, name) for one in assigned):
            there = ", ".join(dict.fromkeys(one.dotted for one in assigned)) or "nothing"
            raise BadValueError(
                f"--only names {name}, which the module does not assign",
                where=str(source.path),
                hint=f"name what it assigns: {there}",
            )
