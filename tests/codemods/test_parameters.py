"""Parameters of every kind are added, moved and removed, in the layout that is there."""

from __future__ import annotations

import ast
import random
import re
import textwrap
from collections import Counter

import pytest

from tests.codemods.test_rewrite import rewrite
from tests.helpers import MODULE, edited, run, tree_of
from vpatch.changes.change import FileChange
from vpatch.codemods.pattern import PatternError
from vpatch.deriving.derive import derive
from vpatch.deriving.source_code import parsed
from vpatch.source.spec import parse_vllm
from vpatch.workspace.context import Context

SIGNATURES = [
    "",
    "a, b",
    "a, *, b",
    "*, b=1",
    "b, a",
    "a, /",
    "a, /, b, *, c",
    "*args",
    "a, *args, b, **kw",
    "a, **kw",
    "a: int, b: int = 1",
]


def in_lines(parameters):
    """A def with one parameter on each line, and a comma behind the last."""
    lines = "".join(f"    {each},  # {each[:1]}\n" for each in parameters.split(", ") if each)
    return f"def f(\n{lines}):\n    pass\n"


def header(code):
    (function,) = ast.parse(code).body
    return ast.dump(function.args)


@pytest.mark.parametrize("old", SIGNATURES)
def test_each_signature_becomes_each_other(old):
    for new in SIGNATURES:
        if new == old:
            continue
        edit = rewrite(f"def f({old}): ...", f"def f({new}): ...")
        assert edited(edit, f"def f({old}):\n    pass\n") == f"def f({new}):\n    pass\n"


@pytest.mark.parametrize(
    ("find", "new", "before", "after"),
    [
        ("..., b, ...", "..., *, b, ...", "a, b, c", "a, *, b, c"),
        ("..., b, ...", "..., *, b, ...", "a, b: int, *, c", "a, *, b: int, c"),
        ("..., b, ...", "..., *, b, ...", "b, **kw", "*, b, **kw"),
        ("a, *, b, ...", "a, b, ...", "a, *, b, c", "a, b, c"),
        ("a, b, ...", "a, *, new, b, ...", "a, b: int, d, e", "a, *, new, b: int, d, e"),
        ("a, b, ...", "a, b, *args, ...", "a, b", "a, b, *args"),
        ("a, b, ...", "a, b, *args, ...", "a, b, *, c", "a, b, *args, c"),
        ("a, b", "*args, **kw", "a, b", "*args, **kw"),
        ("*args, **kw", "a, b", "*args, **kw", "a, b"),
        ("a", "*a", "a", "*a"),
    ],
)
def test_marks_and_what_a_gap_matches(find, new, before, after):
    edit = rewrite(f"def f({find}): ...", f"def f({new}): ...")
    assert edited(edit, f"def f({before}):\n    pass\n") == f"def f({after}):\n    pass\n"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("a, b", "a, *, b"),
        ("a, b, c", "a, *, c"),
        ("a, b", "*, b"),
        ("a, *, b", "a, b"),
        ("a, *, b", "a"),
        ("a", "a, *, b"),
        ("a, b", "a, /, b"),
    ],
)
def test_lines_and_comments_stay(old, new):
    edit = rewrite(f"def f({old}): ...", f"def f({new}): ...")
    gone = set(old) - set(new)
    before = in_lines(old)
    for name in gone - {"*", "/"}:
        before = before.replace(f"  # {name}", "")
    before = before.replace("  # *", "").replace("  # /", "")
    after = in_lines(new)
    for name in (set(new) - set(old)) | {"*", "/"}:
        after = after.replace(f"  # {name}", "")
    assert edited(edit, before) == after


@pytest.mark.parametrize(
    ("find", "new", "before"),
    [
        ("..., b, ...", "..., *, b, ...", "a, b, *args"),
        ("a, ...", "a, *more, ...", "a, *args"),
        ("a, ...", "a, b, ...", "a, c, b"),
        ("a, ...", "a, ..., **more", "a, **kw"),
    ],
)
def test_what_python_does_not_take_is_a_problem(find, new, before):
    edit = rewrite(f"def f({find}): ...", f"def f({new}): ...")
    assert "the new code is not Python there" in run(edit, f"def f({before}): pass\n").mismatch


