"""Before and after make edits, and the edits make the after again."""

from __future__ import annotations

import textwrap

import pytest

from tests.helpers import tree_of
from vpatch.changes.change import FileChange
from vpatch.commands.importing.merge import merged
from vpatch.declare.edits import VERBS
from vpatch.deriving.derive import ONLY_COMMENTS, NotDerivedError, derive
from vpatch.deriving.other_releases import ByteChange, OtherFile, does_the_same
from vpatch.deriving.strategies import STRATEGIES
from vpatch.deriving.trial import Trial, bound_edits
from vpatch.planning.editing import run_edit
from vpatch.planning.view import View

PATH = "vllm/m.py"
LONG = "one_name_of_a_module_that_is_quite_long"
LONG_CLASS = "class Helper:\n" + "".join(f"    size_{n} = {n}\n" for n in range(30))
BEFORE = '''\
"""A module."""
import os
from x import first

LIMIT = 128


class Layer(Base):
    size = 1

    def __init__(self, prefix):
        """Make it."""
        self.proj = Linear(4, 4)  # narrow
        self.head = Linear(
            4,
            8,
        )

        # Two of them.
        if prefix:
            self.tail = Linear(8, 8)
            self.done = True

    def forward(self, x, scale=1.0):
        y = self.proj(x)
        if y.sum() > 0:
            return self.head(y)
        return y


def helper(a):
    return os.path.join(a, first)


def joined(a) -> tuple[int, ...]:
    for b in a:
        if b:
            h(a)
            break
        h(a)
        if a:
            break
    return ()


def split(a) -> tuple[int, ...]:
    return a  # twice
'''


def derived(after, before=BEFORE, path=PATH, **options):
    tree = tree_of({path: before})
    return derive(FileChange(path, before.encode(), after.encode()), tree, **options)


def edits(after, before=BEFORE, **options):
    return [edit for one in derived(after, before, **options) for edit in one.candidate.edits]


def made(found, before):
    """What the edits make of the file, one after the other."""
    view = View(tree_of({PATH: before}))
    for one in found:
        for edit in bound_edits(one.candidate.edits, one.candidate.files):
            result = run_edit(edit, view)
            assert result.mismatch is None, result.mismatch
            view = result.view
    return view.read(PATH).decode()


