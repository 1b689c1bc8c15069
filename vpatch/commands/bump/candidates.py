"""Changes of a patch.yaml that may make it fit a new release: where code moved, or was renamed.

A candidate is a guess. It counts only once it is shown to hold; see `vpatch.commands.bump.propose`.
"""

from __future__ import annotations

import ast
import json
import re
import textwrap
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from vpatch.commands.bump.changed_code import ChangedCode
    from vpatch.declare.yamlfile import Positions

# A pattern in one line, as `find` and `rewrite` have it. In quotes, it has none of them itself.
_PATTERN = re.compile(
    r"""^(?P<before>\s*(?:-\ )?(?P<key>find|rewrite):\s*)
    (?: (?P<quote>['"])(?P<quoted>[^'"\\]+)(?P=quote) | (?P<plain>[^'"|>\s].*) )$""",
    re.VERBOSE,
)


@dataclass(frozen=True)
class ChangedDeclaration:
    """The text of a changed patch.yaml, and in words what was changed.

    `names` are those that upstream changed, the old ones first.
    """

    change: str
    text: str
    names: Mapping[str, str] = field(default_factory=dict)


def candidates(
    positions: Positions,
    changed: Sequence[ChangedCode],
    split: Mapping[str, str],
    releases: tuple[str, str],
) -> Iterator[ChangedDeclaration]:
    """Yield changes of a declaration, the smallest first.

    Args:
        positions: the declaration.
        changed: how the definitions that the patch edits or reads differ.
        split: where upstream moved the edited part of a definition; see
            `vpatch.commands.bump.successor.split_off`.
        releases: the versions of the old and of the new release.
    """
    text = positions.content.decode()
    yield from _with_further_arguments(text)
    files = {
        one.before.path: one.after.path
        for one in changed
        if one.before and one.after and one.before.path != one.after.path
    }
    if files:
        moved = _with_files(text, files)
        pairs = ", ".join(f"{old} is now {new}" for old, new in files.items() if old in text)
        if moved != text:
            yield ChangedDeclaration(f"upstream moved code: {pairs}", moved, files)
            text = moved
    for verb, names in (("renamed", _new_names(changed)), ("split", _patterns_of(split))):
        known = {old: new for old, new in names.items() if _name(old).search(text)}
        pairs = ", ".join(f"{old} is now {new}" for old, new in known.items())
        renamed = _with_variant(text, positions.document, known, releases) if known else None
        if renamed is not None:
            yield ChangedDeclaration(f"upstream {verb} code: {pairs}", renamed, known)


def _new_names(changed: Sequence[ChangedCode]) -> dict[str, str]:
    """The parts of qualified names that upstream renamed."""
    names: dict[str, str] = {}
    for one in changed:
        if one.kind == "renamed" and one.before and one.after:
            old, new = one.before.name.split("."), one.after.name.split(".")
            if len(old) == len(new):
                names |= {a: b for a, b in zip(old, new, strict=True) if a != b}
    return names


def _patterns_of(split: Mapping[str, str]) -> dict[str, str]:
    """How `within` may name the definitions: by qualified names, or by a glob for any class."""
    patterns = dict(split)
    for old, new in split.items():
        if "." in old:
            patterns[f"*.{old.rpartition('.')[2]}"] = f"*.{new.rpartition('.')[2]}"
    return patterns


def _with_further_arguments(text: str) -> Iterator[ChangedDeclaration]:
    """Let a call of a pattern have further arguments, which a rewrite keeps."""
    lines = text.splitlines(keepends=True)
    for number, line in enumerate(lines):
        match = _PATTERN.match(line.rstrip("\n"))
        if match is None or match["key"] != "find":
            continue
        # `rewrite` is mostly the next line; it has the same call at the same place.
        other = _PATTERN.match(lines[number + 1].rstrip("\n")) if number + 1 < len(lines) else None
        rewrite = other if other is not None and other["key"] == "rewrite" else None
        for place, code in enumerate(_with_ellipses(match)):
            changed = [_with_code(match, code)]
            if rewrite is not None:
                rewritten = list(_with_ellipses(rewrite))
                if place >= len(rewritten):
                    continue
                changed.append(_with_code(rewrite, rewritten[place]))
            rest = lines[number + len(changed) :]
            change = f"upstream added an argument: find {code}"
            yield ChangedDeclaration(change, "".join([*lines[:number], *changed, *rest]))


