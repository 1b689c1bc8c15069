from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import vpatch
from tests.commands.unprivileged import prefix
from tests.projects import VERSION, snapshot
from vpatch.source.cache import KINDS, Cache
from vpatch.util import record_store


def test_cache_list(applied):
    run = applied.run("cache", "list")
    first, *others, last = run.out.splitlines()
    assert first.startswith(f"vllm-{VERSION} ")
    assert "sha256:" in first
    assert [line.split()[0] for line in others] == ["index", "contents", "plans", "patches"]
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


@pytest.mark.parametrize("path", ["afile", "afile/x", "n" * 300, "loop", "loop/x"])
def test_a_path_that_no_cache_can_have(project, path):
    (project.folder / "afile").touch()
    (project.folder / "loop").symlink_to("loop")
    project.env["VPATCH_CACHE_DIR"] = path
    for command in (["apply", "--vllm", VERSION], ["cache", "list"], ["cache", "clear"]):
        run = project.run(*command, code=2)
        assert run.codes == ("source.bad-cache-path",)
        folder = project.folder / path
        assert f"  next: correct {folder}, or name another folder with VPATCH_CACHE_DIR" in run.err


def test_cache_clear(applied):
    before = snapshot(applied.target)
    freed = applied.run("cache", "clear", "--json").json["freed_bytes"]
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
    assert applied.run("cache", "clear", "vllm-0.50", "--json", code=2).json_errors


def fill(cache):
    for kind in KINDS:
        folder = cache / kind / "x"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "file").write_bytes(b"0" * 1000)


def test_all_that_is_kept_is_listed_and_cleared(applied):
    fill(applied.cache)
    others = applied.run("cache", "list", "--json").json["others"]
    assert {one["kind"] for one in others} == set(KINDS)
    assert all(one["bytes"] >= 1000 for one in others)
    assert applied.run("cache", "clear", "github", "--json").json["freed_bytes"] == 1000
    assert not (applied.cache / "github").exists()
    assert (applied.cache / "proposals").exists()
    applied.run("cache", "clear")
    left = [path for path in applied.cache.rglob("*") if path.is_file()]
    assert [path for path in left if "locks" not in path.parts] == []


def test_nothing_is_kept_that_is_not_known():
    """Whoever keeps something new is told to name it, so that it is listed and cleared."""
    with pytest.raises(KeyError):
        Cache(Path("/nonexistent")).answers("news")
    asked = set()
    for file in Path(vpatch.__file__).parent.rglob("*.py"):
        asked |= set(re.findall(r"\.answers\(\"([^\"]+)", file.read_text()))
    assert asked == set(KINDS)


def test_plans_are_limited(applied, monkeypatch):
    plans = applied.cache / "plans"
    old = [plans / f"{number}.json" for number in range(5)]
    for age, path in enumerate(reversed(old)):
        path.write_bytes(b"0" * 1000)
        os.utime(path, (age, age))
    monkeypatch.setattr(record_store, "LARGEST", 50_000)
    (plans / "large.json").write_bytes(b"0" * 47_500)
    os.utime(plans / "large.json", (10, 10))
    (applied.patches / "slow-mode" / "patch.yaml").write_text(
        (applied.patches / "slow-mode" / "patch.yaml").read_text().replace("fails", "breaks")
    )
    applied.run("status", "--vllm", VERSION, "--patch", "slow-mode")
    assert sum(path.stat().st_size for path in plans.iterdir()) <= 50_000
    # The oldest went first.
    kept = [path.exists() for path in reversed(old)]
    assert kept == sorted(kept)
    assert not kept[0]


def read_only(folder):
    subprocess.run(["chmod", "-R", "a-w", folder], check=True)


@pytest.mark.slow
@pytest.mark.parametrize(("has_base", "has_lock"), [(True, False), (False, True)])
def test_a_read_only_cache_can_be_read(project, has_base, has_lock):
    if has_base:
        project.apply()
        shutil.rmtree(project.target.parent)
    else:
        project.run("status", "--vllm", VERSION)
    if not has_lock:
        shutil.rmtree(project.cache / "locks")
    read_only(project.cache)
    before = snapshot(project.cache)
    options = {"prefix": prefix(), "in_process": False}
    project.run("status", "--vllm", VERSION, "--offline", **options)
    project.run("apply", "--vllm", VERSION[:4], **options)
    project.run("check", **options)
    assert project.run("cache", "list", "--json", **options).json["trees"]
    assert snapshot(project.cache) == before
    run = project.run("cache", "clear", "--json", code=4, **options)
    assert "cannot be removed" in run.json_errors[0]["what"]
    subprocess.run(["chmod", "-R", "u+w", project.cache], check=True)


def test_what_a_read_only_cache_does_not_have(project):
    project.run("status", "--vllm", VERSION)
    read_only(project.cache)
    options = {"prefix": prefix(), "in_process": False}
    run = project.run("status", "--vllm", "0.51.0", code=4, **options)
    assert "the cache cannot be used" in run.err
    assert "set VPATCH_CACHE_DIR" in run.err
    subprocess.run(["chmod", "-R", "u+w", project.cache], check=True)