CASES = {
    "a keyword more": (
        ("Linear(4, 4)", 'Linear(4, 4, prefix="a")'),
        {
            "find": "self.proj = Linear(...)",
            "add-keyword": {"prefix": '"a"'},
            "within": "Layer.__init__",
        },
    ),
    "a value": (("LIMIT = 128", "LIMIT = 256"), {"set-value": "256", "of": "LIMIT", "was": "128"}),
    "a value of a class": (("size = 1", "size = 2"), {"of": "Layer.size"}),
    "a parameter with a default": (
        ("scale=1.0", "scale=1.0, bias=None"),
        {"find": "def forward(...): ...", "add-keyword": {"bias": "None"}},
    ),
    "a parameter without": (
        ("forward(self, x,", "forward(self, x, mask,"),
        {"rewrite": "def forward(..., x, mask, scale=1.0): ..."},
    ),
    "a type that is returned": (
        ("def joined(a) -> tuple[int, ...]:", "def joined(a) -> list[int]:"),
        {
            "find": "def joined(...) -> tuple[int, (...)]: ...",
            "rewrite": "def joined(...) -> list[int]: ...",
        },
    ),
    "a statement between two that are there again": (
        (
            "            h(a)\n            break\n",
            "            h(a)\n            n = 1\n            break\n",
        ),
        {"change": "  h(a)\n+ n = 1\n  break\n", "within": "joined"},
    ),
    "a comparison": (("y.sum() > 0", "y.sum() >= 0"), {"rewrite": "y.sum() >= 0"}),
    "another function": (("self.head(y)", "self.tail(y)"), {"rewrite": "self.tail"}),
    "an expression around": (
        ("y = self.proj(x)", "y = norm(self.proj(x))"),
        {"find": "self.proj(x)", "rewrite": "norm(self.proj(x))"},
    ),
    "a statement": (
        ("        return y\n", "        y = y * scale\n        return y\n"),
        {"insert": "y = y * scale", "within": "Layer.forward"},
    ),
    "a statement below a blank line": (
        (
            "        # Two of them.\n",
            "        self.gate = Linear(1, 1)\n\n        # Two of them.\n",
        ),
        {"insert": "self.gate = Linear(1, 1)"},
    ),
    "a statement set apart": (
        ("        y = self.proj(x)\n", "        y = self.proj(x)\n\n        y = y * scale\n\n"),
        {"insert": "\ny = y * scale\n\n", "within": "Layer.forward"},
    ),
    "a handler": (
        ("    return os.path.join(a, first)\n", "    return os.path.join(a, first, first)\n"),
        {"find": "os.path.join(..., first)", "rewrite": "os.path.join(..., first, first)"},
    ),
    "a statement at the start": (
        ('        """Make it."""\n', '        """Make it."""\n        super().__init__()\n'),
        {"insert": "super().__init__()"},
    ),
    "a function": (
        ("\n\ndef helper", "\n\ndef more(b):\n    return b\n\n\ndef helper"),
        {"insert": {"from": "more.py", "name": "more"}},
    ),
    "a method with a docstring": (
        (
            "    def forward",
            '    def more(self):\n        """More.\n\n        And.\n        """\n\n    def forward',
        ),
        {"insert": {"from": "more.py", "name": "more"}},
    ),
    "an import": (("import os\n", "import os\nimport sys\n"), {"add-import": "import sys"}),
    "a base": (
        ("class Layer(Base)", "class Layer(Base, Mixin)"),
        {"find": "class Layer(Base): ..."},
    ),
    "a decorator": (
        ("    def forward", "    @cached\n    def forward"),
        {"within": "Layer.forward"},
    ),
    "a condition of an if": (
        ("if prefix:", "if prefix is not None:"),
        {"within": "Layer.__init__"},
    ),
    "a simple statement to a block": (
        ("        y = self.proj(x)\n", "        if x:\n            y = self.proj(x)\n"),
        {"change": "- y = self.proj(x)\n+ if x:\n+     y = self.proj(x)\n"},
    ),
    "one statement into two": (
        ("        y = self.proj(x)\n", "        z = self.proj(x)\n        y = z + 1\n"),
        {"within": "Layer.forward"},
    ),
    "statements with a comment into others": (
        (
            "        if y.sum() > 0:\n            return self.head(y)\n        return y\n",
            (
                "        # Both.\n"
                "        for head in self.heads:\n            y = head(y)  # in turn\n"
                "        log(y)\n        return self.last(y)\n"
            ),
        ),
        {
            "change": "- if y.sum() > 0:\n-     return self.head(y)\n"
            "+ # Both.\n+ for head in self.heads:\n+     y = head(y)  # in turn\n+ log(y)\n",
        },
    ),
    "an assignment to a call": (
        ("            self.done = True\n", "            finish(self)\n"),
        {"within": "Layer.__init__"},
    ),
    "all of a block": (
        ("            return self.head(y)\n", "            y = self.head(y)\n"),
        {"within": "Layer.forward"},
    ),
    "a function with another name and another body": (
        ("helper(a):\n    return os.path.join(a, first)", "joined(a):\n    return os.path.join(a)"),
        {"find": "def helper(...): ...", "rewrite": "def joined(...): ..."},
    ),
    "a function to a class, which is longer than a pattern": (
        ("def helper(a):\n    return os.path.join(a, first)\n", LONG_CLASS),
        {"delete": "def helper(...): ..."},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_change_becomes_an_edit_by_meaning(name):
    (old, new), expected = CASES[name]
    assert BEFORE.count(old) == 1
    after = BEFORE.replace(old, new)
    found = derived(after)
    assert [one.kind for one in found if one.kind in {"text", "diff"}] == []
    first = found[0].candidate.edits[0]
    assert {key: first.get(key) for key in expected} == expected
    assert made(found, BEFORE) == after


TEXT = {
    "a comment": ("# narrow", "# very narrow"),
    "a comment in a header": (
        "def split(a) -> tuple[int, ...]:",
        "def split(a) -> tuple[int, ...]:  # so",
    ),
    "blank lines": ("LIMIT = 128\n\n\n", "LIMIT = 128\n\n"),
}


@pytest.mark.parametrize("name", TEXT)
def test_what_no_edit_says_by_meaning_becomes_text(name):
    old, new = TEXT[name]
    assert BEFORE.count(old) == 1
    after = BEFORE.replace(old, new)
    (found,) = derived(after)
    assert found.kind == "text"
    assert found.why == ONLY_COMMENTS
    assert made([found], BEFORE) == after


def test_a_statement_that_goes_away_is_deleted_where_there_is_an_edit_for_it():
    after = BEFORE.replace("            self.done = True\n", "")
    (found,) = derived(after)
    assert found.kind == ("delete" if "delete" in VERBS else "text")
    assert made([found], BEFORE) == after


def test_what_does_not_fit_beside_the_change_is_not_tried_on_the_whole_file(monkeypatch):
    after = BEFORE.replace("y.sum() > 0", "y.mean() > 1")
    read: list[bytes] = []
    plain = Trial._made_of

    def counting(self, bound, passage):
        read.append(passage.now)
        return plain(self, bound, passage)

    monkeypatch.setattr(Trial, "_made_of", counting)
    (one,) = derived(after)
    assert one.kind == "rewrite"
    assert read.count(BEFORE.encode()) == 1
    assert any(b"self.proj = Linear" not in text for text in read)


def test_an_insert_that_is_nearly_right_is_tried_once_at_its_place(monkeypatch):
    before = "def f(x):\n    a = g(x)\n    # one\n    b = h(x)\n    return b\n"
    after = before.replace("    # one\n", "    c = 1\n\n    # two\n")
    tried: list[str] = []
    plain = Trial.bound
    monkeypatch.setattr(Trial, "bound", lambda *args: tried.append(args[1].kind) or plain(*args))
    (one,) = derived(after, before)
    assert (one.kind, one.gives) == ("insert", "code")
    # Two texts after `a = g(x)` and before `b = h(x)`; each has three other names.
    assert tried.count("insert") < 12


def test_of_several_functions_the_one_that_is_most_like_the_new_one_became_it():
    body = "    {0} = one(a, b)\n    {0} += two(a)\n    return {0}\n"
    before = "\n\n".join(f"def {n}(a, b):\n{body.format(n)}" for n in ("x", "y", "z"))
    after = "def other(a, b):\n" + body.format("y").replace("two", "three")
    found = derived(after, before)
    assert [one.kind for one in found if one.kind in {"text", "diff"}] == []
    edits = [edit for one in found for edit in one.candidate.edits]
    assert {"find": "def y(...): ...", "rewrite": "def other(...): ..."}.items() <= edits[1].items()
    assert made(found, before) == after


def test_code_that_is_elsewhere_in_the_block_goes_between_both_neighbours():
    """An insert in a patch without an `effect` would be a conflict."""
    before = "def f(x):\n    a = None\n    first(x)\n    last(x)\n    return a\n"
    after = before.replace("    last", "    a = None\n    last")
    (one,) = derived(after, before)
    assert one.kind == "change"
    assert made([one], before) == after


def test_several_changes_of_a_file_are_edits_in_its_order():
    after = BEFORE.replace("LIMIT = 128", "LIMIT = 256").replace("> 0", "> 1")
    after = after.replace("Linear(4, 4)", "Linear(4, 5)").replace("\ndef helper", "\ndef other")
    found = derived(after)
    assert made(found, BEFORE) == after
    assert [one.lines[0] for one in found] == sorted(one.lines[0] for one in found)


REPEATED = "".join(f"def f{n}(x):\n    y = 1\n    g(x)\n    return y\n\n\n" for n in range(6))


def test_a_repeated_place_is_told_by_its_function():
    after = REPEATED.replace("    y = 1\n", "    y = 2\n", 3).replace(
        "    y = 2\n", "    y = 1\n", 2
    )
    (found,) = derived(after, REPEATED)
    assert found.kind == "rewrite"
    assert found.candidate.edits[0]["within"] == "f2"
    assert made([found], REPEATED) == after


def test_text_takes_as_many_lines_as_make_it_unique():
    before = "a\nb\n" * 30 + "z\n" + "a\nb\n" * 30
    lines = before.splitlines(keepends=True)
    after = "".join([*lines[:40], "x\n", *lines[40:]])
    (found,) = derived(after, before, path="tools/a.txt")
    assert found.why == "the file is not Python"
    assert found.kind == "text"


@pytest.mark.parametrize(("kept", "is_rewritten"), [(30, False), (10, True)])
def test_a_long_file_that_is_written_anew_is_text(kept, is_rewritten):
    before, after = (
        "X = [\n" + "".join(f"    {sign}{n},\n" for n in range(220 - kept)) + "]\n" for sign in "+-"
    )
    same = "".join(f"same_{n} = 1\n" for n in range(kept))
    derived_edits = derived(same + after, same + before)
    assert (
        {edit.why for edit in derived_edits} == {"nearly all of the file is new"}
    ) is is_rewritten


def test_a_long_file_that_moves_into_a_block_is_not_new():
    before = "X = [\n" + "".join(f"    {number},\n" for number in range(220)) + "]\n"
    after = "if Y:\n" + "".join(f"    {line}" for line in before.splitlines(keepends=True))
    assert "nearly all of the file is new" not in {edit.why for edit in derived(after, before)}


LAYOUT = BEFORE.replace("self.proj = Linear(4, 4)", "self.proj = Linear(4, 4,  bias=True)")


def test_another_layout_is_said_and_exact_refuses_it():
    (found,) = derived(LAYOUT)
    assert (found.kind, found.gives) == ("add-keyword", "layout")
    (found,) = derived(LAYOUT, exact=True)
    assert (found.kind, found.gives) == ("text", None)
    assert made([found], BEFORE) == LAYOUT


def test_text_alone_can_be_asked_for():
    after = BEFORE.replace("LIMIT = 128", "LIMIT = 256")
    (found,) = derived(after, text=True)
    assert found.kind == "text"
    assert made([found], BEFORE) == after


def test_a_file_that_is_not_plain_python_is_text():
    before = "def f(:\n    pass\n"
    (found,) = derived(before.replace("pass", "return"), before)
    assert found.kind == "text"
    assert "not plain Python" in found.why


def test_a_dollar_goes_into_a_file():
    after = BEFORE.replace("        return y\n", '        log("$x")\n        return y\n')
    (found,) = derived(after)
    assert found.candidate.edits[0]["insert"] == {"from": "code.py"}
    assert made_with_file(found) == b'log("$x")\n'


def made_with_file(found):
    return found.candidate.files["code.py"]


def test_lines_inside_of_strings_are_not_moved():
    new = textwrap.dedent('''\
        def more(self):
            return """
        text
            text
        """

    ''')
    after = BEFORE.replace(
        "    def forward",
        textwrap.indent(new, "    ").replace("    text", "text") + "    def forward",
    )
    found = derived(after)
    assert made(found, BEFORE) == after


TWICE = '''\
def first():
    """One of them."""
    x = 1
    y = 2


def second():
    """Another one."""
    x = 1
'''


def test_a_text_finds_its_place_without_a_docstring_where_it_can():
    """A docstring above it changes as easily as a comment does."""
    after = TWICE.replace("x = 1\n    y", "x = 3\n    y")
    (edit,) = derived(after, TWICE, text=True)
    (declared,) = edit.candidate.edits
    assert declared["text"]["find"] == "    x = 1\n    y = 2\n"
    # Where nothing else tells, it is better than a conflict today.
    (edit,) = derived(TWICE.removesuffix("x = 1\n") + "x = 3\n", TWICE, text=True)
    assert "Another one" in edit.candidate.edits[0]["text"]["find"]
    # What changes is no context.
    (edit,) = derived(TWICE.replace("One of", "All of"), TWICE, text=True)
    assert "All of" in str(edit.candidate.edits)


def test_a_file_of_comments_that_becomes_empty_has_no_edit():
    with pytest.raises(NotDerivedError, match=r"^vllm/m.py, line 1: nothing would be left of"):
        derived("", "# a\n")


def test_an_empty_file_that_gets_comments_has_no_edit():
    with pytest.raises(NotDerivedError, match="has no text by which an edit could find its place"):
        derived("# a\n", "\n")


def test_a_text_beside_an_edit_of_another_layout_is_what_exact_makes():
    before = "def f(a):\n    x = g(a)\n    # one\n    return x\n"
    after = before.replace("g(a)", "g(a,  b=1)").replace("# one", "# two")
    assert [one.gives for one in derived(after, before)] == ["layout", None]
    exact = derived(after, before, exact=True)
    assert [one.gives for one in exact] == [None, None]
    assert made(exact, before) == after


@pytest.mark.parametrize("other", ["Linear(4, 4)", "Linear(4, 4, bias=True)"])
def test_a_file_is_named_if_another_one_has_the_place_done_or_not(other):
    after = BEFORE.replace("Linear(4, 4)", "Linear(4, 4, bias=True)")
    beside = BEFORE.replace("Linear(4, 4)", other)
    change = FileChange(PATH, BEFORE.encode(), after.encode())
    (one,) = derive(change, tree_of({PATH: BEFORE, "vllm/other.py": beside}))
    (alone,) = derive(change, tree_of({PATH: BEFORE, "vllm/other.py": "x = 1\n"}))
    (alike,) = derive(change, tree_of({PATH: BEFORE, "vllm/other/m.py": beside}))
    # A later release may have the file in another folder.
    assert [edit.get("files") for edit in one.candidate.edits] == ["*/m.py"]
    assert [edit.get("files") for edit in alone.candidate.edits] == [None]
    assert [edit.get("files") for edit in alike.candidate.edits] == [PATH]


def test_edits_of_two_files_stay_apart_if_a_third_one_has_the_place_done():
    """An older release may have it undone there, and the source does not touch that file."""
    after = BEFORE.replace("Linear(4, 4)", "Linear(4, 4, bias=True)")
    others = ["vllm/a.py", "vllm/b.py"]
    edit = {"find": "self.proj = Linear(...)", "add-keyword": {"bias": "True"}, "within": "Layer"}
    placed = [(path, {**edit, "files": path}) for path in others]
    files = dict.fromkeys(others, BEFORE)
    assert len(merged(placed, tree_of(files))) == 1
    assert merged(placed, tree_of({**files, "vllm/c.py": after})) == [one for _, one in placed]


def test_edits_whose_names_are_in_many_files_are_not_run_on_all_of_them(monkeypatch):
    edit = {"find": "def __init__(...): ...", "add-keyword": {"prefix": '""'}}
    files = {f"vllm/m{n}.py": "class A:\n    def __init__(self): pass\n" for n in range(40)}
    placed = [(path, {**edit, "files": path}) for path in list(files)[:2]]
    monkeypatch.setattr("vpatch.commands.importing.merge.run_edit", lambda *_: 1 / 0)
    assert merged(placed, tree_of(files)) == [one for _, one in placed]


KINDS = """\
KINDS = [
    "a",
    # The second.
    "b",
]
NAMES = {
    "a": 1,
    "b": [2],
    "c": 3,
}


def allowed(device):
    return device in ("cuda",)
"""


@pytest.mark.parametrize(
    ("old", "new", "edit"),
    [
        ('"a",\n    #', '"a",\n    "z",\n    #', ('KINDS = ["a", ...]', 'KINDS = ["a", "z", ...]')),
        ('    "b",\n]', '    "b",\n    "z",\n]', ("KINDS = [...]", 'KINDS = [..., "z"]')),
        ('"a": 1', '"a": 4', ('NAMES = {..., "a": 1, ...}', 'NAMES = {..., "a": 4, ...}')),
        ('    "c": 3,\n', "", ('NAMES = {..., "c": 3, ...}', "NAMES = {...}")),
        ("[2]", "[2, 5]", ('NAMES = {..., "b": [...], ...}', 'NAMES = {..., "b": [..., 5], ...}')),
        ('("cuda",)', '("cuda", "npu")', ("device in (...,)", 'device in (..., "npu")')),
    ],
)
def test_an_entry_is_said_without_the_others(old, new, edit):
    assert KINDS.count(old) == 1
    after = KINDS.replace(old, new)
    found = derived(after, KINDS)
    assert [(e["find"], e["rewrite"]) for e in edits(after, KINDS)] == [edit]
    assert [one.gives for one in found] == [None]
    assert made(found, KINDS) == after


def test_a_literal_that_is_all_new_is_a_value():
    found = edits('KINDS = ["x"]\n', 'KINDS = ["a", "b"]\n')
    assert [sorted(edit) for edit in found] == [["of", "set-value", "was"]]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("x, scale=1.0", "x, *, scale=1.0"),
        ("x, scale=1.0", "x, /, scale=1.0"),
        ("x, scale=1.0", "x, *args, scale=1.0, **kw"),
        ("x, scale=1.0", "x, /, scale: float = 1.0, *, new"),
    ],
)
def test_marks_among_parameters_are_added_and_removed_by_meaning(old, new):
    for before, after in ((old, new), (new, old)):
        code, wanted = (BEFORE.replace(old, text) for text in (before, after))
        (one,) = derived(wanted, code)
        assert (one.kind, one.gives, one.failures) == ("rewrite", None, ())
        assert made([one], code) == wanted


