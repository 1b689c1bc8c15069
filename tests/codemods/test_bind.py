from __future__ import annotations

import pytest

from tests.helpers import edits_of, fails, run
from vpatch.codemods.bind import inside_tree
from vpatch.codemods.snippet import beside


@pytest.mark.parametrize("path", ["/etc/x", "../x", "a/../../x", "a/..", "a\\b", "..\\x"])
def test_path_that_leaves_the_tree(path):
    with fails("codemods.wrong-path", "leaves the tree"):
        inside_tree(path)


@pytest.mark.parametrize("path", ["x", "vllm/*.py", "a..b/c", ".github/x"])
def test_path_in_the_tree(path):
    assert inside_tree(path) == path


LEAVING = "../../x"


@pytest.mark.parametrize(
    "edit",
    [
        {"find": "f()", "rewrite": "g()", "files": LEAVING},
        {"find": "f()", "rewrite": "g()", "files": ["vllm/*", "/etc/x"]},
        {"text": {"find": "a", "replace": "b"}, "files": LEAVING},
        {"add-file": LEAVING, "from": "in.txt"},
        {"add-file": "/etc/x", "from": "in.txt"},
    ],
)
def test_edit_outside_the_tree(tmp_path, edit):
    (tmp_path / "in.txt").write_text("x")
    with fails("codemods.wrong-path", "leaves the tree"):
        edits_of(edit, tmp_path)


@pytest.mark.parametrize("path", ["../out.py", "{root}/out.py", "link.py"])
@pytest.mark.parametrize(
    "edit",
    [
        {"insert": {"from": "PATH"}, "after": "f()"},
        {"find": "def f(): ...", "replace-body": {"from": "PATH"}, "having": "x"},
        {"codemod": "PATH", "contains": "x"},
        {"diff": "PATH"},
        {"add-file": "x", "from": "PATH"},
    ],
)
def test_file_outside_the_patch(tmp_path, edit, path):
    folder = tmp_path / "fix"
    folder.mkdir()
    (tmp_path / "out.py").write_text("x = 1\n")
    (folder / "link.py").symlink_to(tmp_path / "out.py")
    path = path.format(root=tmp_path)
    filled = {
        key: {"from": path} if isinstance(value, dict) else path if value == "PATH" else value
        for key, value in edit.items()
    }
    with fails("codemods.no-such-file", "leaves the patch's folder"):
        edits_of(filled, folder)


def test_file_that_is_not_there(tmp_path):
    with fails("codemods.no-such-file", r"no file 'x\.py' beside"):
        beside(tmp_path, "x.py")
    with fails("codemods.no-such-file", r"no file '\.' beside"):
        beside(tmp_path, ".")


def test_snippet_without_the_name(tmp_path):
    (tmp_path / "new.py").write_text("def f(): pass\n")
    with fails("codemods.wrong-edit", r"new\.py does not define g"):
        edits_of({"insert": {"from": "new.py", "name": "g"}, "after": "f()"}, tmp_path)


@pytest.mark.parametrize(
    ("edit", "name"),
    [
        ({"find": "f($x)", "add-keyword": {"a": "1", "b": "2"}}, "add a, b to f($x)"),
        ({"find": "f( a,\n b )", "rewrite": "g()"}, "rewrite f( a, b )"),
        ({"insert": "z()", "at-end-of": "class C: ..."}, "insert end class C: ..."),
        ({"add-import": "import a", "beside": "f()"}, "import a"),
        ({"set-value": "1", "of": "C.X", "was": "2"}, "set C.X"),
        ({"find": "def f(): ...", "replace-body": "x", "having": "y"}, None),
        ({"text": {"find": "a" * 70, "replace": "b"}, "files": "x"}, f"text {'a' * 59}…"),
    ],
)
def test_name_of_an_edit(edit, name):
    (bound,) = edits_of(edit)
    assert bound.name == (name or "replace the body of def f(): ...")


def test_files_narrow_an_edit():
    edit = {"find": "f($x)", "rewrite": "g($x)", "files": "vllm/v1/*"}
    result = run(edit, {"vllm/v1/a/b.py": "f(1)\n", "vllm/c.py": "f(1)\n"})
    assert set(result.view.files) == {"vllm/v1/a/b.py"}


@pytest.mark.parametrize(
    "path",
    ["./vllm/x.py", "vllm//x.py", "vllm/x/", ".git/hooks/x", "a/.GIT/x", "vpatch.lock", "."],
)
def test_path_that_is_no_place_for_a_file(path):
    with fails("codemods.wrong-path", r"not a plain path|not a file of the source"):
        inside_tree(path)


@pytest.mark.parametrize(
    "edit",
    [
        {"insert": {"from": "x.py"}, "after": "f()"},
        {"find": "def f(): ...", "replace-body": {"from": "x.py"}, "having": "x"},
        {"codemod": "x.py", "contains": "x"},
        {"diff": "x.py"},
        {"add-file": "x", "from": "x.py"},
    ],
)
def test_a_file_of_a_patch_without_end(tmp_path, edit):
    with (tmp_path / "x.py").open("wb") as file:
        file.truncate(1 << 40)
    with fails("codemods.unreadable-file", "is larger than"):
        edits_of(edit, tmp_path)


def test_a_snippet_that_is_no_text(tmp_path):
    (tmp_path / "x.py").write_bytes(b"x = '\xff'\n")
    with fails("codemods.unreadable-file", "is not UTF-8"):
        edits_of({"insert": {"from": "x.py"}, "after": "f()"}, tmp_path)


def test_a_snippet_that_declares_an_encoding(tmp_path):
    (tmp_path / "x.py").write_text("# coding: rot13\nx = 1\n")
    (edit,) = edits_of({"insert": {"from": "x.py"}, "after": "f()"}, tmp_path)
    assert edit.name == "insert after f()"


def test_a_diff_with_a_line_number_of_thousands_of_digits(tmp_path):
    hunk = f"@@ -{'9' * 5000} +1 @@\n-a\n+b\n"
    (tmp_path / "x.diff").write_text(f"--- a/x\n+++ b/x\n{hunk}")
    with fails("codemods.wrong-diff", "not a unified diff"):
        edits_of({"diff": "x.diff"}, tmp_path)
