from __future__ import annotations

import pytest

from tests.helpers import edits_of, fails, run, tree_of
from vpatch.codemods.diff import parse_diff
from vpatch.codemods.text import AddFile, TextReplacement
from vpatch.errors import UsageError
from vpatch.planning.editing import run_edit
from vpatch.planning.view import View

DIFF = """\
--- a/cmake/x.cmake
+++ b/cmake/x.cmake
@@ -10,3 +10,3 @@ ignored
 one
-two
+2
 three
"""
RENAME = """\
diff --git a/x b/y
rename from x
rename to y
--- a/x
+++ b/y
@@ -1 +1 @@
-a
+b
"""


GIT = "diff --git a/x b/x\n"
FILE = "--- a/x\n+++ b/x\n"
HUNK = "@@ -1 +1 @@\n-a\n+b\n"


def text(find, replace):
    return TextReplacement(("*",), find, replace)


def lines_of(sites):
    return [(site.line, site.todo) for site in sites]


@pytest.mark.parametrize(
    ("find", "replace", "before", "after", "sites"),
    [
        (b"b", b"x", b"a\nb\nc", b"a\nx\nc", [(2, True)]),
        (b"b", b"x", b"b\nx\nb\n", b"x\nx\nx\n", [(1, True), (2, False), (3, True)]),
        (b"b", b"x", b"", b"", []),
        # The new text holds the old one.
        (b"b", b"b, c", b"b\nb, c\n", b"b, c\nb, c\n", [(1, True), (2, False)]),
        (b"b", b"a, b", b"a, b\nb\n", b"a, b\na, b\n", [(1, False), (2, True)]),
        # The old text holds the new one.
        (b"a -x", b"a", b"a -x\n", b"a\n", [(1, True)]),
        (b"a -x", b"a", b"a\n", b"a\n", [(1, False)]),
        (b"x a", b"a", b"x a\n", b"a\n", [(1, True)]),
        # They overlap where they meet.
        (b"<b", b"x<", b"x<b", b"xx<", [(1, True)]),
        # Not inside a longer word.
        (b"ARG=1", b"ARG=2", b"ARG=20\n", b"ARG=20\n", []),
        (b"ARG=1", b"ARG=2", b"ARG=10 ARG=1\n", b"ARG=10 ARG=2\n", [(1, True)]),
        (b"ARG=1", b"ARG=2", b"MY_ARG=1", b"MY_ARG=1", []),
        (b"ARG=1", b"ARG=2", b"ARG=1.5 -ARG=2", b"ARG=2.5 -ARG=2", [(1, True), (1, False)]),
        (b"=1,", b"=2,", b"a=1,b", b"a=2,b", [(1, True)]),
        # Line ends.
        (b"a\nb\n", b"c\n", b"a\r\nb\r\n", b"c\r\n", [(1, True)]),
        (b"a\nb", b"a\n\nb", b"a\r\nb", b"a\r\n\r\nb", [(1, True)]),
        (b"b", b"c\nd", b"a\r\nb\n", b"a\r\nc\nd\n", [(2, True)]),
        (b"a\r\n", b"b\r\n", b"a\r\n", b"b\r\n", [(1, True)]),
        (b"\xc3\xa9", b"e", b"\xff\xc3\xa9\x00", b"\xffe\x00", [(1, True)]),
    ],
)
def test_text_edit(find, replace, before, after, sites):
    made, found = text(find, replace).apply(before)
    assert (made, lines_of(found)) == (after, sites)
    again, found = text(find, replace).apply(made)
    assert again == made
    assert not any(site.todo for site in found)


def test_text_is_counted_over_the_files_of_the_glob():
    edit = {"text": {"find": "a", "replace": "b"}, "files": ["*.cmake", "docker/*"]}
    files = {"x/y.cmake": "a", "docker/z": "c", "a.py": "a"}
    result = run(edit, files)
    assert (result.mismatch, result.view.files) == (None, {"x/y.cmake": b"b"})
    assert run(edit, {**files, "docker/z": "a"}).mismatch == "expected 1, found 2"
    assert run(edit, {"x.cmake": "c"}).mismatch == "expected 1, found 0"
    assert run(edit, {"a.py": "a"}).mismatch == "no file of the tree matches *.cmake, docker/*"


def diff_edits(tmp_path, diff):
    (tmp_path / "x.diff").write_bytes(diff if isinstance(diff, bytes) else diff.encode())
    return edits_of({"diff": "x.diff"}, tmp_path)


