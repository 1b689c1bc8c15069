"""The text of a patch.yaml with one more variant: all that it says already stays."""

from __future__ import annotations

import io
import json
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ruamel.yaml import YAML

from vpatch.commands.edit.declaration.patch_text import (
    UnwritableEditsError,
    items_of,
    read,
    read_or_none,
)
from vpatch.commands.importing.patch_yaml import edits_yaml

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vpatch.deriving.candidate import Declared

_WIDE = 10**6


@dataclass(frozen=True)
class NewVariant:
    """A variant to add. `before` names the edits that there were, if they had no name."""

    before: str
    name: str
    edits: Sequence[Declared]
    notes: Mapping[int, str]
    when: Declared | None = None

    @property
    def declared(self) -> Declared:
        when = {} if self.when is None else {"when": self.when}
        return {"name": self.name, **when, "edits": list(self.edits)}

    def lines(self, column: int) -> str:
        """Its lines, with the dash in a column."""
        head = f"- name: {_flow(self.name)}\n"
        if self.when is not None:
            head += f"  when: {_flow(self.when)}\n"
        head += "  edits:\n"
        return textwrap.indent(head, " " * column) + edits_yaml(self.edits, self.notes, column + 4)


def free_name(text: str, name: str) -> str:
    """A name that no variant has."""
    known = {one.get("name") for one in read(text).get("variants", ())}
    number = 1
    while name in known:
        number += 1
        name = f"{name.removesuffix(f' ({number - 1})')} ({number})"
    return name


def with_new_variant(text: str, variant: NewVariant, where: str) -> str:
    """Add a variant behind those that there are; edits without variants become the first one.

    Raises:
        UsageError: the edits or variants have no lines of their own.
    """
    document = read(text)
    if "variants" in document:
        last = items_of(text, ("variants",), where)[-1]
        lines = text.splitlines(keepends=True)
        if last.end and not lines[last.end - 1].endswith("\n"):
            lines[last.end - 1] += "\n"
        lines.insert(last.end, variant.lines(last.column))
        changed = "".join(lines)
        wanted = {**document, "variants": [*document["variants"], variant.declared]}
    else:
        changed = _as_first(text, variant, where)
        first = {"name": variant.before, "edits": document["edits"]}
        wanted = {key: value for key, value in document.items() if key != "edits"}
        wanted["variants"] = [first, variant.declared]
    if _plain(read_or_none(changed)) != _plain(wanted):
        raise _not_lines(where)
    return changed


def _as_first(text: str, variant: NewVariant, where: str) -> str:
    items = items_of(text, ("edits",), where)
    lines = text.splitlines(keepends=True)
    first = items[0].top
    while first > 0 and not lines[first - 1].startswith("edits:"):
        first -= 1
    if first == 0:
        raise _not_lines(where)
    own = "".join(lines[first : items[-1].end])
    if own and not own.endswith("\n"):
        own += "\n"
    block = textwrap.indent(textwrap.dedent(own), " " * 6)
    head = f"variants:\n  - name: {_flow(variant.before)}\n    edits:\n"
    lines[first - 1 : items[-1].end] = [head, block, variant.lines(2)]
    return "".join(lines)


def with_condition(text: str, number: int, condition: Declared, where: str) -> str:
    """Let a variant need a predicate, and what it needs already.

    Raises:
        UsageError: its name or its condition has no lines of its own.
    """
    wanted = _plain(read(text))
    own = wanted["variants"][number]
    own["when"] = {"all": [own["when"], condition]} if "when" in own else condition
    node: Any = YAML(typ="rt", pure=True).load(text)["variants"][number]
    lines = text.splitlines(keepends=True)
    line, column = node.lc.key("when" if "when" in node else "name")
    # What follows is the next key, or a comment above it.
    end = line + 1
    while end < len(lines) and lines[end][: column + 1].isspace() and lines[end].strip():
        end += 1
    new = f"{' ' * column}when: {_flow(own['when'])}\n"
    if "when" in node:
        new = lines[line][:column] + new.lstrip(" ")
        lines[line:end] = [new]
    else:
        lines.insert(end, new)
    changed = "".join(lines)
    if _plain(read_or_none(changed)) != wanted:
        raise _not_lines(where)
    return changed


def with_alternative(text: str, key: str, other: Declared) -> str | None:
    """Let a predicate of the document hold as well where another one does; None if it cannot."""
    document = read(text)
    lines = text.splitlines(keepends=True)
    marked: Any = YAML(typ="rt", pure=True).load(text)
    starts = sorted(marked.lc.key(each)[0] for each in marked)
    first = marked.lc.key(key)[0]
    end = next((line for line in starts if line > first), len(lines))
    while end > first + 1 and (not lines[end - 1].strip() or lines[end - 1].startswith("#")):
        end -= 1
    wanted = {**document, key: {"any": [document[key], other]}}
    value = lines[first].removeprefix(f"{key}:").strip()
    body = textwrap.dedent("".join(lines[first + 1 : end]))
    own = f"{value}\n" if value else body
    item = "    - " + textwrap.indent(own, " " * 6).lstrip(" ")
    if value:
        item += textwrap.indent(body, " " * 6)
    flat = f"    - {_flow(document[key])}\n"
    for old in (item, flat):
        block = f"{key}:\n  any:\n{old}    - {_flow(other)}\n"
        changed = "".join([*lines[:first], block, *lines[end:]])
        if _plain(read_or_none(changed)) == _plain(wanted):
            return changed
    return None


def _flow(value: Any) -> str:
    """A value in one line."""
    yaml, text = YAML(typ="safe", pure=True), io.StringIO()
    yaml.default_flow_style, yaml.width = True, _WIDE
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    yaml.dump(json.loads(json.dumps(value)), text)
    return text.getvalue().removesuffix("\n").removesuffix("\n...")


def _plain(value: Any) -> Any:
    return None if value is None else json.loads(json.dumps(value))


def _not_lines(where: str) -> UnwritableEditsError:
    return UnwritableEditsError(
        "vpatch cannot add a variant without a change of something else",
        where=where,
        hint="write edits and variants on lines of their own, without anchors and aliases",
    )
