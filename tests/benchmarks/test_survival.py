"""The judge of benchmarks/survival.py, on edits of which it is known what becomes of them."""

from __future__ import annotations

import importlib.util
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.helpers import patch_of, tree_of, write_patch
from vpatch.library.catalog import Library

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "survival.py"
PATH = "vllm/m.py"
BLOCK = """\
def scale(x, factor):
    # Once for all.
    y = x * factor
    return y
"""
BEFORE = f"A = 1\nB = 2\n\n\n{BLOCK}\n\nC = 3\n"
NEW = "    y = x * factor + 1\n"
AFTER = BEFORE.replace("    y = x * factor\n", NEW)


@pytest.fixture(scope="module")
def survival():
    spec = importlib.util.spec_from_file_location("survival", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@pytest.fixture
def tried(survival):
    def try_on(target, wanted, before=BEFORE, after=AFTER):
        origin = survival.Edit(files(before), files(after))
        trial = survival.Trial("fix", "0.23.0", "0.24.0", "vpatch", "right")
        trials = survival.try_tools(trial, origin, files(target), files(wanted))
        return {t.tool: (t.result, t.note, t.files) for t in trials}

    return try_on


def files(text):
    return {} if text is None else {PATH: text.encode()}


def test_the_same_file_takes_the_diff(tried):
    right = ("right", "", ())
    assert tried(BEFORE, AFTER) == {"git apply": right, "git apply -3": right, "patch": right}


def test_lines_that_have_moved_are_an_offset(tried):
    more = "import os\n" * 9
    made = tried(more + BEFORE, more + AFTER)
    assert made["git apply"] == made["git apply -3"] == ("right", "", ())
    assert made["patch"] == ("right", "offset", ())


def test_a_changed_neighbour_takes_fuzz_or_a_merge(tried):
    # The first line of the context: git wants all of it, patch may ignore it, a merge has it.
    target, wanted = (
        text.replace("def scale(x, factor)", "def scale(x, f)") for text in (BEFORE, AFTER)
    )
    made = tried(target, wanted)
    assert made["git apply"] == ("failed", "", ())
    assert made["git apply -3"] == ("right", "", ())
    assert made["patch"] == ("right", "fuzz", ())


def test_a_conflict_is_a_failure(tried):
    target = BEFORE.replace("x * factor", "factor * x")
    assert {result for result, *_ in tried(target, AFTER).values()} == {"failed"}


def test_code_that_looks_alike_is_taken_and_is_wrong(tried):
    """What it was written for has got another body, and something else has the old one."""
    moved = BLOCK.replace("x * factor", "(x * factor).clip(0)")
    target = BEFORE.replace(BLOCK, moved) + "\n\n" + BLOCK + "\n\nD = 4\n"
    wanted = target.replace("clip(0)", "clip(0) + 1")
    made = tried(target, wanted)
    assert {result for result, *_ in made.values()} <= {"wrong", "failed"}
    assert made["git apply"][0] == made["patch"][0] == "wrong"
    assert made["patch"][2] == (PATH,)


def test_a_file_that_is_not_there_is_a_failure(tried):
    assert {result for result, *_ in tried(None, None).values()} == {"failed"}


def test_a_new_file_is_made(tried):
    assert {result for result, *_ in tried(None, AFTER, before=None).values()} == {"right"}


@pytest.fixture
def patch(tmp_path):
    edit = {"find": "f($x)", "rewrite": "g($x)"}
    effect = {"find": "g($x)"}
    return patch_of(tmp_path, edits=[edit], concerns={"text": "x = "}, effect=effect)


def test_vpatch_is_checked_by_a_second_plan(survival, patch):
    edit = survival.edit_of([patch], tree_of({PATH: "x = f(1)\n"}))
    assert (edit.before, edit.after) == ({PATH: b"x = f(1)\n"}, {PATH: b"x = g(1)\n"})
    assert edit.fault == ""


@pytest.mark.parametrize(
    ("made", "fault"),
    [
        ("x = f(1)\n", "a second plan says fix is conflict"),
        ("x = h(1)\n", "a second plan says fix is conflict"),
        ("x = g(1\n", "vllm/m.py does not compile"),
    ],
)
def test_what_vpatch_makes_wrong_is_a_fault(survival, patch, made, fault):
    tree = survival.Patched(tree_of({PATH: "x = f(1)\n"}), files(made), frozenset(["fix"]))
    assert survival.fault_of([patch], tree, None).startswith(fault)


@pytest.mark.parametrize(
    ("text", "fault"), [("x = g(1)\n", None), ("y = 1\n", None), ("x = 1\n", "conflict: ")]
)
def test_only_what_needs_the_patch_is_tried(survival, patch, text, fault):
    edit = survival.edit_of([patch], tree_of({PATH: text}))
    assert (edit is None) if fault is None else edit.fault.startswith(fault)


class Session:
    """Releases in memory, and a library of two patches, one of them for a plugin alone."""

    def __init__(self, root, texts):
        self.texts = texts
        edit = {"find": "f($x)", "rewrite": "g($x)"}
        keys = {"edits": [edit], "concerns": {"text": "x = "}, "effect": {"find": "g($x)"}}
        fix = write_patch(root, "fix", **keys)
        other = write_patch(root, "other", needed_in={"vllm-ascend": ">=0.20"}, **keys)
        self.library = Library({"fix": fix, "other": other}, {}, {}, frozenset(), ())

    def releases(self):
        return list(self.texts)

    @contextmanager
    def tree(self, spec):
        yield tree_of({PATH: self.texts[spec.version]}, version=spec.version)


@pytest.mark.parametrize(
    ("at_023", "origin", "tried"),
    [
        ("x = f(1)\n", "0.23.0", ["0.22.1", "0.20.0", "0.24.0"]),
        ("y = 1\n", "0.22.1", ["0.20.0", "0.24.0"]),
    ],
)
def test_the_diff_is_of_one_release_and_tried_on_the_others(
    survival, tmp_path, at_023, origin, tried
):
    texts = dict.fromkeys(["0.20.0", "0.22.1", "0.23.0", "0.24.0", "0.25.0"], "x = f(1)\n")
    texts |= {"0.23.0": at_023, "0.25.0": "x = g(1)\n"}
    trials = list(survival.survey(Session(tmp_path, texts), ["fix", "other"]))
    assert {(trial.patch, trial.origin, trial.result) for trial in trials} == {
        ("fix", origin, "right")
    }
    assert list(dict.fromkeys(trial.release for trial in trials)) == tried
    assert len(trials) == len(tried) * 4


def test_the_table_counts_what_is_right_and_names_what_is_wrong(survival, capsys):
    def trial(tool, release, result, note="", *paths):
        return survival.Trial("fix", "0.23.0", release, tool, result, note, paths)

    survival.show(
        [
            trial("vpatch", "0.22.0", "right"),
            trial("git apply", "0.22.0", "failed"),
            trial("git apply -3", "0.22.0", "right"),
            trial("patch", "0.22.0", "wrong", "fuzz", PATH),
            trial("vpatch", "0.24.0", "failed", "conflict: elsewhere"),
            trial("git apply", "0.24.0", "right"),
            trial("git apply -3", "0.24.0", "right"),
            trial("patch", "0.24.0", "right", "offset"),
        ],
        ["other is left out: why"],
    )
    assert capsys.readouterr().out.splitlines() == [
        "patch  diff of  others  git apply  git apply -3  patch        vpatch",
        "fix    0.23.0   2       1          2             1 (1 wrong)  1",
        "all             2       1          2             1 (1 wrong)  1",
        "patch with offset: 1 right, 0 wrong",
        "patch with fuzz: 0 right, 1 wrong",
        "fix in 0.24.0: vpatch fails: conflict: elsewhere",
        "fix: patch ends well, but not as vpatch: vllm/m.py (in 0.22.0)",
        "other is left out: why",
    ]
