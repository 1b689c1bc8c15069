"""The code of definitions, as Python's own unparser writes it; by other ways than vpatch's."""

from __future__ import annotations

import ast
from copy import copy
from functools import cache, lru_cache

from vpatch.planning.names import STATEMENT

# What comes before the name of an attribute, where a key is about the classes that have it.
OWNERS = "owners of "


def differs(key, tree, other):
    """Whether two trees have other code under a key of a shape: PATH::QUALIFIED.NAME."""
    path, _, name = key.partition("::")
    if name.startswith(OWNERS):
        attribute = name.removeprefix(OWNERS)
        return _owners(tree, attribute) != _owners(other, attribute)
    if not name:
        texts = [one.read(path) if path in one.paths() else None for one in (tree, other)]
        return texts[0] != texts[1]
    codes = [_code_of(one.package_files, path, name) for one in (tree, other)]
    assert codes[0] or STATEMENT in name, key
    if not codes[1] and codes[0]:
        # It may have moved from another file.
        *scopes, _ = name.partition("#")[0].split(".")
        words = [word.encode() for word in (*scopes, name.rpartition(".")[2])]
        return all(
            _code_of(other.package_files, p, name) != codes[0]
            for p, text in other.package_files.items()
            if p.endswith(".py") and all(word in text for word in words)
        )
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


@lru_cache(maxsize=64)
def _parsed(content):
    return ast.parse(content).body


@cache
def _code_in(content, name):
    body = _parsed(content)
    *scopes, last = name.partition("#")[0].split(".")
    for scope in scopes:
        body = [n for c in body if isinstance(c, ast.ClassDef) and c.name == scope for n in c.body]
    found = []
    for node in _with_blocks(body):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == last:
            body = node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body
            found.append(_unparsed(node, body or [ast.Pass()]))
        elif isinstance(node, ast.ClassDef) and node.name == last:
            found.append(_unparsed(node, [ast.Pass()]))
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if [t.id for t in targets if isinstance(t, ast.Name)] == [last]:
                found.append(ast.unparse(node))
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            module = getattr(node, "module", None), getattr(node, "level", 0)
            bound = [a for a in node.names if (a.asname or a.name.partition(".")[0]) == last]
            found += [repr((type(node), module, a.name)) for a in bound]
    return found


def _unparsed(node, body):
    """A definition with another body. The node stays as it is: other names are looked up in it."""
    other = copy(node)
    other.body = body
    return ast.unparse(other)


def _owners(tree, attribute):
    """The classes that set an attribute, or define something by its name."""
    owners = set()
    for path, text in tree.package_files.items():
        if path.endswith(".py") and attribute.encode() in text:
            classes = (n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.ClassDef))
            owners |= {(path, one.name) for one in classes if _has(one, attribute)}
    # A class may move: only its name counts.
    return {name for _, name in owners}


def _has(found, attribute):
    stored = (
        n.attr
        for n in ast.walk(found)
        if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store)
    )
    defined = (
        target.id
        for n in found.body
        for target in (*getattr(n, "targets", ()), getattr(n, "target", None))
        if isinstance(target, ast.Name)
    )
    named = (getattr(n, "name", None) for n in found.body)
    return attribute in {*stored, *defined, *named}