def _fails(_):
    raise TypeError("ParamStar")
    yield


def test_a_strategy_that_fails_costs_itself_alone(monkeypatch, caplog):
    failing = tuple(_fails if one.__name__ == "keywords" else one for one in STRATEGIES)
    monkeypatch.setattr("vpatch.deriving.derive.STRATEGIES", failing)
    after = BEFORE.replace("Linear(4, 4)", 'Linear(4, 4, prefix="a")')
    with caplog.at_level("INFO"):
        (one,) = derived(after)
    assert one.kind == "rewrite"
    assert made([one], BEFORE) == after
    (failure,) = one.failures
    assert failure == (
        "vllm/m.py, line 13: the strategy '_fails' failed: TypeError: ParamStar; -v shows the "
        "traceback"
    )
    assert any(record.exc_info for record in caplog.records)


def test_a_candidate_that_cannot_be_run_costs_its_strategy(monkeypatch):
    bound = Trial.bound

    def failing(self, candidate):
        if candidate.kind == "add-keyword":
            raise RecursionError
        return bound(self, candidate)

    monkeypatch.setattr(Trial, "bound", failing)
    after = BEFORE.replace("Linear(4, 4)", 'Linear(4, 4, prefix="a")')
    (one,) = derived(after)
    assert one.kind == "rewrite"
    assert "'keywords' failed: RecursionError" in one.failures[0]


