from __future__ import annotations

from tests.projects import VERSION, snapshot


def test_cache_list(applied):
    run = applied.run("cache", "list")
    first, last = run.out.splitlines()
    assert first.startswith(f"vllm-{VERSION} ")
    assert "sha256:" in first
    assert last.startswith("1 tree, ")
    assert last.endswith(f" MB in {applied.cache}")


def test_cache_list_as_json(applied):
    applied.run("status", "--vllm", "0.51.0")
    document = applied.run("cache", "list", "--json").json
    assert document["folder"] == str(applied.cache)
    assert [tree["tree"] for tree in document["trees"]] == ["vllm-0.50.0", "vllm-0.51.0"]
    assert all(tree["bytes"] > 1000 for tree in document["trees"])


def test_cache_of_nothing(empty):
    assert empty.run("cache", "list").out == f"0 trees, 0.0 MB in {empty.cache}\n"
    assert empty.run("cache", "clear").out == "0.0 MB freed\n"


def test_cache_clear(applied):
    before = snapshot(applied.target)
    freed = applied.run("cache", "clear", "--json").json["freed-bytes"]
    assert freed > 1000
    assert applied.run("cache", "list", "--json").json["trees"] == []
    assert not (applied.cache / "index").exists()
    assert snapshot(applied.target) == before
    applied.run("check")


def test_cache_clear_of_one_tree(applied):
    applied.run("status", "--vllm", "0.51.0")
    applied.run("cache", "clear", "vllm-0.51.0")
    trees = applied.run("cache", "list", "--json").json["trees"]
    assert [tree["tree"] for tree in trees] == ["vllm-0.50.0"]


def test_cache_clear_of_a_tree_that_is_not_there(applied):
    before = snapshot(applied.cache / "trees")
    run = applied.run("cache", "clear", "vllm-0.50", code=2)
    assert "not in the cache: vllm-0.50\n  next: the nearest that are: " in run.err
    assert "vllm-0.50.0" in run.err
    assert snapshot(applied.cache / "trees") == before
    assert applied.run("cache", "clear", "vllm-0.50", "--json", code=2).json["errors"]
