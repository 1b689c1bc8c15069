"""Trees that travel to a node."""

from __future__ import annotations

from tests.projects import write_tree
from vpatch.harness.target import TreeContent
from vpatch.planning.state import Change
from vpatch.runs.packed_trees import PackedTree, packed


def test_trees_come_back_as_they_were(tmp_path):
    changes = {
        "vllm/a.py": Change(b"before\n", b"after\n"),
        "vllm/new/b.py": Change(None, b"new\n"),
        "vllm/empty.py": Change(b"", b"x"),
    }
    trees = [TreeContent(changes, {}, is_release=True), TreeContent({}, {"own/c.py": b"c"}, False)]
    pack = packed(trees)
    write_tree(tmp_path, pack.files)
    sent = [PackedTree.model_validate_json(tree.model_dump_json()) for tree in pack.trees]
    assert [tree.unpacked(tmp_path) for tree in sent] == trees
