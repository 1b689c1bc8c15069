"""Every error has a stable code and a hint, and docs/reference/errors.yaml says what it means."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

from tests.documents import ROOT
from tests.error_codes import constructions, errors_of, is_code, meanings, raised

# Those that add a hint themselves, are the reason of a conflict, or leave nothing to do.
HINTLESS = {"DamagedEntry", "UnparsableFile", "IdleError", "InterruptedRunError", "ManyErrors"}


@pytest.fixture(scope="module")
def codes():
    return {code for _, codes, _ in raised() for code in codes if code}


def test_every_error_has_a_code():
    assert [place for place, codes, _ in raised() if None in codes] == []


def test_every_error_says_what_to_do_next():
    without = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path, _, node, error in constructions()
        if error.__name__ not in HINTLESS and "hint" not in {k.arg for k in node.keywords}
    ]
    assert without == []


def test_every_code_says_where_and_what(codes):
    assert {code for code in codes if not is_code(code)} == set()


def test_every_code_has_a_meaning_and_no_other_has(codes):
    assert list(meanings()) == sorted(codes)


def test_every_code_has_one_exit_code():
    pairs = {(code, int(exit_code)) for _, codes, exit_code in raised() for code in codes}
    assert [code for code, times in Counter(code for code, _ in pairs).items() if times > 1] == []


def test_a_test_pins_every_code(codes):
    files = [file for file in (ROOT / "tests").rglob("*.py") if file != Path(__file__)]
    texts = "\n".join(file.read_text(encoding="utf-8") for file in files)
    assert {code for code in codes if f'"{code}"' not in texts} == set()


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
    errors = errors_of(ast.walk(ast.parse(text.replace("VpatchError, Un", "Un"))))
    assert set(errors) == {"CutError", "IndexError_", "UnavailableError", "VpatchError"}
    assert (errors["CutError"].code, errors["CutError"].exit_code) == ("source.a", 4)
    assert errors["UnavailableError"].code is None