def applied(tmp_path, diff, files, *, carried=False):
    """What a diff makes of some files, or why its hunks do not fit."""
    view = View(tree_of(files))
    for edit in diff_edits(tmp_path, diff):
        result = run_edit(edit, view, carried=carried)
        if result.mismatch:
            return result.mismatch
        view = result.view
    return {path: view.read(path) for path in {*files, *view.files}}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        # Found by its context, wherever that is.
        (b"zero\none\ntwo\nthree\n", b"zero\none\n2\nthree\n"),
        (b"one\r\ntwo\r\nthree\r\n", b"one\r\n2\r\nthree\r\n"),
        (b"one\n2\nthree\n", b"one\n2\nthree\n"),
    ],
)
def test_diff(tmp_path, before, after):
    path = "cmake/x.cmake"
    assert applied(tmp_path, DIFF, {path: before}) == {path: after}
    assert applied(tmp_path, DIFF, {path: after}) == {path: after}


@pytest.mark.parametrize(
    ("before", "message"),
    [
        (b"one\ntwo\nthree\n" * 2, "expected 1, found 2"),
        (b"one\ntwo\nTHREE\n", "expected 1, found 0"),
        (b"one\n two\nthree\n", "expected 1, found 0"),
        # No fuzz: a context line is a whole line.
        (b"twenty-one\ntwo\nthree\n", "expected 1, found 0"),
        (b"one\ntwo\nthree", "expected 1, found 0"),
    ],
)
def test_diff_that_does_not_fit(tmp_path, before, message):
    assert applied(tmp_path, DIFF, {"cmake/x.cmake": before}) == message


def test_diff_of_a_missing_file(tmp_path):
    assert applied(tmp_path, DIFF, {"a": b"one\ntwo\nthree\n"}).startswith("no file of")


def test_diff_that_only_takes_away(tmp_path):
    diff = "--- a/x\n+++ b/x\n@@ -1,2 +1 @@\n one\n-two\n"
    assert applied(tmp_path, diff, {"x": b"one\ntwo\n"}) == {"x": b"one\n"}
    assert applied(tmp_path, diff, {"x": b"one\n"}) == {"x": b"one\n"}


def test_diff_of_a_last_line_without_newline(tmp_path):
    mark = "\\ No newline at end of file\n"
    diff = f"--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n one\n-two\n{mark}+2\n{mark}"
    assert applied(tmp_path, diff, {"x": b"one\ntwo"}) == {"x": b"one\n2"}
    diff = f"--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n one\n-two\n{mark}+two\n"
    assert applied(tmp_path, diff, {"x": b"one\ntwo"}) == {"x": b"one\ntwo\n"}


def test_diff_of_a_last_line_is_of_the_last_line(tmp_path):
    mark = "\\ No newline at end of file\n"
    diff = f"--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n one\n-two\n{mark}+2\n{mark}"
    for data in (b"one\ntwo\n", b"one\ntwo three", b"one\n2 x\n"):
        assert applied(tmp_path, diff, {"x": data}) == "expected 1, found 0"


@pytest.mark.parametrize("blank", ["", " ", "\r"])
def test_diff_with_an_empty_line_of_context(tmp_path, blank):
    diff = f"--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n-a\n+b\n{blank}\n c"
    end = "\r\n" if blank == "\r" else "\n"
    before = f"a\n{end}c\n".encode()
    assert applied(tmp_path, diff, {"x": before}) == {"x": b"b" + before[1:]}


def test_diff_with_a_carriage_return_or_form_feed_inside_a_line(tmp_path):
    diff = "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n a\rb\x0cc\u2028d\n-e\n+f\n"
    before = "a\rb\x0cc\u2028d\ne\n".encode()
    assert applied(tmp_path, diff, {"x": before}) == {"x": before[:-2] + b"f\n"}


def test_diff_as_git_writes_it(tmp_path):
    diff = (
        f"{GIT}index 12ab..34cd 100644\n--- a/x\n+++ b/x\n@@ -1 +1 @@ def f\n-a\n+b\n"
        "diff --git a/y b/y\nnew file mode 100644\nindex 0000000..34cd\n"
        "--- /dev/null\n+++ b/y\n@@ -0,0 +1 @@\n+c\n"
    )
    assert applied(tmp_path, diff, {"x": b"a\n"}) == {"x": b"b\n", "y": b"c\n"}


def test_diff_with_crlf(tmp_path):
    diff = DIFF.replace("one\n", "one\r\n").replace("two\n", "two\r\n").replace("2\n", "2\r\n")
    diff = diff.replace(" three\n", " three\r\n")
    path = "cmake/x.cmake"
    made = applied(tmp_path, diff, {path: b"one\r\ntwo\r\nthree\r\n"})
    assert made == {path: b"one\r\n2\r\nthree\r\n"}


def test_diff_of_several_hunks_and_a_new_file(tmp_path):
    diff = (
        "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+A\n@@ -9 +9 @@\n-b\n+B\n"
        "--- /dev/null\n+++ b/new/y.txt\n@@ -0,0 +1,2 @@\n+one\n+two\n"
    )
    made = applied(tmp_path, diff, {"x": b"a\nb\n"})
    assert made == {"x": b"A\nB\n", "new/y.txt": b"one\ntwo\n"}
    # Without a line of context, nothing shows that the new lines replaced the old.
    assert "nothing shows that it replaced the old" in applied(tmp_path, diff, made)
    other = {"x": b"a\nb\n", "new/y.txt": b"else"}
    assert applied(tmp_path, diff, other) == "new/y.txt: another file is already there"