@pytest.mark.parametrize(
    ("find", "new"), [("lambda a, b: a", "lambda a, *, b: a"), ("lambda *, a: a", "lambda a, /: a")]
)
def test_parameters_of_a_lambda(find, new):
    assert edited(rewrite(f"f({find})", f"f({new})"), f"x = f({find})\n") == f"x = f({new})\n"


# --- real signatures ---------------------------------------------------------------------------


def changed(args, chance):
    """The texts of a def's parameters, with one change by chance."""
    items = texts_of(args)
    new = ["new", "new=1", "new: int", "new: int = 1", "*new", "**new", "*", "/"]
    at, place = chance.randrange(len(items) + 1), chance.randrange(len(items))
    match chance.choice(["add", "remove", "move", "change"]):
        case "add":
            items.insert(at, chance.choice(new))
        case "remove":
            del items[place]
        case "move":
            items.insert(at, items.pop(place))
        case _:
            name = re.match(r"[*/]*(\w*)", items[place])[1]
            items[place] = chance.choice([name, f"{name}: str", f"{name}=2", f"*{name}"])
    return items


def texts_of(args):
    """The texts of parameters, `/` and `*` among them."""
    positional = [*args.posonlyargs, *args.args]
    defaults = [None] * (len(positional) - len(args.defaults)) + args.defaults
    texts = [text_of(arg, default) for arg, default in zip(positional, defaults, strict=True)]
    if args.posonlyargs:
        texts.insert(len(args.posonlyargs), "/")
    if args.vararg:
        texts.append(f"*{text_of(args.vararg)}")
    elif args.kwonlyargs:
        texts.append("*")
    texts += [text_of(a, d) for a, d in zip(args.kwonlyargs, args.kw_defaults, strict=True)]
    return [*texts, f"**{text_of(args.kwarg)}"] if args.kwarg else texts


def text_of(arg, default=None):
    equals = " = " if arg.annotation else "="
    return ast.unparse(arg) + (f"{equals}{ast.unparse(default)}" if default else "")


def is_python(text):
    try:
        compile(f"def f({text}): pass", "", "exec")
    except SyntaxError:
        return False
    return True


def functions_of(version):
    """The code of each function with two parameters or more, without its decorators."""
    with Context().tree(parse_vllm(version)) as tree:
        for path in sorted(tree.paths()):
            if not path.startswith("vllm/") or not path.endswith(".py"):
                continue
            source = tree.read(path).decode()
            lines = source.split("\n")
            for node in ast.walk(parsed(source.encode())):
                if isinstance(node, ast.FunctionDef) and len(texts_of(node.args)) > 1:
                    yield (
                        textwrap.dedent("\n".join(lines[node.lineno - 1 : node.end_lineno])) + "\n"
                    )


@pytest.mark.slow
@pytest.mark.parametrize("version", ["0.20.0", "0.23.0", "0.33.0"])
def test_real_signatures_take_every_change(version):
    chance = random.Random(version)
    counts = Counter()
    for before in chance.sample(sorted(set(functions_of(version))), 60):
        function = ast.parse(before).body[0]
        old, new = ", ".join(texts_of(function.args)), ", ".join(changed(function.args, chance))
        if old == new or "..." in old or not is_python(new):  # where it is Python's own
            continue
        find, made = (f"def {function.name}({text}): ..." for text in (old, new))
        try:
            result = run(rewrite(find, made), before)
        except PatternError:
            counts["refused"] += 1  # the new pattern finds the old code as well
            continue
        if result.mismatch is not None:
            assert "comment" in result.mismatch, (find, made, result.mismatch)
            counts["comment"] += 1
            continue
        after = result.view.read(MODULE)
        (there,) = ast.parse(after).body
        assert ast.dump(there.args) == header(f"def f({new}): pass"), (before, after)
        assert [*map(ast.dump, there.body)] == [*map(ast.dump, function.body)]
        derived = derive(FileChange(MODULE, before.encode(), after), tree_of({MODULE: before}))
        assert not any(edit.failures for edit in derived)
        counts["by meaning" if all(edit.why is None for edit in derived) else "by text"] += 1
    assert counts["by meaning"] > 8 * (counts["refused"] + counts["comment"] + counts["by text"])