def test_a_file_whose_differences_cannot_be_found_is_text(monkeypatch):
    monkeypatch.setattr("vpatch.deriving.derive.differences", lambda *_: 1 / 0)
    (one,) = derived(BEFORE.replace("LIMIT = 128", "LIMIT = 256"))
    assert (one.kind, one.why) == ("text", "vpatch failed to find edits by meaning")
    assert "ZeroDivisionError" in one.failures[0]


@pytest.mark.parametrize(
    ("old", "new", "imports"),
    [
        ("import os\n", "import json\nimport os\n", ["import json"]),
        ("from x import first\n", "from x import a, first\n", ["from x import a"]),
        ("import os\n", "import os\nimport re\nimport sys\n", ["import re", "import sys"]),
        (
            "from x import first\n",
            f"from x import first\nfrom y import (\n    {LONG}_a,\n    {LONG}_b,\n)\n",
            [f"from y import {LONG}_a", f"from y import {LONG}_b"],
        ),
    ],
)
def test_imports_become_add_import_and_give_the_bytes(old, new, imports):
    """Also where no definition uses them that was there before."""
    before = BEFORE.replace("from x import first", "\nfrom x import first").replace(
        '"""\nimport os', '"""\n\nimport os'
    )
    after = before.replace(old, new)
    found = derived(after, before)
    assert [edit["add-import"] for one in found for edit in one.candidate.edits] == imports
    assert [one.gives for one in found] == [None] * len(found)
    assert made(found, before) == after