@pytest.mark.parametrize(
    ("diff", "message"),
    [
        ("", "has no hunk"),
        ("hello\n", "line 1 is 'hello'"),
        (f"{FILE}{HUNK}@@ -9 +9 @\n-c\n+d\n", "line 6 is '@@ -9"),
        (f"{FILE}{HUNK}@@ 9 @@\n-c\n+d\n", "line 6 is '@@ 9 @@'"),
        (f"{FILE}{HUNK}-c\n+d\n", "line 6 is '-c'"),
        (f"{FILE}{HUNK}-- a/y\n+++ b/y\n{HUNK}", "line 6 is '-- a/y'"),
        (f"{FILE}{HUNK}--- a/y\n++ b/y\n{HUNK}", r"line 7 is '\+\+ b/y'"),
        (f"{FILE}{HUNK}\n", "line 6 is ''"),
        (f"{FILE}@@ -1,2 +1,2 @@\n-a\n+b\n?c\n", r"line 6 is '\?c'"),
        (f"{GIT}new file mode 100644\nindex 0..e\n", "ends before a hunk"),
        (f"{GIT}new file mode 100644\nindex 0..e\n{GIT}{FILE}{HUNK}", "line 4 is 'diff"),
        (f"{GIT}new file mode 100644\n{FILE}{HUNK}", r"line 4 is '\+\+\+ b/x'"),
        (f"{GIT}index 0..e 120000\n{FILE}{HUNK}", "line 2 is 'index"),
        (f"{GIT}--- a/y\n+++ b/x\n{HUNK}", r"line 3 is '\+\+\+ b/x'"),
        (f"{GIT}Binary files a/x and b/x differ\n", "line 2 is 'Binary"),
        (f"{GIT}{FILE}{HUNK}{GIT}GIT binary patch\n", "line 8 is 'GIT binary"),
        (f"{FILE}{HUNK}--- a/y\n+++ b/y\n", "ends before a hunk"),
        ("--- a/x\r\n+++ b/x\r\n@@ -1 +1 @@\r\n-a\r\n+b\r\n", "line 1 is"),
        # Nothing to find the place by.
        (f"{FILE}@@ -3,0 +4 @@\n+b\n", "only adds lines, and has no context"),
        (f"{FILE}@@ -0,0 +1 @@\n+b\n", "only adds lines, and has no context"),
        (f"{FILE}{HUNK}@@ -3 +3,0 @@\n-c\n", "only removes lines, and has no context"),
        (
            "--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+b\n@@ -0,0 +2 @@\n+c\n",
            "no context to find its place by",
        ),
        (b"\xff", "not a unified diff"),
        ("--- a/x\n+++ b/x\n@@ -1,2 +1 @@\n a\n", "not a unified diff"),
        ("--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n", "deletes or renames"),
        (RENAME, "line 2 is 'rename from x'"),
        ("--- a/x\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n", "deletes or renames"),
        ("--- a/../../x\n+++ b/../../x\n@@ -1 +1 @@\n-a\n+b\n", "leaves the tree"),
        ("--- /dev/null\n+++ /etc/x\n@@ -0,0 +1 @@\n+b\n", "leaves the tree"),
    ],
)
def test_diff_that_is_refused(tmp_path, diff, message):
    with pytest.raises(UsageError, match=message):
        diff_edits(tmp_path, diff)


def test_parse_diff_says_where(tmp_path):
    (tmp_path / "x.diff").write_text("")
    with pytest.raises(UsageError) as caught:
        parse_diff(tmp_path / "x.diff")
    assert caught.value.where == str(tmp_path / "x.diff")


def test_text_that_is_everywhere():
    with fails("codemods.wrong-edit", "no text to find"):
        text(b"", b"x")


def test_add_file(tmp_path):
    (tmp_path / "new.cu").write_bytes(b"\xff\r\n")
    edit = {"add-file": "csrc/new.cu", "from": "new.cu"}
    result = run(edit, {"a.py": ""}, tmp_path)
    assert (result.mismatch, result.todo) == (None, True)
    assert result.view.files == {"csrc/new.cu": b"\xff\r\n"}
    result = run(edit, {"csrc/new.cu": b"\xff\r\n"}, tmp_path)
    assert (result.mismatch, result.todo, result.view.files) == (None, False, {})
    result = run(edit, {"csrc/new.cu": b"else"}, tmp_path)
    assert result.mismatch == "csrc/new.cu: another file is already there"


def test_add_empty_file():
    assert AddFile("x", b"").apply(None)[0] == b""
    assert lines_of(AddFile("x", b"").apply(b"")[1]) == [(1, False)]
