"""Code that is nested so deeply that libcst's parser would end the process."""

from __future__ import annotations

import ast
import subprocess
import sys
import textwrap

import pytest

from tests.helpers import decide, fails, patch_of, run, tree_of
from vpatch.codemods import nesting
from vpatch.codemods.nesting import DEEPEST, NestedTooDeeplyError, measured
from vpatch.codemods.pattern import parse_pattern
from vpatch.planning.state import State
from vpatch.planning.view import UnparsableFile, parse

# Each is one level deep for each of its repeats, for Python, for libcst, or for both.
CHAINS = {
    "brackets": lambda n: "(" * n + "1" + ")" * n,
    "lists": lambda n: "[" * n + "]" * n,
    "calls": lambda n: "f(" * n + ")" * n,
    "called": lambda n: "f" + "()" * n,
    "items": lambda n: "a[" * n + "0" + "]" * n,
    "attributes": lambda n: "a" + ".b" * n,
    "signs": lambda n: "-" * n + "1",
    "nots": lambda n: "not " * n + "a",
    "sums": lambda n: "+".join("a" * (n + 1)),
    "powers": lambda n: "**".join("a" * (n + 1)),
    "conditions": lambda n: " and ".join("a" * (n + 1)),
    "choices": lambda n: "a if b else " * n + "c",
    "lambdas": lambda n: "lambda: " * n + "c",
    "strings": lambda n: "(" + "'a' " * n + ")",
    "formatted": lambda n: "(" + "f'{a}'\n" * n + ")",
}


def statements(n):
    return "if a: pass\n" + "elif b: pass\n" * n


@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("number", [DEEPEST + 60, 900, 30_000])
def test_what_is_too_deep_is_refused(chain, number):
    with fails("planning.unparsable-file", "nested more than") as caught:
        parse("a.py", f"y = 1\nx = {CHAINS[chain](number)}\n".encode())
    assert caught.value.where in {"a.py", "a.py:2"}


@pytest.mark.parametrize("number", [DEEPEST + 10, 30_000])
def test_too_many_branches_are_refused(number):
    with pytest.raises(UnparsableFile, match="nested more than"):
        parse("a.py", statements(number).encode())


@pytest.mark.slow
def test_what_is_less_deep_is_edited():
    """All that libcst and the edits do, with the recursion limit of the command line."""
    sources = [f"x = keep({make(DEEPEST - 20)})\n" for make in CHAINS.values()]
    script = f"""
        import sys
        from tests.helpers import edited
        from vpatch.util.recursion import allow_deep_syntax
        allow_deep_syntax()
        for source in {sources!r}:
            after = edited({{"find": "keep($a)", "rewrite": "kept($a, 1)"}}, source)
            assert after.startswith("x = kept("), after
            after = edited({{"find": "keep(...)", "add-keyword": {{"b": "1"}}}}, source)
            # Long brackets get lines of their own.
            assert "".join(after.split()).endswith((",b=1)", ",b=1,)")), after
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=True)


def test_the_line_is_told():
    with pytest.raises(NestedTooDeeplyError) as caught:
        measured(b"a = 1\n\nb = a" + b".c" * 500 + b"\n")
    assert caught.value.line == 3


@pytest.mark.parametrize(
    "source",
    [
        "(" * 3000 + "$a" + ")" * 3000,
        "f($a)" + "(" * 3000,
        "-" * 3000 + "$a",
        "f(" + "$a if $b else " * 3000 + "$c)",
    ],
)
def test_a_pattern_is_refused(source):
    with fails("codemods.not-python", r"nested more than|not Python"):
        parse_pattern(source)


def test_what_python_does_not_know_is_tried_elsewhere(monkeypatch):
    """A newer Python's grammar is libcst's too, but where Python's parser fails it cannot count."""
    newer = b"type X = int\n" + b"# more\n" * 200
    monkeypatch.setattr(ast, "parse", fail)
    assert measured(newer) is None
    deep = b"type X = " + b"(" * 5000 + b"1" + b")" * 5000
    with pytest.raises(NestedTooDeeplyError):
        measured(deep)


def fail(_source):
    raise SyntaxError("invalid syntax")


def test_side_by_side_is_not_nested():
    many = 3000
    for code in (
        f"x = [{'1, ' * many}]",
        f"x = f({'a, ' * many})",
        "x = " + "<".join("a" * many),
        "x = " * many + "1",
        "x = 1\n" * many,
        'x = """' + "\n'a' 'b'" * many + '"""',
        "x = " + repr("'\"" * many),
    ):
        assert isinstance(measured(f"{code}\n".encode()), ast.Module)


def test_every_piece_of_a_string_counts(monkeypatch):
    monkeypatch.setattr(nesting, "DEEPEST", 10)
    assert measured(b"def f():\n    return ('a' 'b' \"c\"\n        'd''e')\n") is not None
    with pytest.raises(NestedTooDeeplyError) as caught:
        measured(b"def f():\n    x = 1\n    return ('a' 'b' 'c' 'd' 'e' 'f'\n 'g' r'''h''')\n")
    assert caught.value.line == 3


@pytest.mark.parametrize("encoding", ["latin-1", "utf-8", "utf-8-sig"])
@pytest.mark.parametrize(
    ("code", "is_deep"),
    [
        ("x = '\xe9', {quotes}  # c", False),
        ("x = '\xe9' + {quotes}  # (", False),
        ("x = '\xe9', {pieces}  # c", True),
    ],
)
def test_pieces_are_counted_in_any_encoding(code, is_deep, encoding):
    many = '"' * 200
    text = code.format(quotes=f"'''{many}'''", pieces='"" ' * 200)
    source = f"# coding: {encoding.removesuffix('-sig')}\n{text}\n".encode(encoding)
    if is_deep:
        with pytest.raises(NestedTooDeeplyError):
            measured(source)
    else:
        assert isinstance(measured(source), ast.Module)


def test_code_that_libcst_does_not_come_back_from_is_refused(monkeypatch):
    monkeypatch.setattr(nesting, "_PARSE", "while True: pass")
    monkeypatch.setattr(nesting, "_SECONDS", 0.1)
    assert not nesting._survives(b"")


def test_a_file_of_a_tree_is_a_conflict():
    deep = f"x = f({CHAINS['brackets'](3000)})\n"
    with pytest.raises(UnparsableFile):
        run({"find": "f($a)", "rewrite": "g($a)"}, deep)


@pytest.mark.parametrize("number", [DEEPEST - 10, 6000, 30_000])
def test_a_new_file_is_a_conflict(tmp_path, number):
    edits = [{"add-file": "vllm/new.py", "from": "new.py"}]
    patch = patch_of(tmp_path, files={"new.py": f"x = {CHAINS['signs'](number)}\n"}, edits=edits)
    decision = decide(patch, tree_of({"vllm/m.py": "f = 1\n"}))
    assert decision.state is (State.NEEDED if number < DEEPEST else State.CONFLICT)


@pytest.mark.parametrize("chain", CHAINS)
def test_short_code_is_measured_like_long_code(chain, monkeypatch):
    """What is passed over for its length has no more levels than are allowed."""

    def refused(number):
        try:
            measured(f"x = {CHAINS[chain](number)}\n".encode())
        except NestedTooDeeplyError:
            return True
        return False

    numbers = range(20, DEEPEST + 10)
    short = [refused(number) for number in numbers]
    monkeypatch.setattr(nesting, "_is_short", lambda *_: False)
    assert short == [refused(number) for number in numbers]
