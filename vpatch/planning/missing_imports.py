"""New code imports from the tree's own package what the tree does not have."""

from __future__ import annotations

import ast
import hashlib
import re
from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from vpatch.planning.outline import is_python
from vpatch.planning.users import imported_from
from vpatch.util.words import has_word

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from vpatch.planning.state import Change
    from vpatch.planning.view import View

# What a module may have without naming it.
_ANYTHING = re.compile(rb"import \*|\b__getattr__\b|\bglobals\(\)|\bsetattr\(")
# An `if` that asks for this may be there so that the import does not run.
_ASKS = re.compile(r"TYPE_CHECKING|hasattr|find_spec|version", re.IGNORECASE)
_STATEMENTS = (ast.stmt, ast.match_case)
_Name = tuple[str | None, int, str]


def missing_imports(changes: Mapping[str, Change], after: View) -> Iterator[str]:
    """Say which new imports name a module of the tree, or a name of it, that is not there.

    An import in a `try` or in `with suppress(...)` may fail, and one for type checkers or for other
    releases does not run. What the tree imports without the patch may be made by a build. A tree
    without the package's own `__init__.py` is only a part of one, as an example is.
    """
    for path, change in changes.items():
        if not is_python(path):
            continue
        digests = [hashlib.sha256(text).digest() for text in (change.before or b"", change.after)]
        known: Sequence[_Name] = after.answers.ask(
            f"new imports; is there: {change.before is not None}", digests, partial(_new, change)
        )
        for module, level, name in known:
            stem = imported_from(path, module, level)
            if _is_missing(stem, name, after):
                dotted = stem.replace("/", ".")
                yield f"after the patch, {path} imports {name} from {dotted}, which the tree lacks"


def _new(change: Change) -> list[_Name]:
    before = set() if change.before is None else set(_imports(change.before))
    return [one for one in dict.fromkeys(_imports(change.after)) if one not in before]


def _imports(text: bytes) -> Iterator[_Name]:
    """The imports of names that run, by module, level and name."""
    nodes: deque[ast.AST] = deque([ast.parse(text)])
    while nodes:
        node = nodes.popleft()
        if isinstance(node, ast.ImportFrom):
            yield from ((node.module, node.level, alias.name) for alias in node.names)
        elif isinstance(node, (ast.Try, ast.TryStar)):
            nodes += [*node.orelse, *node.finalbody]
        elif isinstance(node, ast.If) and _ASKS.search(ast.unparse(node.test)):
            nodes += node.orelse
        elif isinstance(node, ast.With) and any(
            "suppress" in ast.unparse(item.context_expr) for item in node.items
        ):
            continue
        else:
            nodes += (one for one in ast.iter_child_nodes(node) if isinstance(one, _STATEMENTS))


def _is_missing(stem: str, name: str, view: View) -> bool:
    """Whether a module of the tree, or a name of it, is nowhere: `stem` is its path."""
    if name == "*" or view.read(f"{stem.partition('/')[0]}/__init__.py") is None:
        return False
    texts = (view.read(file) for file in (f"{stem}.py", f"{stem}/__init__.py"))
    there = next((text for text in texts if text is not None), None)
    if there is not None and (has_word(name.encode(), there) or _ANYTHING.search(there)):
        return False
    inner = f"{stem}/{name}"
    if view.has_path_below(f"{inner}.", f"{inner}/", *([] if there is not None else [f"{stem}."])):
        return False
    module = re.escape(stem.replace("/", ".")).encode()
    imports = re.compile(rb"^\s*(?:from|import)\s+%s\b" % module, re.MULTILINE)
    words = frozenset(part.encode() for part in (stem.rpartition("/")[2], there and name) if part)
    before = (view.pristine(file) or b"" for file in view.holding([words], None))
    return not any(imports.search(text) for text in before)
