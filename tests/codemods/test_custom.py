from __future__ import annotations

import os

import pytest

from tests.helpers import edited, edits_of, run
from vpatch.errors import UsageError

CODEMOD = """
import libcst as cst
from vpatch.codemods import SiteTransformer

class Codemod(SiteTransformer):
    kinds = (cst.Integer,)

    def edit(self, original, updated):
        if not self.place.admits(self.scope, None) or updated.value not in ("1", "2"):
            return updated
        self.add(original, todo=updated.value == "1")
        return updated.with_changes(value="2")
"""
EDIT = {"codemod": "codemod.py", "contains": ["f"]}


def test_codemod(tmp_path):
    (tmp_path / "codemod.py").write_text(CODEMOD)
    assert edited(EDIT, "f( 1 )  # why\n", tmp_path) == "f( 2 )  # why\n"


def test_codemod_within(tmp_path):
    (tmp_path / "codemod.py").write_text(CODEMOD)
    edit = {**EDIT, "within": "g"}
    before = "f(1)\ndef g():\n    f(1)\n"
    assert edited(edit, before, tmp_path) == "f(1)\ndef g():\n    f(2)\n"


def test_codemod_is_counted(tmp_path):
    (tmp_path / "codemod.py").write_text(CODEMOD)
    assert run(EDIT, "f(1, 1)\n", tmp_path).mismatch == "expected 1, found 2"


def test_codemod_sees_only_files_with_the_words(tmp_path):
    (tmp_path / "codemod.py").write_text(CODEMOD)
    assert run(EDIT, "g(1)\n", tmp_path).mismatch == "expected 1, found 0"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\n", "defines no class Codemod"),
        ("class Codemod: pass\n", "defines no class Codemod"),
        ("import nowhere_at_all\n", "cannot be imported"),
        ("x = (\n", "cannot be imported"),
        ("x\n", "cannot be imported"),
        ("raise ValueError('no')\n", "cannot be imported: no"),
    ],
)
def test_file_without_a_codemod(tmp_path, text, message):
    (tmp_path / "codemod.py").write_text(text)
    with pytest.raises(UsageError, match=message) as caught:
        run(EDIT, "f(1)\n", tmp_path)
    assert caught.value.where == str(tmp_path / "codemod.py")


def test_a_codemod_runs_when_an_edit_does_and_not_before(tmp_path):
    (tmp_path / "codemod.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\n{CODEMOD}")
    edits_of(EDIT, tmp_path)
    assert not (tmp_path / "ran").exists()


def test_a_codemod_of_the_same_size_and_time_is_read_anew(tmp_path):
    file = tmp_path / "codemod.py"
    for value in ("2", "3"):
        file.write_text(CODEMOD.replace('"2"', f'"{value}"'))
        os.utime(file, (1, 1))
        assert edited(EDIT, "f(1)\n", tmp_path) == f"f({value})\n"
    assert not list(tmp_path.rglob("*.pyc"))


def test_a_change_without_a_place_is_refused(tmp_path):
    (tmp_path / "codemod.py").write_text(CODEMOD.replace("todo=", "todo=False and "))
    with pytest.raises(UsageError, match="without reporting the place"):
        run(EDIT, "f(1)\n", tmp_path)
