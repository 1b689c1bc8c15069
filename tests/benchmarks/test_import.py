"""The corpus of benchmarks/import.py and its judge."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.helpers import tree_of
from vpatch.planning.state import State

FOLDER = Path(__file__).parents[2] / "benchmarks"
PATH = "vllm/worker.py"
BEFORE = b"def f(x):\n    return x\n\n\ndef g(x):\n    return x\n"
AFTER = BEFORE.replace(b"return x\n\n", b"return x + 1\n\n")


@pytest.fixture(scope="module")
def benchmark():
    sys.path.insert(0, str(FOLDER))
    spec = importlib.util.spec_from_file_location("import_benchmark", FOLDER / "import.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    sys.path.remove(str(FOLDER))
    for name in list(sys.modules):
        if name in {spec.name, "survival"} or name.partition(".")[0] == "imports":
            del sys.modules[name]


def test_there_are_as_many_pairs_as_promised(benchmark):
    assert len(benchmark.PAIRS) >= 40
    for old, new in benchmark.PAIRS.values():
        assert benchmark.MODULE.count(old) == 1
        compile(benchmark.MODULE.replace(old, new), PATH, "exec")


# What the vocabulary cannot say by meaning yet, and what is no code.
TEXT = {
    "another branch",
    "close a gate",
    "reword a comment",
    "reword a docstring",
    "take a branch away",
    "take a statement away",
    "wrap several statements",
}


@pytest.mark.slow
@pytest.mark.full
def test_every_pair_is_imported_byte_for_byte_and_most_by_meaning(benchmark):
    rows = list(benchmark.pairs())
    assert {row.name for row in rows if row.gives != "exact" or row.failure} == set()
    assert {row.name for row in rows if row.by_meaning < row.hunks} <= TEXT


def test_a_tool_that_makes_nothing_of_an_open_release_is_wrong(benchmark):
    """git apply -3 may end well without the change, and vpatch may take it for absent."""
    files = [{PATH: text} for text in (BEFORE, AFTER)]
    row = benchmark.Row("upstream", "fix")
    change = benchmark.Imported(row, "1", *files, None)
    for text in (BEFORE, AFTER):
        tree = tree_of({PATH: text})
        decision = SimpleNamespace(state=State.ABSENT, changes={})
        benchmark.tried(change, tree, benchmark.Places(tree), decision, None)
    assert row.releases == {"open": 1, "present": 1}
    assert row.tools["vpatch"] == {"wrong": 1, "nothing": 1}
    assert row.tools["git apply -3"] == {"right": 1, "nothing": 1}


def test_the_table_sums_a_group(benchmark, capsys):
    one = benchmark.Row("own", "fix", 2, 1, "exact")
    other = benchmark.Row("own", "mend", 1, 1, "layout")
    for tool, results in {"vpatch": ["right", "right"], "patch": ["failed", "wrong"]}.items():
        for result in results:
            one.count(tool, result)
    one.releases.update({"open": 2, "gone": 1})
    benchmark.show([one, other])
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    head = "change hunks by meaning gives open unclear present gone"
    assert lines == [
        f"{head} vpatch git apply git apply -3 patch",
        "fix 2 1 exact 2 0 0 1 2 0 (1 wrong)",
        "mend 1 1 layout",
        "all of own 3 2 1 of 2 exact 2 0 0 1 2 0 (1 wrong)",
    ]


def test_json_has_what_was_counted(benchmark, monkeypatch, capsys):
    row = benchmark.Row("own", "fix", 1, 1, "exact")
    row.kinds["rewrite"] += 1
    row.count("vpatch", "right")
    monkeypatch.setattr(benchmark, "survey", lambda *_: [row])
    monkeypatch.setattr(sys, "argv", ["import.py", "--json", "--offline", "--only", "own"])
    assert benchmark.main() == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["name"], found["kinds"]) == ("fix", {"rewrite": 1})
    assert found["tools"] == {"vpatch": {"right": 1}}
