"""Edits of a target for what a release lacks: optional fields, and names that moved."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.commands.compat.code.codebase import IsHere

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from vpatch.commands.compat.judgement.release import JudgedRelease
    from vpatch.commands.compat.result import CompatItem, CompatResult
    from vpatch.commands.compat.surface.items import Item, Surface
    from vpatch.commands.compat.target import CompatTarget

_MOVED = re.compile(r"(?P<module>[\w.]+)\.(?P<name>\w+) \([^;]+\)")


@dataclass(frozen=True)
class CompatDraft:
    """A patch to try: for which release, what it does, and its declaration."""

    id: str
    release: str
    text: str
    declaration: Mapping[str, object]


def drafts_of(
    base: JudgedRelease, target: CompatTarget, surface: Surface, result: CompatResult
) -> Iterator[CompatDraft]:
    items = {(one.kind, one.name, str(one.spot)): one for one in surface.items.values()}
    by_id: dict[str, list[tuple[Item, CompatItem, str]]] = {}
    for one in result.items:
        release = _first_gone(one, result)
        keys = ((one.kind, one.name, str(spot)) for spot in one.spots)
        item = next((items[key] for key in keys if key in items), None)
        if release is None or item is None or one.kind not in {"field", "import"}:
            continue
        module, _, name = one.name.rpartition(".")
        # One statement imports several names: two patches of it would be in each other's way.
        named = f"optional-{name}" if one.kind == "field" else f"moved-from-{module}"
        patch_id = re.sub(r"[^a-z0-9]+", "-", named.lower()).strip("-")
        by_id.setdefault(patch_id, []).append((item, one, release))
    for patch_id, several in by_id.items():
        item, first, release = several[0]
        paths = sorted({spot.path for _, one, _ in several for spot in one.spots})
        # A field that the target sets itself is never gone.
        edits = (
            _optional(base, item, paths)
            if first.kind == "field"
            else _moved(target, several, release)
        )
        if edits:
            yield _draft(target, patch_id, first, release, result.base or "", edits)


def _first_gone(one: CompatItem, result: CompatResult) -> str | None:
    if result.base is None or one.verdicts[result.base].state != "holds":
        return None
    labels = (release.label for release in result.releases)
    return next((label for label in labels if one.verdicts[label].state == "gone"), None)


def _draft(
    target: CompatTarget,
    patch_id: str,
    item: CompatItem,
    release: str,
    base: str,
    edits: Sequence[Mapping[str, object]],
) -> CompatDraft:
    module, _, name = item.name.rpartition(".")
    if item.kind == "field":
        title = f"Read {name} only where vLLM has it"
        text = f"{name} is optional: {edits[0]['rewrite']}"
    else:
        title = f"Import names of {module} from where vLLM has them"
        text = f"names of {module} are imported from where they are"
    version = f"=={target.version}" if target.version else ">=0.dev0"
    declaration = {
        "id": patch_id,
        "title": title,
        "why": f"vLLM {base} has {item.name}, and vLLM {release} does not: "
        f"{item.verdicts[release].why}.",
        "symptoms": [f"no attribute '{name}'" if item.kind == "field" else f"import name '{name}'"],
        "risks": "vpatch compat wrote this. It does not know what the code means: read it first.",
        "needed-in": {target.name: version},
        "concerns": {"text": name},
        "edits": list(edits),
        "remove-when": f"{target.name} is for no vLLM before {release}",
    }
    return CompatDraft(patch_id, release, text, declaration)


def _optional(
    base: JudgedRelease, item: Item, paths: Sequence[str]
) -> list[Mapping[str, object]] | None:
    """Return the edit that reads a field with the default that it has in the base."""
    answer = base.evaluate(item.ref).answer
    if not isinstance(answer, IsHere):
        return None
    owner, _, name = answer.place.name.rpartition(".")
    text = base.files.get(base.path_of(answer.place.module), b"")
    default = _default(text, owner, name)
    if default is None:
        return None
    return [
        {
            "find": f"$owner.{name}",
            "rewrite": f'getattr($owner, "{name}", {default})',
            "files": list(paths),
            "expect": {"at-least": 1},
        }
    ]


def _default(source: bytes, owner: str, name: str) -> str | None:
    """Return the default of a field of a class, if it is a literal."""
    try:
        body: Iterable[ast.stmt] = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError):
        return None
    for part in owner.split("."):
        body = next((n.body for n in body if isinstance(n, ast.ClassDef) and n.name == part), [])
    for node in body:
        match node:
            case ast.AnnAssign(target=ast.Name(id=known), value=value) if known == name and value:
                match value:
                    case ast.Call(keywords=keywords):
                        named = (one.value for one in keywords if one.arg == "default")
                        value = next(named, value)
                    case _:
                        pass
                if isinstance(value, ast.Constant):
                    return ast.unparse(value)
            case _:
                pass
    return None


def _moved(
    target: CompatTarget, several: Sequence[tuple[Item, CompatItem, str]], release: str
) -> list[Mapping[str, object]] | None:
    """Return edits that import names from their new modules, else from the old one."""
    statements: dict[tuple[str, int], tuple[ast.ImportFrom, dict[str, str]]] = {}
    for _, one, _ in several:
        match = _MOVED.fullmatch(one.verdicts[release].moved)
        for spot in one.spots if match else ():
            node = _import_at(target.files[spot.path], spot.line, match["name"]) if match else None
            if node is not None and match is not None:
                known = statements.setdefault((spot.path, node.lineno), (node, {}))
                known[1][match["name"]] = match["module"]
    files: dict[tuple[str, str], list[str]] = {}
    for (path, _), (node, modules) in statements.items():
        paths = files.setdefault((ast.unparse(node), _either(node, modules)), [])
        paths += [] if path in paths else [path]
    return [
        {"find": old, "rewrite": new, "files": paths, "expect": {"at-least": 1}}
        for (old, new), paths in files.items()
    ]


def _either(node: ast.ImportFrom, modules: Mapping[str, str]) -> str:
    """Return an import that tries the new modules of names first, and then the old one."""
    moved = [one for one in node.names if one.name in modules]
    rest = [one for one in node.names if one.name not in modules]
    lines = [ast.unparse(ast.ImportFrom(node.module, rest, node.level))] if rest else []
    new = [ast.unparse(ast.ImportFrom(modules[one.name], [one], 0)) for one in moved]
    old = ast.unparse(ast.ImportFrom(node.module, moved, node.level))
    lines += ["try:", *(f"    {line}" for line in new), "except ImportError:", f"    {old}", ""]
    return "\n".join(lines)


def _import_at(source: bytes, line: int, name: str) -> ast.ImportFrom | None:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.lineno <= line <= (node.end_lineno or 0):
            return node if any(alias.name == name for alias in node.names) else None
    return None
