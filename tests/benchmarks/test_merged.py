"""The group `merged` of benchmarks/import.py: what of two releases is the change, and the judge."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import pytest

from tests.helpers import tree_of
from vpatch.workspace.context import Context

FOLDER = Path(__file__).parents[2] / "benchmarks"
PATH = "vllm/m.py"
OLD = """\
import os


def k(x):
    return x


def f(x):
    return x


def g(x):
    y = x
    log(y)
    return y
"""
NEW = """\
import math
import os


def h(x):
    return x


def k(x):
    return x


def f(x):
    return math.floor(x)


def g(x):
    z = 2 * x
    y = x + z
    log(y)
    return math.floor(y)
"""


@pytest.fixture(scope="module")
def group():
    known = set(sys.modules)
    sys.path.insert(0, str(FOLDER))
    yield {
        name: importlib.import_module(f"imports.{name}")
        for name in ("backport", "merged", "merged_rows")
    }
    sys.path.remove(str(FOLDER))
    for name in set(sys.modules) - known:
        if name == "survival" or name.partition(".")[0] == "imports":
            del sys.modules[name]


@pytest.fixture
def moved(group):
    """A function that takes some parts of NEW for a change."""

    def move(parts, old=OLD, new=NEW, more=None):
        merged = group["merged"].Merged("fix", "1", "2", {PATH: parts, **(more or {})})
        trees = tree_of({PATH: old}), tree_of({PATH: new, **dict.fromkeys(more or {}, new)})
        return group["backport"].sides(merged, *trees)

    return move


def floored(text):
    return text.replace("def f(x):\n    return x", "def f(x):\n    return math.floor(x)")


def test_the_parts_of_a_change_are_moved_both_ways(moved):
    files = moved({"": ("math",), "f": ()})
    with_it = OLD.replace("import os", "import math\nimport os")
    assert files.right[PATH].decode() == floored(with_it)
    without = NEW.replace("import math\n", "").replace("math.floor(x)", "x")
    assert files.without[PATH].decode() == without


def test_words_tell_the_lines_of_a_change_from_others_of_a_definition(moved):
    files = moved({"g": ("floor",)})
    changed = OLD.replace("    return y", "    return math.floor(y)")
    assert files.right[PATH].decode() == changed


def test_a_file_may_be_the_change_as_a_whole_or_new(moved):
    files = moved({"*": ()}, more={"vllm/new.py": {"*": ()}})
    assert files.right == {PATH: NEW.encode(), "vllm/new.py": NEW.encode()}
    assert files.without == {PATH: OLD.encode()}


def test_a_part_that_does_not_differ_is_a_fault_of_the_table(moved):
    with pytest.raises(ValueError, match="nothing of it differs"):
        moved({"f": ("no such word",)})


def judged(group, moved, change, made=None):
    files = moved({"": ("math",), "f": (), "g": ("floor",)})
    text = change(files.right[PATH].decode()).encode()
    return group["backport"].compared(files, {PATH: text, **(made or {})})


def test_what_is_right_is_equal(group, moved):
    found = judged(group, moved, str)
    assert found.holds
    assert (found.touched, found.equal, found.as_upstream, found.same_bytes) == (3, 3, 2, 1)


def test_layout_and_the_order_of_imports_do_not_count(group, moved):
    found = judged(
        group, moved, lambda text: "import os\nimport math\n\n" + text.partition("os\n")[2]
    )
    assert found.holds
    assert found.same_bytes == 0


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("return math.floor(x)", "return x", [f"{PATH}: f"]),
        ("    y = x\n", "    y = x + 0\n", [f"{PATH}: g"]),
        ("import os\n", "import os\nimport re\n", [f"{PATH}: outside of definitions"]),
        ("def g(x)", "@cache\ndef g(x)", [f"{PATH}: g"]),
    ],
)
def test_any_other_code_is_not_equal(group, moved, old, new, why):
    found = judged(group, moved, lambda text: text.replace(old, new))
    assert found.why == why
    assert not found.holds


def test_a_file_of_nobody_is_not_equal(group, moved):
    found = judged(group, moved, str, {"vllm/other.py": b""})
    assert found.why == ["vllm/other.py changed"]


def test_decorators_and_second_definitions_of_a_name_count(group):
    units = group["backport"].units
    assert units(b"@a\nclass C: ...\n") != units(b"class C: ...\n")
    assert units(b"class C(B, key=1): ...\n") != units(b"class C(B): ...\n")
    twice = b"@overload\ndef f(x): ...\ndef f(x): return x\n"
    assert units(twice) != units(twice.replace(b"@overload\ndef f(x)", b"@overload\ndef f(y)"))


def test_the_goal_is_of_enough_changes(group):
    rows = group["merged_rows"]
    equality = group["backport"].Equality(touched=1)
    good = [rows.MergedRow(str(n), "1", "2", equality=equality) for n in range(12)]
    bad = [rows.MergedRow(str(n), "1", "2", failure="conflict") for n in range(3)]
    assert rows.met([*good, *bad])
    assert not rows.met(good)
    assert not rows.met([*good[1:], *bad, bad[0]])


def test_the_table_has_as_many_changes_as_promised(group):
    merged = group["merged"].MERGED
    assert len({change.name for change in merged}) == len(merged) >= 18
    assert all(change.old < change.new for change in merged)


def test_a_row_is_json_with_its_counts(group):
    row = group["merged_rows"].MergedRow("fix", "1", "2")
    row.kinds["insert"] += 2
    found = json.loads(json.dumps(row.as_json(), default=vars))
    assert (found["kinds"], found["equality"]["touched"]) == ({"insert": 2}, 0)


@pytest.mark.slow
@pytest.mark.full
def test_merged_changes_become_patches_for_the_release_before(group):
    names = ("#44744", "#52952", "0.27.1 quantised draft")
    changes = [c for c in group["merged"].MERGED if c.name.startswith(names)]
    with Context(offline=True) as context:
        rows = group["merged_rows"].merged_rows(context, changes)
        releases = context.releases()
    assert [row.name for row in rows if not row.equal] == []
    for row in rows:
        states = dict(zip(releases, row.states, strict=True))
        assert (states[row.old], states[row.new]) == ("N", "U")
