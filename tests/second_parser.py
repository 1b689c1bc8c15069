"""The code of definitions, as Python's own unparser writes it; by other ways than vpatch's."""

from __future__ import annotations

import ast
from functools import cache

from vpatch.planning.names import STATEMENT


def differs(key, tree, other):
    """Whether two trees have other code under a key of a shape: PATH::QUALIFIED.NAME."""
    path, _, name = key.partition("::")
    if not name:
        return tree.read(path) != other.read(path)
    codes = [_code_of(one.package_files, path, name) for one in (tree, other)]
    assert codes[0] or STATEMENT in name, key
    if not codes[1] and codes[0]:
        # It may have moved from another file.
        last = name.rpartition(".")[2].encode()
        files = [p for p, text in other.package_files.items() if p.endswith(".py") and last in text]
        return all(_code_of(other.package_files, p, name) != codes[0] for p in files)
    return codes[0] != codes[1]


def _with_blocks(body):
    """Some statements, and the definitions in their blocks."""
    for node in body:
        yield node
        if isinstance(node, (ast.If, ast.Try, ast.With)):
            inner = [*node.body, *getattr(node, "orelse", ()), *getattr(node, "finalbody", ())]
            handlers = getattr(node, "handlers", ())
            inner += [statement for handler in handlers for statement in handler.body]
            definitions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.If, ast.Try)
            yield from _with_blocks([n for n in inner if isinstance(n, definitions)])


def _code_of(files, path, name):
    """The code of a definition, as Python's own unparser writes it; by other ways than vpatch's."""
    return list(_code_in(files[path], name)) if path in files else []


@cache
def _code_in(content, name):
    body = ast.parse(content).body
    *scopes, last = name.partition("#")[0].split(".")
    for scope in scopes:
        body = [n for c in body if isinstance(c, ast.ClassDef) and c.name == scope for n in c.body]
    found = []
    for node in _with_blocks(body):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == last:
            body = node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body
            node.body = body or [ast.Pass()]
            found.append(ast.unparse(node))
        elif isinstance(node, ast.ClassDef) and node.name == last:
            node.body = [ast.Pass()]
            found.append(ast.unparse(node))
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if [t.id for t in targets if isinstance(t, ast.Name)] == [last]:
                found.append(ast.unparse(node))
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            module = getattr(node, "module", None), getattr(node, "level", 0)
            bound = [a for a in node.names if (a.asname or a.name.partition(".")[0]) == last]
            found += [repr((type(node), module, a.name)) for a in bound]
    return found