def _with_code(line: re.Match[str], code: str) -> str:
    quote = line["quote"] or ""
    return f"{line['before']}{quote}{code}{quote}\n"


def _with_ellipses(line: re.Match[str]) -> Iterator[str]:
    """The pattern of a line with `...` as the last argument of a call, or as the last parameter."""
    pattern = line["quoted"] or line["plain"]
    # Python does not know metavariables. The offsets must stay.
    code = pattern.replace("$", "_")
    try:
        tree = ast.parse(code)
    except SyntaxError:
        return
    # Offsets are in bytes.
    data = pattern.encode()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            if any(isinstance(a, ast.Constant) and a.value is ... for a in node.args):
                continue
            end, has_arguments = (node.end_col_offset or 0) - 1, bool(node.args or node.keywords)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.args.args:
            parts = [one for one in ast.walk(node.args) if isinstance(one, (ast.arg, ast.expr))]
            end, has_arguments = max(one.end_col_offset or 0 for one in parts), True
        else:
            continue
        comma = b", " if has_arguments else b""
        yield (data[:end].rstrip() + comma + b"..." + data[end:]).decode()


def _with_files(text: str, files: Mapping[str, str]) -> str:
    for old, new in files.items():
        line = re.compile(rf"^(\s*(?:- )?files:\s*)(['\"]?){re.escape(old)}\2[ \t]*$", re.MULTILINE)
        # Both are named: the patch is to fit both releases.
        text = line.sub(rf"\1[{old}, {new}]", text)
    return text


def _with_variant(
    text: str, document: Any, names: Mapping[str, str], releases: tuple[str, str]
) -> str | None:
    """Add a variant with the new names; None if the patch has variants already."""
    if "edits" not in document:
        return None
    lines = text.splitlines(keepends=True)
    first = document.lc.key("edits")[0]
    last = _end_of(first, lines)
    edits = textwrap.dedent("".join(lines[first + 1 : last]))
    if not edits.strip():
        return None
    old, new = releases
    variants = "variants:\n"
    for name, block in ((f"up to {old}", edits), (f"from {new}", renamed_text(edits, names))):
        variants += f"  - name: {name}\n    edits:\n{textwrap.indent(block, ' ' * 6)}"
    lines[first:last] = [variants]
    for key in ("concerns", "effect"):
        own = _plain(document.get(key))
        both = [own, json.loads(renamed_text(json.dumps(own), names))]
        if both[0] != both[1]:
            lines = "".join(lines).splitlines(keepends=True)
            start = next(n for n, line in enumerate(lines) if line.startswith(f"{key}:"))
            lines[start : _end_of(start, lines)] = [f"{key}: {json.dumps({'any': both})}\n"]
    return "".join(lines)


def _end_of(first: int, lines: Sequence[str]) -> int:
    """The first line after a key and its value."""
    last = first + 1
    while last < len(lines) and (lines[last][:1] in " \n-" or not lines[last].strip()):
        last += 1
    return last


def renamed_text(text: str, names: Mapping[str, str]) -> str:
    """A text with other names in it; the parts of longer ones stay."""
    for old, new in names.items():
        text = _name(old).sub(new, text)
    return text


def _name(name: str) -> re.Pattern[str]:
    """A name in code; one with dots is not the end of a longer one."""
    return re.compile(rf"(?<![\w{'.' if '.' in name else ''}]){re.escape(name)}(?!\w)")


def _plain(node: Any) -> Any:
    if isinstance(node, dict):
        return {str(key): _plain(value) for key, value in node.items()}
    if isinstance(node, list):
        return [_plain(value) for value in node]
    return node if isinstance(node, (bool, int, float, type(None))) else str(node)
