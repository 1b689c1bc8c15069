from __future__ import annotations

import pytest

from tests.helpers import patch_of, tree_of
from vpatch import memo
from vpatch.memo import Memo
from vpatch.outcome import State
from vpatch.plan import plan

EDIT = {"find": "f($x)", "rewrite": "g($x)"}
FILES = {"vllm/m.py": "f(1)\n"}


@pytest.fixture
def patch(tmp_path):
    return patch_of(tmp_path, edits=[EDIT])


def kept(tmp_path, patch, files=FILES, alone=()):
    tree = tree_of(files)
    known = Memo(tmp_path / "memo", [patch], tree, alone)
    known.keep(plan([patch], tree))
    return known


def test_what_was_decided_is_known(tmp_path, patch):
    recalled = kept(tmp_path, patch).recall()
    (decision,) = recalled.decisions
    assert (decision.state, decision.reason) == (State.NEEDED, "1 place to edit in 1 file")
    assert decision.patch is patch
    assert recalled.pin == tree_of(FILES).pin
    assert decision.changes == {}


def test_nothing_is_known_of_anything_else(tmp_path, patch, monkeypatch):
    kept(tmp_path, patch)
    folder, tree = tmp_path / "memo", tree_of(FILES)
    assert Memo(folder, [patch], tree, ()).recall() is not None
    other = patch_of(tmp_path / "other", edits=[EDIT], title="Another")
    assert Memo(folder, [other], tree, ()).recall() is None
    assert Memo(folder, [patch, other], tree, ()).recall() is None
    assert Memo(folder, [patch], tree, {"fix"}).recall() is None
    assert Memo(folder, [patch], tree_of(FILES, version="0.24.0"), ()).recall() is None
    assert Memo(folder, [patch], tree_of(FILES, carried=["fix"]), ()).recall() is None
    monkeypatch.setattr(memo, "_code", lambda: "other code")
    assert Memo(folder, [patch], tree, ()).recall() is None


def test_what_was_cut_off_is_not_known(tmp_path, patch):
    known = kept(tmp_path, patch)
    (file,) = (tmp_path / "memo").iterdir()
    text = file.read_text()
    for damaged in (text[:-5], "[{}]", '{"a": 1}', text.replace("needed", "wanted"), ""):
        file.write_text(damaged)
        assert known.recall() is None
    file.write_text(text)
    assert known.recall() is not None


def test_what_has_findings_to_tell_is_not_kept(tmp_path, patch):
    known = kept(tmp_path, patch, {"vllm/m.py": "f(1)\nf(2)\n"})
    assert known.recall() is None


def test_a_folder_that_cannot_be_written(tmp_path, patch):
    (tmp_path / "memo").write_text("a file is in the way")
    assert kept(tmp_path, patch).recall() is None


def test_the_code_is_that_of_vpatch(tmp_path, monkeypatch):
    memo._code.cache_clear()
    before = memo._code()
    (tmp_path / "memo.py").write_text("x = 1\n")
    monkeypatch.setattr(memo, "__file__", str(tmp_path / "memo.py"))
    memo._code.cache_clear()
    first = memo._code()
    (tmp_path / "memo.py").write_text("x = 2\n")
    memo._code.cache_clear()
    assert len({before, first, memo._code()}) == 3
    monkeypatch.undo()
    memo._code.cache_clear()
