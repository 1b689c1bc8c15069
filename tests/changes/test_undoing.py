"""A release that has a change already: the change is taken out of it, to make a patch."""

from __future__ import annotations

import pytest

from tests.helpers import fails, tree_of
from vpatch.changes.change import DiffedChange, Message
from vpatch.changes.difftext import read_diffs
from vpatch.changes.undo import fitted
from vpatch.errors import ManyErrors

OLD = "a\nb\nc\nd\ne\nf\ng\n"
NEW = OLD.replace("d", "D")
NEWER = NEW.replace("D", "E")
HUNK = "@@ -2,5 +2,5 @@\n b\n c\n-d\n+D\n e\n f\n"
ADDED = "--- /dev/null\n+++ b/vllm/new.py\n@@ -0,0 +1,2 @@\n+word = 1\n+b\n"


def diff(hunk=HUNK, path="vllm/a.py"):
    return f"--- a/{path}\n+++ b/{path}\n{hunk}"


def diffed(*texts):
    return [
        DiffedChange(tuple(f for one in read_diffs(text.encode(), "x") for f in one.files), *rest)
        for number, text in enumerate(texts)
        for rest in [(Message(), f"{number}.diff", str(number))]
    ]


def release(text=NEW, **more):
    return tree_of({"vllm/__init__.py": "", "vllm/a.py": text, **more})


def test_a_release_without_the_change_gets_it():
    found = fitted(diffed(diff()), release(OLD))
    assert not found.upstreamed
    assert found.changes[0].files[0].after == NEW.encode()
    assert found.changes[0].notes == ()


def test_a_release_with_the_change_loses_it():
    found = fitted(diffed(diff()), release())
    assert found.upstreamed
    assert found.base.read("vllm/a.py") == OLD.encode()
    (file,) = found.changes[0].files
    assert (file.before, file.after) == (OLD.encode(), NEW.encode())


def test_changes_are_taken_out_the_last_one_first():
    second = diff(HUNK.replace("-d\n+D", "-D\n+E"))
    found = fitted(diffed(diff(), second), release(NEWER))
    assert found.upstreamed
    assert found.base.read("vllm/a.py") == OLD.encode()
    afters = [change.files[0].after for change in found.changes]
    assert afters == [NEW.encode(), NEWER.encode()]


def test_a_file_that_the_change_added_is_not_in_the_base():
    files = {"vllm/new.py": "word = 1\nb\n"}
    found = fitted(diffed(diff() + ADDED), release(**files))
    base = found.base
    assert "vllm/new.py" not in base.paths()
    assert "vllm/new.py" not in base.package_files
    assert base.holding(b"word") == base.containing(b"word = 1") == frozenset()
    assert [file.before for file in found.changes[0].files] == [OLD.encode(), None]


def test_tests_are_left_aside_and_stay():
    test = "--- a/tests/t.py\n+++ b/tests/t.py\n@@ -1 +1 @@\n-a\n+b\n"
    found = fitted(diffed(diff() + test), release(**{"tests/t.py": "other\n"}))
    assert found.upstreamed
    assert [left.path for left in found.changes[0].aside] == ["tests/t.py"]


def test_a_change_that_fits_neither_way_is_an_error():
    with fails("importing.does-not-apply", "the hunk at line 2"):
        fitted(diffed(diff()), release(NEWER))


@pytest.mark.parametrize(
    ("hunk", "text", "differs"),
    [
        (HUNK, OLD.replace("d", "D2"), "vllm/a.py:4\n    expected  d\n    found     D2"),
        (HUNK, "x\n" + OLD.replace("f\n", ""), "vllm/a.py:7\n    expected  f\n    found     g"),
        (HUNK, "w\nx\ny\nz\n", "none of its lines is there"),
    ],
)
def test_a_hunk_that_does_not_fit_names_the_line_that_differs(hunk, text, differs):
    with fails("importing.does-not-apply", f"the hunk at line 2\n  {differs}"):
        fitted(diffed(diff(hunk)), release(text))


def test_of_two_hunks_the_one_that_does_not_fit_is_told():
    with fails("importing.does-not-apply", "vllm/a.py:4\n    expected  d\n    found     D"):
        fitted(diffed(diff("@@ -1 +1 @@\n-a\n+x\n" + HUNK.replace("b", "b"))), release(NEW))


def test_half_of_a_change_is_an_error():
    half = diff("@@ -1 +1 @@\n-x\n+y\n", "vllm/b.py")
    with fails("importing.does-not-apply", "vllm/a.py"):
        fitted(diffed(diff() + half), release(**{"vllm/b.py": "x\n"}))


def test_a_release_that_is_to_have_the_change_has_it():
    assert fitted(diffed(diff()), release(), upstreamed=True).upstreamed
    with fails("importing.not-upstreamed", "vllm/a.py, the hunk at line 2"):
        fitted(diffed(diff()), release(OLD), upstreamed=True)
    with fails("importing.not-upstreamed", "vllm/new.py"):
        fitted(diffed(ADDED), release(), upstreamed=True)


def test_all_places_that_do_not_have_the_change_are_told():
    other = diff(path="vllm/b.py")
    with pytest.raises(ManyErrors) as caught:
        fitted(diffed(diff(), other), release(OLD, **{"vllm/b.py": OLD}), upstreamed=True)
    assert len(caught.value.errors) == 2


def test_a_diff_that_fits_both_ways_has_a_note():
    both = diff("@@ -1,0 +2 @@\n+b\n")
    found = fitted(diffed(both), release(OLD))
    assert not found.upstreamed
    assert "import it again with --upstreamed" in found.changes[0].notes[-1]


def test_lines_that_go_away_show_nothing():
    """Without context, lines can always be put back."""
    gone = diff("@@ -4 +3,0 @@\n-d\n")
    found = fitted(diffed(gone), release(OLD))
    assert not any("--upstreamed" in note for note in found.changes[0].notes)


def test_of_several_places_with_the_change_the_line_number_decides():
    twice = OLD + NEW
    found = fitted(diffed(diff("@@ -11 +11 @@\n-d\n+D\n")), release(twice.replace("d", "D")))
    assert found.base.read("vllm/a.py") == (NEW + OLD).encode()
    assert "its lines are there 2 times" in found.changes[0].notes[-1]
