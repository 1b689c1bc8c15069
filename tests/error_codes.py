"""Which errors the code of vpatch raises: each construction, its codes and its exit code."""

from __future__ import annotations

import ast
import re
from functools import cache
from itertools import chain

from ruamel.yaml import YAML

from tests.documents import ROOT, page
from vpatch.errors import ExitCode

PACKAGE = ROOT / "vpatch"
CODE = re.compile(r"([a-z]+)\.[a-z0-9]+(?:-[a-z0-9]+)*")
# These have defaults that say nothing, so each construction needs a code.
BARE = {"VpatchError", "UsageError", "UnavailableError"}


@cache
def meanings():
    """The meaning of each code, as docs/reference/errors.yaml has it."""
    return YAML(typ="safe").load(page("reference/errors.yaml"))


def areas():
    """What codes begin with. A code keeps its area where its code moves: programs read it."""
    return {code.partition(".")[0] for code in meanings()}


def is_code(text):
    match = CODE.fullmatch(text)
    return bool(match) and match[1] in areas()


def name_of(node):
    return getattr(node, "id", None) or getattr(node, "attr", None)


def attributes_of(definition):
    """The code and the exit code that a class defines itself."""
    attributes = {}
    for statement in definition.body:
        match statement:
            case ast.Assign(targets=[ast.Name("code")], value=ast.Constant(value)):
                attributes["code"] = None if definition.name in BARE else value
            case ast.Assign(targets=[ast.Name("exit_code")], value=ast.Attribute(attr=value)):
                attributes["exit_code"] = ExitCode[value]
    return attributes


def errors_of(nodes):
    """VpatchError and all below it, by name, as classes with the same bases."""
    defined = [node for node in nodes if isinstance(node, ast.ClassDef)]
    (base,) = [one for one in defined if one.name == "VpatchError"]
    errors = {base.name: type(base.name, (), attributes_of(base))}
    while True:
        new = [
            one
            for one in defined
            if one.name not in errors
            and {name_of(b) for b in one.bases} & set(errors)
            # A base may be defined further down.
            and not {name_of(b) for b in one.bases} & ({d.name for d in defined} - set(errors))
        ]
        if not new:
            return errors
        for one in new:
            bases = tuple(errors[name_of(b)] for b in one.bases if name_of(b) in errors)
            errors[one.name] = type(one.name, bases, attributes_of(one))


def codes_of(node, tree):
    """The codes that an argument `code=` may have; none if it hands on what another error has.

    For a variable, every code in a tuple of its module.
    """
    match node:
        case ast.Constant(str(value)):
            return {value}
        case ast.IfExp():
            return codes_of(node.body, tree) | codes_of(node.orelse, tree)
        case ast.Attribute(attr="code"):
            return set()
        case ast.Name():
            tuples = [n.elts for n in ast.walk(tree) if isinstance(n, ast.Tuple)]
            texts = {getattr(one, "value", None) for elements in tuples for one in elements}
            if codes := {one for one in texts if isinstance(one, str) and is_code(one)}:
                return codes
    return {f"not a literal: {ast.unparse(node)}"}


@cache
def constructions():
    """Each construction of an error: its file, the module in there, the call, and the class."""
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in PACKAGE.rglob("*.py")}
    nodes = {path: list(ast.walk(tree)) for path, tree in trees.items()}
    errors = errors_of(chain.from_iterable(nodes.values()))
    return [
        (path, trees[path], node, error)
        for path in trees
        for node in nodes[path]
        if isinstance(node, ast.Call) and (error := errors.get(name_of(node.func)))
    ]


@cache
def raised():
    """Each construction of an error: the place, its codes, and the exit code."""
    places = []
    for path, tree, node, error in constructions():
        if error.__name__ != "ManyErrors":  # its errors have codes and exit codes of their own
            place = f"{path.relative_to(ROOT)}:{node.lineno}"
            codes = [codes_of(k.value, tree) for k in node.keywords if k.arg == "code"]
            places.append((place, codes[0] if codes else {error.code}, error.exit_code))
    return places