def test_a_form_that_does_the_same_in_more_releases_is_taken():
    """The neighbour above is only at the origin; the one below is in the other release too."""
    before = "def f(x):\n    a = g(x)\n    return a\n"
    after = before.replace("    return a\n", "    a = h(a)\n    return a\n")
    change = FileChange(PATH, before.encode(), after.encode())
    (alone,) = derive(change, tree_of({PATH: before}))
    moved = OtherFile(("0.2.0",), b"def f(x):\n    b = g(x)\n    return a\n")
    (lasting,) = derive(change, tree_of({PATH: before}), others=[moved])
    assert "after" in alone.candidate.edits[0]
    assert "before" in lasting.candidate.edits[0]
    assert lasting.forms > 1
    assert lasting.holds_in == 1


NEW = "\n\ndef new(a):\n    return a\n"


@pytest.mark.parametrize(
    ("after", "there", "taken"),
    [
        # The last definition is another one there.
        (f"{BEFORE}{NEW}", "def other(a):\n    return a\n", "at-end-of"),
        # The imports around it are others there.
        (
            BEFORE.replace("import os", "import json\nimport os").replace(
                "return os.path.join(a, first)", "return os.path.join(a, first, json)"
            ),
            (
                '"""A module."""\n\nimport abc\nimport re\n\n\n'
                "def helper(a):\n    return os.path.join(a, first)\n"
            ),
            "add-import",
        ),
    ],
)
def test_a_place_that_depends_on_no_neighbour_lasts(after, there, taken):
    before = BEFORE.replace("import os\nfrom x import", "\nimport os\n\nfrom x import")
    change = FileChange(
        PATH,
        before.encode(),
        after.replace("os\nfrom x", "os\n\nfrom x")
        .replace('"""A module."""\nimport', '"""A module."""\n\nimport')
        .encode(),
    )
    found = derive(change, tree_of({PATH: before}), others=[OtherFile(("1",), there.encode())])
    assert taken in found[0].candidate.edits[0]
    assert found[-1].holds_in == 1


