"""Each test runs somewhere: in the quick tier, in one of three shards, or in `.ci/full` alone."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from fnmatch import fnmatch
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.projects import git
from tests.tiers import (
    BUDGET,
    DURATIONS,
    ROOT,
    SHARDS,
    TIERS,
    changed_since,
    choose,
    file_of,
    folder_of_tests,
    pytest_collection_modifyitems,
    read_durations,
    shards_of,
    tier_of,
)

TIMES = {"tests/a/test_x.py": 50.0, "tests/a/test_y.py": 40.0, "tests/b/test_z.py": 30.0}
WORK = {
    "parses Python code": "import ast\nast.parse('x')\n",
    "starts a process": "import subprocess\nsubprocess.run(['true'])\n",
    "loads a patch of the library": (
        "from vpatch.library.catalog import find_library\n"
        f"from pathlib import Path\nfind_library(Path({str(ROOT)!r})).load_all()\n"
    ),
}


def collected(*args, cwd=ROOT, code=0):
    """What pytest prints as it collects tests with these arguments."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    run = subprocess.run([*command, *args], cwd=cwd, capture_output=True, text=True, check=False)
    assert run.returncode == code, run.stdout + run.stderr
    return run.stdout


def ids_of(*args):
    return [line for line in collected(*args).splitlines() if "::" in line]


@pytest.mark.slow
@pytest.mark.full
def test_each_test_lies_in_exactly_one_tier():
    """And the README's command runs the quick tier."""
    lines = collected("-m", "", "-p", "tests.all_tiers").splitlines()
    tiers = json.loads(next(line for line in lines if line.startswith('{"quick"')))
    taken = [test for tests in tiers.values() for test in tests]
    assert sorted(taken) == sorted(line for line in lines if "::" in line and line[0] != "{")
    assert all(tiers.values())
    assert sorted(tiers["quick"]) == sorted(ids_of())


def test_pytest_enters_each_folder_of_tests(pytestconfig):
    """It passes over folders such as `build`, and says nothing."""
    passed_over = pytestconfig.getini("norecursedirs")
    folders = {path.parent for path in (ROOT / "tests").rglob("test_*.py")}
    assert len(folders) > 40
    parts = {part for folder in folders for part in folder.relative_to(ROOT).parts}
    assert [p for p in parts if any(fnmatch(p, pattern) for pattern in passed_over)] == []


def item(nodeid, *marks):
    return SimpleNamespace(nodeid=nodeid, get_closest_marker=lambda name: name in marks or None)


def selected(items, tier, base=None):
    """What a run of a tier takes of these tests."""
    options = {"--tier": tier, "--base": base}
    hook = SimpleNamespace(pytest_deselected=lambda **_: None)
    items = list(items)
    config = SimpleNamespace(getoption=options.get, hook=hook)
    pytest_collection_modifyitems(config, items)
    return items


def test_a_run_of_each_tier_takes_other_tests():
    files = [*read_durations(), *(f"tests/new/test_{number}.py" for number in range(9))]
    kinds = [(), ("slow",), ("slow", "full"), ("full",)]
    items = [item(f"{file}::test_it", *marks) for file in files for marks in kinds]
    taken = [id(one) for tier in TIERS for one in selected(items, tier)]
    assert sorted(taken) == sorted(map(id, items))
    assert len(selected(items, "quick")) == 2 * len(files)
    assert len(selected(items, None)) == len(items)


def test_a_base_without_a_tier():
    with pytest.raises(pytest.UsageError, match="--base needs --tier"):
        selected([], None, "main")


def test_a_tier_for_each_kind_of_test():
    shards = {"tests/a/test_x.py": "2"}
    assert tier_of(item("tests/a/test_x.py::test_it"), shards) == "quick"
    assert tier_of(item("tests/a/test_x.py::test_it", "slow"), shards) == "2"
    assert tier_of(item("tests/a/test_x.py::test_it", "slow", "full"), shards) == "full"
    new = {tier_of(item(f"tests/a/test_{n}.py::test_it", "slow"), shards) for n in range(20)}
    assert new == set(SHARDS)


