"""Every error has a stable code, and docs/reference/errors.md lists each code once."""

from __future__ import annotations

import ast
import re
from itertools import chain
from pathlib import Path

import pytest

from tests.documents import ROOT, page
from vpatch.errors import ExitCode

PACKAGE = ROOT / "vpatch"
# A code begins with an area, and keeps it where its code moves: programs read it.
AREAS = set(re.findall(r"^## `(\w+)`$", page("reference/errors.md"), re.MULTILINE))
CODE = re.compile(r"([a-z]+)\.[a-z0-9]+(?:-[a-z0-9]+)*")
# These have defaults that say nothing, so each construction needs a code.
BARE = {"VpatchError", "UsageError", "UnavailableError"}
# Those that add a hint themselves, are the reason of a conflict, or leave nothing to do.
HINTLESS = {"DamagedEntry", "UnparsableFile", "IdleError", "InterruptedRunError", "ManyErrors"}


def is_code(text):
    found = CODE.fullmatch(text)
    return bool(found) and found[1] in AREAS


def name_of(node):
    return getattr(node, "id", None) or getattr(node, "attr", None)


def attributes_of(definition):
    """The code and the exit code that a class defines itself."""
    found = {}
    for statement in definition.body:
        match statement:
            case ast.Assign(targets=[ast.Name("code")], value=ast.Constant(value)):
                found["code"] = None if definition.name in BARE else value
            case ast.Assign(targets=[ast.Name("exit_code")], value=ast.Attribute(attr=value)):
                found["exit_code"] = ExitCode[value]
    return found


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


def given(node, tree):
    """The codes that an argument `code=` may have; none if it hands on what another error has.

    For a variable, every code in a tuple of its module.
    """
    match node:
        case ast.Constant(str(value)):
            return {value}
        case ast.IfExp():
            return given(node.body, tree) | given(node.orelse, tree)
        case ast.Attribute(attr="code"):
            return set()
        case ast.Name():
            tuples = [n.elts for n in ast.walk(tree) if isinstance(n, ast.Tuple)]
            texts = {getattr(one, "value", None) for elements in tuples for one in elements}
            if found := {one for one in texts if isinstance(one, str) and is_code(one)}:
                return found
    return {f"not a literal: {ast.unparse(node)}"}


@pytest.fixture(scope="module")
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


@pytest.fixture(scope="module")
def raised(constructions):
    """Each construction of an error: the place, its codes, and the exit code."""
    found = []
    for path, tree, node, error in constructions:
        if error.__name__ != "ManyErrors":  # its errors have codes and exit codes of their own
            place = f"{path.relative_to(ROOT)}:{node.lineno}"
            codes = [given(k.value, tree) for k in node.keywords if k.arg == "code"]
            found.append((place, codes[0] if codes else {error.code}, error.exit_code))
    return found


@pytest.fixture(scope="module")
def codes(raised):
    return {code for _, codes, _ in raised for code in codes if code}


@pytest.fixture(scope="module")
def table():
    rows = r"^\| `([^`]+)` \| (\d+) \| (.+) \|$"
    return re.findall(rows, page("reference/errors.md"), re.MULTILINE)


def test_every_error_has_a_code(raised):
    assert [place for place, codes, _ in raised if None in codes] == []


def test_every_error_says_what_to_do_next(constructions):
    without = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path, _, node, error in constructions
        if error.__name__ not in HINTLESS and "hint" not in {k.arg for k in node.keywords}
    ]
    assert without == []


def test_every_code_says_where_and_what(codes):
    assert {code for code in codes if not is_code(code)} == set()


def test_the_table_has_every_code_once_and_no_other(table, codes):
    assert sorted(code for code, _, _ in table) == sorted(codes)


def test_the_table_has_the_exit_codes(table, raised):
    found = {(code, int(ends)) for _, codes, ends in raised for code in codes}
    assert {(code, int(ends)) for code, ends, _ in table} == found


def test_a_test_pins_every_code(codes):
    files = [file for file in (ROOT / "tests").rglob("*.py") if file != Path(__file__)]
    texts = "\n".join(file.read_text(encoding="utf-8") for file in files)
    assert {code for code in codes if f'"{code}"' not in texts} == set()


def test_the_sections_are_the_areas():
    sections = re.split(r"^## `(\w+)`$", page("reference/errors.md"), flags=re.MULTILINE)[1:]
    assert sections[::2] == sorted(set(sections[::2]))
    for area, text in zip(sections[::2], sections[1::2], strict=True):
        codes = re.findall(r"^\| `([^`]+)`", text, re.MULTILINE)
        assert codes == sorted(codes)
        assert codes
        assert {code.partition(".")[0] for code in codes} == {area}


def test_a_class_is_found_with_what_it_inherits():
    text = """
class CutError(IndexError_): pass
class IndexError_(VpatchError, UnavailableError): code = "source.a"
class UnavailableError(VpatchError): exit_code = ExitCode.ENVIRONMENT
class VpatchError(Exception): exit_code = ExitCode.FINDINGS; code = "error"
class Other(Exception): code = "b"
"""
    with pytest.raises(TypeError):  # Python refuses this order of bases as well
        errors_of(ast.walk(ast.parse(text)))
    found = errors_of(ast.walk(ast.parse(text.replace("VpatchError, Un", "Un"))))
    assert set(found) == {"CutError", "IndexError_", "UnavailableError", "VpatchError"}
    assert (found["CutError"].code, found["CutError"].exit_code) == ("source.a", 4)
    assert found["UnavailableError"].code is None
