from __future__ import annotations

from dataclasses import replace

import libcst as cst
import pytest

from tests.helpers import MODULE, edits_of, fails, run, tree_of
from vpatch.planning.editing import run_edit
from vpatch.planning.view import View, lines_of, parse


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"x = 1",
        b"\xef\xbb\xbfx = 1\r\n",
        b"# -*- coding: latin-1 -*-\nx = '\xe9'\n",
        b"x = 1\r\ny = 2\nif x:\n\ty = 3\n  \n",
        b"x = 1\\\n  + 2\n",
        b"\n\n# a\n",
    ],
)
def test_parse_keeps_every_byte(text):
    assert parse("a.py", text).bytes == text


@pytest.mark.parametrize(
    ("text", "where", "message"),
    [
        (b"x = (\n", "a.py:1", "not Python"),
        (b"y = 1\nx = = 1\n", "a.py:2", "not Python"),
        (b"x = '\xe9'\n", "a.py", "not Python"),
        (b"# coding: nonsense\n", "a.py", "not Python"),
        (b"# coding: rot13\n", "a.py", "not Python"),
        (b"# coding: undefined\n", "a.py", "not Python"),
        (b"x = 1\x00\n", "a.py:1", "not Python"),
    ],
)
def test_parse_refuses(text, where, message):
    with fails("planning.unparsable-file", message) as caught:
        parse("a.py", text)
    assert caught.value.where == where


def test_holding_looks_for_whole_words():
    view = View(
        tree_of({"a.py": "foo bar", "b.py": "foobar", "c.py": "bar.foo(", "d.txt": "foo bar"})
    )
    assert view.holding([frozenset([b"foo", b"bar"])], None) == ["a.py", "c.py"]
    assert view.holding([frozenset([b"foobar"]), frozenset([b"nothing"])], None) == ["b.py"]
    assert view.holding([frozenset([b"foo"])], ["d.*", "a.*"]) == ["a.py", "d.txt"]
    assert view.containing(b"ooba", None) == ["b.py"]


def test_only_files_that_can_match_are_parsed():
    view = View(tree_of({"a.py": "x = (", "b.py": "f(1)\n"}))
    assert view.holding([frozenset([b"f"])], None) == ["b.py"]
    assert view._shared.parsed == {}


def test_over_is_another_view():
    view = View(tree_of({"a.py": "x = 1\n"}))
    after = view.over({"a.py": b"x = 2\n", "new.txt": b"new"})
    assert (view.read("a.py"), view.read("new.txt")) == (b"x = 1\n", None)
    assert (after.read("a.py"), after.read("new.txt")) == (b"x = 2\n", b"new")
    assert (view.module("a.py").code, after.module("a.py").code) == ("x = 1\n", "x = 2\n")
    assert after.pristine("a.py") == b"x = 1\n"


def test_the_same_content_is_parsed_once():
    view = View(tree_of({"a.py": "x = 1\n", "b.py": "x = 1\n"}))
    assert view.module("a.py") is view.module("b.py")
    assert view.over({"c.py": b"x = 1\n"}).module("c.py") is view.module("a.py")


def test_edits_of_one_function_parse_it_once(monkeypatch):
    parse_module, texts = cst.parse_module, []
    monkeypatch.setattr(cst, "parse_module", lambda text: texts.append(text) or parse_module(text))
    function = "def f():\n    a(1)\n    b(2)\n"
    # What is left for the edits is the same of both files.
    files = {"a.py": f"{function}def g(): x\n", "b.py": f"{function}def g(): y\n"}
    view = View(tree_of(files))
    for name in ("a", "b"):
        declared = {"find": f"{name}($x)", "rewrite": f"c{name}($x)", "within": "f"}
        (edit,) = edits_of({**declared, "expect": {"count": 2}})
        assert run_edit(edit, view).mismatch is None
    assert texts.count(f"{function}__vpatch_left_out_0__\n".encode()) == 1
    assert sum(b"def f" in text for text in texts if isinstance(text, bytes)) == 1


def test_the_same_part_of_two_files_is_read_by_the_imports_of_each():
    function = "def f():\n    t(1)\n"
    files = {
        "a.py": f"from lib import target as t\n{function}",
        "b.py": f"import target\n{function}",
    }
    result = run({"find": "target($x)", "rewrite": "new($x)", "within": "f"}, files)
    assert [site.path for site in result.sites] == ["a.py"]


@pytest.mark.parametrize("text", [b"\x0cf(1)\n", b"f(1)\n\n    # a\n"])
def test_a_file_that_libcst_cannot_write_may_be_read_but_not_edited(text):
    rewrite = {"find": "f($x)", "rewrite": "f($x, a)"}
    with fails("planning.unparsable-file", "cannot write it back byte for byte") as caught:
        run(rewrite, text)
    assert caught.value.where == MODULE
    done = run(rewrite, text.replace(b"f(1)", b"f(1, a)"))
    assert (done.mismatch, done.view.files) == (None, {})


def test_files_added_to_the_package_are_of_it():
    view = View(tree_of({"vllm/a.py": "x = 1\n"}))
    after = view.over({"vllm/b.py": b"f()\n", "tools/c.py": b"f()\n", "vllm/d.txt": b"f()"})
    assert after.matching(None) == ["vllm/a.py", "vllm/b.py"]


def test_new_code_that_the_encoding_cannot_write():
    source = b"# coding: latin-1\nf('\xe9')\n"
    with fails("planning.unparsable-file", r"encoding \(.*\) cannot write '\u2192'"):
        run({"find": "f($x)", "rewrite": "f($x, '\u2192')"}, source)


def test_lines_of():
    module = cst.parse_module("# a\n\nx = 1\ny = 2\n")
    lines = lines_of(module)
    assert [lines[statement] for statement in module.body] == [3, 4]


@pytest.mark.parametrize("path", ["vllm/link/new.py", "vllm/link", "vllm/link/a/b"])
def test_a_symbolic_link_is_in_the_way(path):
    tree = replace(tree_of({"vllm/a.py": "x = 1\n"}), links=frozenset({"vllm/link"}))
    assert View(tree).obstacle(path) == "vllm/link is a symbolic link"
    assert View(tree).obstacle("vllm/linked.py") is None