def test_shards_take_about_as_long_as_each_other():
    shards = shards_of(TIMES | {"tests/b/test_w.py": 25.0})
    assert list(shards) == [*TIMES, "tests/b/test_w.py"]
    assert list(shards.values()) == ["1", "2", "3", "3"]


def test_the_recorded_durations_are_of_files_that_are_there():
    durations = read_durations()
    assert [file for file in durations if not (ROOT / file).is_file()] == []
    totals = Counter()
    for file, shard in shards_of(durations).items():
        totals[shard] += durations[file]
    assert max(totals.values()) - min(totals.values()) < max(durations.values())


def test_where_the_folder_of_tests_a_file_lie():
    assert folder_of_tests("vpatch/commands/bench/report/plots.py") == "tests/commands/bench"
    assert folder_of_tests("vpatch/engine/payload/imports.py") == "tests/engine"
    assert folder_of_tests("tests/commands/bench/records.py") == "tests/commands/bench"
    assert folder_of_tests("tests/commands/test_main.py") == "tests/commands"
    assert folder_of_tests("patches/security/x/patch.yaml") == "tests"
    assert folder_of_tests("vpatch/errors.py") == "tests"
    assert folder_of_tests("README.md") == "tests"


def test_slow_folder_of_tests_changed_folders():
    assert choose(["vpatch/a/new.py"], TIMES).run == {"tests/a/test_x.py", "tests/a/test_y.py"}
    assert choose(["docs/index.md"], TIMES).run == set()
    assert choose(["docs/index.md"], {"tests/test_docs.py": 1.0}).run == {"tests/test_docs.py"}


@pytest.mark.parametrize("changed", ["vpatch/a/x.py", "tests/a/test_x.py"])
def test_the_time_goes_to_the_nearest_tests_first(changed):
    found = choose([changed], TIMES, budget=60.0)
    assert found.run == {"tests/a/test_x.py"}
    assert found.left_out == {"tests/a/test_y.py": 40.0}


def test_the_short_files_of_a_folder_come_first():
    assert choose(["vpatch/a/new.py"], TIMES, budget=60.0).run == {"tests/a/test_y.py"}


def test_new_tests_run_though_no_time_is_on_record():
    assert choose(["tests/c/test_new.py"], TIMES).run == {"tests/c/test_new.py"}


def test_a_file_that_is_too_long_is_named():
    durations = read_durations()
    folders = {Path(file).parent.relative_to("tests") for file in durations if file.count("/") > 1}
    found = choose([f"vpatch/{folder}/x.py" for folder in folders], durations)
    assert sum(durations[file] for file in found.run) <= BUDGET
    assert found.run | set(found.left_out) == {f for f in durations if f.count("/") > 1}


def test_what_differs_from_a_commit(tmp_path):
    def commit(name, *words):
        (tmp_path / name).write_text(name)
        git(tmp_path, "add", name)
        git(tmp_path, "commit", "--quiet", "--message", name, *words)

    git(tmp_path, "init", "--quiet", "--initial-branch", "main")
    commit("first")
    git(tmp_path, "switch", "--quiet", "--create", "topic")
    commit("ours")
    (tmp_path / "first").write_text("changed")
    git(tmp_path, "stash", "--quiet")
    git(tmp_path, "switch", "--quiet", "main")
    commit("theirs")
    git(tmp_path, "switch", "--quiet", "topic")
    git(tmp_path, "stash", "pop", "--quiet")
    assert changed_since("main", tmp_path) == ("first", "ours")


def test_a_commit_that_is_not_there():
    with pytest.raises(pytest.UsageError, match="--base no-such-commit: fatal"):
        changed_since("no-such-commit")


@pytest.mark.parametrize("what", WORK)
def test_a_test_module_that_works_when_it_is_imported(tmp_path, what):
    (tmp_path / "test_it.py").write_text(f"{WORK[what]}def test_it():\n    pass\n")
    out = collected("-p", "tests.import_guard", "--rootdir", tmp_path, tmp_path, code=2)
    assert f"Failed: {what} when it is imported" in out


def test_a_file_of_a_test():
    assert file_of("tests/a/test_x.py::Test::test_it[a::b]") == "tests/a/test_x.py"
    assert DURATIONS.is_file()