def test_only_the_best_form_is_tried_on_all_of_the_file(monkeypatch):
    tried = []
    is_exact = Trial.is_exact
    monkeypatch.setattr(
        Trial, "is_exact", lambda self, *args: tried.append(args) or is_exact(self, *args)
    )
    before = "def f(x):\n    a = g(x)\n    return a\n"
    after = before.replace("    return a\n", "    a = h(a)\n    return a\n")
    change = FileChange(PATH, before.encode(), after.encode())
    others = [OtherFile(("0.2.0",), b"def f(x):\n    b = g(x)\n    return c\n")]
    (one,) = derive(change, tree_of({PATH: before}), others=others)
    assert one.forms > len(tried) == 1


def test_new_code_above_code_that_changes_is_one_edit():
    """The code below is no place to insert at, as it is otherwise afterwards."""
    before = "def f(x):\n    # why\n    return g(x)\n"
    new = '    """Say why."""\n    x = g(x)\n    x = h(x)\n    return x.strip()\n'
    after = f"def f(x):\n{new}"
    found = derived(after, before)
    assert [edit.why for edit in found] == [None]
    assert made(found, before) == after.replace("    return x", "    # why\n    return x")


@pytest.mark.parametrize(
    ("there", "made_there", "same"),
    [
        (b"q\na\nb\n", b"q\na\nX\nb\n", True),
        (b"a\nq\n", b"a\nX\nq\n", True),
        (b"q\nr\n", b"q\nX\nr\n", False),
        (b"a\nb\n", b"a\nX\nX\nb\n", False),
    ],
)
def test_the_same_words_beside_a_line_that_is_the_same(there, made_there, same):
    assert does_the_same(ByteChange(b"a\nb\n", b"a\nX\nb\n"), ByteChange(there, made_there)) is same


def test_a_call_inside_a_new_one_keeps_whatever_arguments_it_has():
    after = BEFORE.replace("os.path.join(a, first)", "os.path.normpath(os.path.join(a, first))")
    assert edits(after) == [
        {
            "find": "os.path.join(...)",
            "rewrite": "os.path.normpath(os.path.join(...))",
            "within": "helper",
        }
    ]
