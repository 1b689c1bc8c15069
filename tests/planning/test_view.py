from __future__ import annotations

from dataclasses import replace

import libcst as cst
import pytest

from tests.helpers import fails, tree_of
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
    module = cst.parse_module("x = 2\n")
    after = view.over({"a.py": module}, {"new.txt": b"new"})
    assert (view.read("a.py"), view.read("new.txt")) == (b"x = 1\n", None)
    assert (after.read("a.py"), after.read("new.txt")) == (b"x = 2\n", b"new")
    assert after.module("a.py") is module
    assert after.reparse().module("a.py") is not module
    assert after.reparse().module("a.py").deep_equals(module)


def test_text_laid_over_a_module_is_what_is_parsed():
    view = View(tree_of({"a.py": "x = 1\n"})).over({"a.py": cst.parse_module("x = 2\n")}, {})
    assert view.over({}, {"a.py": b"x = 3\n"}).module("a.py").code == "x = 3\n"


@pytest.mark.parametrize("before", ["x = 1\n", "\x0cx = 1\n"])
def test_text_laid_over_that_libcst_cannot_write(before):
    view = View(tree_of({"a.py": before}))
    if before == "x = 1\n":
        view = view.over({"a.py": cst.parse_module("x = 2\n")}, {})
    after = view.over({}, {"a.py": b"\x0cx = 3\n"})
    for each in (after, after.reparse()):
        module = each.module("a.py")
        with fails("planning.unparsable-file", "a form feed"):
            each.over({"a.py": module}, {})


@pytest.mark.parametrize("text", [b"\x0cx = 1\n", b"x = 1\n\n    # a\n"])
def test_a_file_that_libcst_cannot_write_may_be_read_but_not_edited(text):
    view = View(tree_of({"a.py": text}))
    module = view.module("a.py")
    with fails("planning.unparsable-file", "cannot write it back byte for byte") as caught:
        view.over({"a.py": module}, {})
    assert caught.value.where == "a.py"
    assert view.over({}, {"a.py": b"x = 2\n"}).read("a.py") == b"x = 2\n"


def test_an_edited_module_is_looked_into_before_it_is_written(monkeypatch):
    view = View(tree_of({"a.py": "f()\n", "b.py": "g()\n"}))
    after = view.over({"a.py": cst.parse_module("h()\n")}, {})
    monkeypatch.setattr(View, "_written", None)
    assert after.holding([frozenset([b"nothing"])], None) == ["a.py"]


def test_files_added_to_the_package_are_of_it():
    view = View(tree_of({"vllm/a.py": "x = 1\n"}))
    after = view.over({}, {"vllm/b.py": b"f()\n", "tools/c.py": b"f()\n", "vllm/d.txt": b"f()"})
    assert after.matching(None) == ["vllm/a.py", "vllm/b.py"]
    assert after.reparse().matching(None) == after.matching(None)


def test_new_code_that_the_encoding_cannot_write():
    source = b"# coding: latin-1\nx = '\xe9'\n"
    view = View(tree_of({"a.py": source}))
    module = view.module("a.py").with_changes(body=cst.parse_module("y = '\u2192'\n").body)
    with fails("planning.unparsable-file", r"encoding \(.*\) cannot write '\u2192'"):
        view.over({"a.py": module}, {}).read("a.py")


def test_lines_of():
    module = cst.parse_module("# a\n\nx = 1\ny = 2\n")
    lines = lines_of(module)
    assert [lines[statement] for statement in module.body] == [3, 4]


@pytest.mark.parametrize("path", ["vllm/link/new.py", "vllm/link", "vllm/link/a/b"])
def test_a_symbolic_link_is_in_the_way(path):
    tree = replace(tree_of({"vllm/a.py": "x = 1\n"}), links=frozenset({"vllm/link"}))
    assert View(tree).obstacle(path) == "vllm/link is a symbolic link"
    assert View(tree).obstacle("vllm/linked.py") is None
