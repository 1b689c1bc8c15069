from __future__ import annotations

from dataclasses import replace

import pytest

from tests.helpers import patch_of, tree_of
from vpatch.library.patch import load_patch
from vpatch.planning import plan_cache
from vpatch.planning.plan_cache import cached_plan
from vpatch.planning.state import Change, State
from vpatch.trust.decision import Trust

EDIT = {"find": "f($x)", "rewrite": "g($x)"}
FILES = {"vllm/m.py": "f(1)\n"}


@pytest.fixture
def patch(tmp_path):
    return patch_of(tmp_path, edits=[EDIT])


@pytest.fixture
def made(monkeypatch):
    """How often a plan was really made."""
    calls = []
    plan = plan_cache.plan
    monkeypatch.setattr(
        plan_cache, "plan", lambda *args, **options: (calls.append(1), plan(*args, **options))[1]
    )
    return calls


def remembered(tmp_path, *patches, files=FILES, to_write=True, alone=(), **pin):
    tree = tree_of(files, **pin)
    return cached_plan(tmp_path / "memo", patches, tree, to_write=to_write, alone=alone)


def test_a_plan_is_made_once(tmp_path, patch, made):
    first, second = (remembered(tmp_path, patch) for _ in range(2))
    assert len(made) == 1
    assert second == first
    (decision,) = second.decisions
    assert (decision.state, decision.reason) == (State.NEEDED, "1 place to edit in 1 file")
    assert decision.patch is patch
    assert decision.changes == {"vllm/m.py": Change(b"f(1)\n", b"g(1)\n")}


def test_changes_build_on_each_other(tmp_path, patch, made):
    new = {"add-file": "vllm/n.py", "from": "n.py"}
    again = {"find": "g($x)", "rewrite": "h($x)"}
    second = patch_of(
        tmp_path,
        "second",
        edits=[again, new],
        files={"n.py": "\u00e9 = 1\n"},
        concerns={"text": "("},
    )
    remembered(tmp_path, patch, second)
    plan = remembered(tmp_path, patch, second)
    assert len(made) == 1
    assert plan.decisions[1].changes == {
        "vllm/m.py": Change(b"g(1)\n", b"h(1)\n"),
        "vllm/n.py": Change(None, "\u00e9 = 1\n".encode()),
    }


def test_a_plan_that_is_only_shown_has_no_changes(tmp_path, patch, made):
    remembered(tmp_path, patch, to_write=False)
    (decision,) = remembered(tmp_path, patch, to_write=False).decisions
    assert (decision.state, decision.changes) == (State.NEEDED, {})
    assert remembered(tmp_path, patch).decisions[0].changes
    assert len(made) == 2


def test_nothing_is_known_of_anything_else(tmp_path, patch, made, monkeypatch):
    remembered(tmp_path, patch)
    other = patch_of(tmp_path / "other", edits=[EDIT], title="Another")
    remembered(tmp_path, other)
    remembered(tmp_path, patch, alone={"fix"})
    remembered(tmp_path, patch, version="0.24.0")
    remembered(tmp_path, patch, carried=["fix"])
    monkeypatch.setattr(plan_cache, "_code", lambda: "other code")
    remembered(tmp_path, patch)
    assert len(made) == 6
    remembered(tmp_path, patch)
    assert len(made) == 6


def test_another_content_is_another_tree(patch):
    # What tells contents apart is the pin's digest, which the sources take of them.
    tree = tree_of(FILES)
    other = replace(tree, pin=replace(tree.pin, digest="sha256:1"))
    keys = {plan_cache._key([patch], one.pin, (), True, ()) for one in (tree, other)}
    assert len(keys) == 2


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[:-5],
        lambda _: "[{}]",
        lambda _: '{"a": 1}',
        lambda _: "[1]",
        lambda _: "",
        lambda text: text.replace("needed", "wanted"),
        lambda text: text.replace("ZygxKQo=", "ZygyKQo="),  # g(1) and g(2)
        lambda text: text.replace("ZygxKQo", "ZygxKQp"),
        lambda text: text.partition("\n")[0] + "\n[]",
    ],
)
def test_what_is_damaged_is_made_again(tmp_path, patch, made, damage):
    first = remembered(tmp_path, patch)
    (file,) = (tmp_path / "memo").iterdir()
    text = file.read_text()
    assert damage(text) != text
    file.write_text(damage(text))
    assert remembered(tmp_path, patch) == first
    assert len(made) == 2
    assert file.read_text() == text


def test_what_has_findings_to_tell_is_not_kept(tmp_path, patch, made):
    for _ in range(2):
        plan = remembered(tmp_path, patch, files={"vllm/m.py": "f(1)\nf(2)\n"})
        assert plan.decisions[0].findings
    assert len(made) == 2


def test_a_folder_that_cannot_be_written(tmp_path, patch, made):
    (tmp_path / "memo").write_text("a file is in the way")
    for _ in range(2):
        assert remembered(tmp_path, patch).decisions[0].state is State.NEEDED
    assert len(made) == 2


def test_the_code_is_that_of_vpatch(tmp_path, monkeypatch):
    plan_cache._code.cache_clear()
    before = plan_cache._code()
    code = tmp_path / "planning" / "plan_cache.py"
    code.parent.mkdir()
    code.write_text("x = 1\n")
    monkeypatch.setattr(plan_cache, "__file__", str(code))
    plan_cache._code.cache_clear()
    first = plan_cache._code()
    code.write_text("x = 2\n")
    plan_cache._code.cache_clear()
    assert len({before, first, plan_cache._code()}) == 3
    monkeypatch.undo()
    plan_cache._code.cache_clear()


READS = """
from pathlib import Path
import libcst as cst
from vpatch.codemods import SiteTransformer

class Codemod(SiteTransformer):
    kinds = (cst.Integer,)

    def edit(self, original, updated):
        new = (Path(__file__).parent / "new.txt").read_text()
        self.add(original, todo=updated.value != new)
        return updated.with_changes(value=new)
"""


def test_what_a_codemod_may_have_read_is_not_known(tmp_path, made, monkeypatch):
    edits = [{"codemod": "codemod.py", "contains": ["f"]}]
    patch = patch_of(tmp_path, edits=edits, files={"codemod.py": READS, "new.txt": "2"})
    assert remembered(tmp_path, patch).decisions[0].changes["vllm/m.py"].after == b"f(2)\n"
    (patch.folder / "new.txt").write_text("3")
    # As another process would: one runs a codemod from a copy that stays as it is.
    patch = load_patch(patch.folder, Trust(None, everything=True))
    assert remembered(tmp_path, patch).decisions[0].changes["vllm/m.py"].after == b"f(3)\n"
    assert len(made) == 2
    # The library's own are known to read nothing.
    monkeypatch.setattr(plan_cache, "installed", lambda _: patch.folder.parent)
    for _ in range(2):
        remembered(tmp_path, patch)
    assert len(made) == 3
