from __future__ import annotations

import pytest

from tests.helpers import edited, edits_of, run
from vpatch.codemods.base import Repeat
from vpatch.codemods.pattern import PatternError


def insert(code, **keys):
    return {"insert": code, **keys}


BEFORE = """\
import os

# about f
def f(a):
    '''Doc.'''
    x = a  # one

    # two
    return x


class C:
    y = 1

    def m(self):
        return self.y
"""


@pytest.mark.parametrize(
    ("edit", "old", "new"),
    [
        (insert("z()", after="x = a"), "  # one\n", "  # one\n    z()\n"),
        # The comment above a statement belongs to it, and begins a paragraph.
        (insert("z()", before="return x"), "    # two\n", "    z()\n\n    # two\n"),
        # Blank lines at the end of the code are below it, where there are fewer.
        (insert("z()\n\n", after="x = a"), "  # one\n", "  # one\n    z()\n"),
        (insert("z()\n\n\n", after="x = a"), "  # one\n", "  # one\n    z()\n\n"),
        (insert("z()\n\n", before="x = a"), "    x = a", "    z()\n\n    x = a"),
        (insert("\nz()", before="return x"), "    # two\n", "    z()\n\n    # two\n"),
        (insert("y1 = 1", before="def m(self): ..."), "\n    def m", "\n    y1 = 1\n    def m"),
        (insert("z()", at_start_of="def f(...): ..."), "Doc.'''\n", "Doc.'''\n    z()\n"),
        (insert("y2 = 2", after="y = 1"), "    y = 1\n", "    y = 1\n    y2 = 2\n"),
        (
            insert("def g(): pass", after="def f(...): ..."),
            "    return x\n",
            "    return x\n\n\ndef g(): pass\n",
        ),
        (
            insert("def n(self):\n  if a:\n    return 1", at_end_of="class C: ..."),
            "return self.y\n",
            "return self.y\n\n    def n(self):\n        if a:\n            return 1\n",
        ),
        (
            insert("def g(): pass", before="class C: ..."),
            "\n\nclass C",
            "\n\ndef g(): pass\n\n\nclass C",
        ),
        (insert("# why\nz()", after="x = a"), "  # one\n", "  # one\n    # why\n    z()\n"),
        (insert("log($v)", after="x = $v"), "  # one\n", "  # one\n    log(a)\n"),
    ],
)
def test_insert(edit, old, new):
    edit = {key.replace("_", "-"): value for key, value in edit.items()}
    assert edited(edit, BEFORE) == BEFORE.replace(old, new)


@pytest.mark.parametrize(
    ("edit", "before", "after"),
    [
        # The blank lines that the code has, above and between its statements.
        ({"insert": "\nz()", "after": "a()"}, "a()\nb()\n", "a()\n\nz()\nb()\n"),
        ({"insert": "z()\n\ny()", "after": "a()"}, "a()\nb()\n", "a()\nz()\n\ny()\nb()\n"),
        (
            {"insert": "\n# why\n\nz()\n\n\ny()", "at-end-of": "def f(): ..."},
            "def f():\n    a()\n",
            "def f():\n    a()\n\n    # why\n\n    z()\n\n\n    y()\n",
        ),
        # Those above the statement before which, or above which, it is put.
        ({"insert": "z()", "before": "b()"}, "a()\n\nb()\n", "a()\n\nz()\nb()\n"),
        ({"insert": "\nz()", "before": "b()"}, "a()\n\n\nb()\n", "a()\n\nz()\nb()\n"),
        (
            {"insert": "# w\nz()", "before": "b()"},
            "a()\n\n# v\nb()\n",
            "a()\n\n# w\nz()\n\n# v\nb()\n",
        ),
        ({"insert": "z()", "before": "b()"}, "a()\n# v\n\nb()\n", "a()\nz()\n# v\n\nb()\n"),
        (
            {"insert": "x: int", "at-start-of": "class C: ..."},
            "class C:\n    'Doc.'\n\n    y: int\n",
            "class C:\n    'Doc.'\n\n    x: int\n    y: int\n",
        ),
        # Definitions have blank lines above and below.
        (
            {"insert": "x = 1\ndef g(): pass", "before": "b()"},
            "a()\n\n\nb()\n",
            "a()\n\n\nx = 1\n\n\ndef g(): pass\n\n\nb()\n",
        ),
        ({"insert": "z()", "after": "a()"}, "a()\n\nb()\n", "a()\nz()\n\nb()\n"),
    ],
)
def test_blank_lines(edit, before, after):
    assert edited(edit, before) == after


def test_code_that_is_there_is_done():
    source = "def f():\n    z( )  # why\n    a()\n"
    assert edited({"insert": "z()", "before": "a()"}, source) == source


def test_code_that_is_there_elsewhere_is_not():
    result = run({"insert": "z()", "after": "a()"}, "def g():\n    z()\ndef f():\n    a()\n")
    assert result.todo


@pytest.mark.parametrize(
    ("edit", "before", "after"),
    [
        (
            {"insert": "sync()", "after": "copy(x)"},
            "sync()\ncopy(x)\nread(x)\n",
            "sync()\ncopy(x)\nsync()\nread(x)\n",
        ),
        (
            {"insert": "z()", "after": "a()"},
            "a()\nb()\nz()\n",
            "a()\nz()\nb()\nz()\n",
        ),
        (
            {"insert": "z()", "before": "a()"},
            "z()\nb()\na()\nz()\n",
            "z()\nb()\nz()\na()\nz()\n",
        ),
        (
            {"insert": "z()", "at-start-of": "def f(): ..."},
            "def f():\n    'Doc.'\n    a()\n    z()\n",
            "def f():\n    'Doc.'\n    z()\n    a()\n    z()\n",
        ),
        (
            {"insert": "z()", "at-end-of": "def f(): ..."},
            "def f():\n    z()\n    a()\n",
            "def f():\n    z()\n    a()\n    z()\n",
        ),
    ],
)
def test_code_that_is_elsewhere_in_the_block_is_not_there(edit, before, after):
    assert edited(edit, before) == after


@pytest.mark.parametrize(
    ("edit", "source"),
    [
        ({"insert": "y()\nz()", "after": "a()"}, "a()\ny()\nz()\n"),
        ({"insert": "y()\nz()", "before": "a()"}, "b()\ny()\nz()\na()\n"),
        ({"insert": "z()", "at-end-of": "def f(): ..."}, "def f():\n    a()\n    z()\n"),
        ({"insert": "z()", "at-start-of": "def f(): ..."}, "def f():\n    'Doc.'\n    z()\n"),
        # What is inserted may stand there on a line with others.
        ({"insert": "z()", "after": "a()"}, "a()\nz(); b()\n"),
        ({"insert": "y()\nz()", "before": "a()"}, "b(); y(); z()\na()\n"),
    ],
)
def test_code_beside_the_anchor_is_done(edit, source):
    assert edited(edit, source) == source


def test_equal_definition_elsewhere_is_a_problem():
    edit = {"insert": "def g(): pass", "after": "def f(): ..."}
    result = run(edit, "def g(): pass\nx = 1\ndef f(): pass\n")
    assert "another definition of g is already there" in result.mismatch


@pytest.mark.parametrize("position", ["before", "after"])
@pytest.mark.parametrize(
    "source",
    [
        "use(x); b()\n",
        "b(); use(x)\n",
        "if y: use(x)\n",
        "if y: b(); use(x)\n",
        "for i in y: pass\nelse: use(x)\n",
        "def f(): use(x)\n",
    ],
)
def test_anchor_that_shares_its_line(position, source):
    result = run({"insert": "z()", position: "use(x)"}, source)
    assert result.mismatch == "vllm/m.py: shares its line with other statements"
    assert len(result.sites) == 1


def test_each_anchor_of_a_line_counts():
    result = run({"insert": "z($x)", "after": "use($x)"}, "use(1); use(2)\nif y: use(3)\nuse(4)\n")
    assert sorted(site.bindings["x"] for site in result.sites) == ["1", "2", "3", "4"]


def test_anchor_with_a_semicolon_alone():
    assert edited({"insert": "z()", "after": "a()"}, "a();\nb()\n") == "a();\nz()\nb()\n"


def test_each_anchor_of_a_block_gets_its_own():
    edit = {"insert": "z()", "after": "a()", "expect": 2}
    assert edited(edit, "a()\nb\na()\n") == "a()\nz()\nb\na()\nz()\n"
    assert edited(edit, "a()\nz()\nb\na()\n") == "a()\nz()\nb\na()\nz()\n"
    assert edited(edit, "a()\na()\nz()\n") == "a()\nz()\na()\nz()\n"
    edit = {"insert": "z()", "before": "a()", "expect": 2}
    assert edited(edit, "a()\nb\na()\n") == "z()\na()\nb\nz()\na()\n"
    assert edited(edit, "a()\nz()\na()\n") == "z()\na()\nz()\na()\n"


def test_stub_is_not_taken_for_any_body():
    result = run(
        {"insert": "def g(): ...", "after": "def f(): ..."}, "def f(): pass\ndef g(): return 1\n"
    )
    assert "another definition of g is already there" in result.mismatch


def test_body_on_the_header_line():
    result = run({"insert": "z()", "at-start-of": "def f(): ..."}, "def f(): return 1\n")
    assert "is on the line of its header" in result.mismatch


def test_anchor_twice_where_one_was_declared():
    result = run({"insert": "z()", "after": "a()"}, "a()\na()\n")
    assert (result.mismatch, result.view.files) == ("expected 1, found 2", {})


def test_inside_a_nested_block():
    edit = {"insert": "z()", "after": "a()"}
    assert edited(edit, "if x:\n\ttry:\n\t\ta()\n\tfinally:\n\t\tpass\n") == (
        "if x:\n\ttry:\n\t\ta()\n\t\tz()\n\tfinally:\n\t\tpass\n"
    )


def test_crlf_tabs_and_no_final_newline():
    edit = {"insert": "if z:\n    y()", "at-end-of": "def f(): ..."}
    before = "def f():\r\n\ta()\r\n\tb()"
    assert edited(edit, before) == "def f():\r\n\ta()\r\n\tb()\r\n\tif z:\r\n\t\ty()"


def test_snippet_from_a_file(tmp_path):
    (tmp_path / "new.py").write_text(
        'import x\n\n\n# costs $five\ndef g():\n    """$HOME and $x."""\n    return 1\n'
    )
    edit = {"insert": {"from": "new.py", "name": "g"}, "after": "def f(): ..."}
    assert edited(edit, "def f():\n    pass\n", tmp_path) == (
        'def f():\n    pass\n\n\n# costs $five\ndef g():\n    """$HOME and $x."""\n    return 1\n'
    )


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        ({"insert": "z()", "at-start-of": "f($x)"}, "only a def, class or other block has a start"),
        ({"insert": "z($y)", "after": "f($x)"}, r"\$y is in the new code"),
        ({"insert": "# why", "after": "f($x)"}, "no statement to insert"),
        ({"insert": "z(", "after": "f($x)"}, "not Python"),
    ],
)
def test_declaration_is_checked_before_any_tree(edit, message):
    with pytest.raises(PatternError, match=message):
        edits_of(edit)


def test_dollar_in_an_inline_comment_stays():
    edit = {"insert": "# from $HOME, as $v\nz()", "after": "x = $v"}
    assert edited(edit, "x = a\n") == "x = a\n# from $HOME, as a\nz()\n"


@pytest.mark.parametrize(
    ("edit", "source", "part"),
    [
        ({"insert": "y()\nz()", "after": "a()"}, "a()\ny()\n", 1),
        ({"insert": "y()\nz()", "after": "a()"}, "a(); b\na()\ny(); b()\n", 1),
        ({"insert": "x()\ny()\nz()", "before": "a()"}, "y()\nz()\na()\n", 2),
        ({"insert": "y()\nz()", "at-start-of": "def f(): ..."}, "def f():\n  'D'\n  y()\n  a\n", 1),
        ({"insert": "y()\nz()", "at-end-of": "def f(): ..."}, "def f():\n  a\n  z()\n", 1),
    ],
)
def test_a_part_of_the_code_is_no_place_for_all_of_it(edit, source, part):
    expected = {**edit, "expect": {"at-least": 1}}
    size = len(edit["insert"].splitlines())
    result = run(expected, source)
    problems = [f.problem for f in result.sites if f.problem and "shares" not in f.problem]
    assert problems == [f"{part} of the {size} statements to insert are there already"]
    assert result.view.files == {}


@pytest.mark.parametrize(
    ("code", "source", "repeat"),
    [
        ("z()", "z()\na()\n", None),
        ("z()", "a()\nb()\nz()\n", Repeat.USUAL),
        ("z()", "z()\nb()\na()\n", Repeat.USUAL),
        ("x = 1", "x = 1\nb()\na()\n", Repeat.UNUSUAL),
        ("z()\nx = 1", "z(); x = 1\nb()\na()\n", Repeat.UNUSUAL),
        ("import x", "import x\nb()\na()\n", Repeat.UNUSUAL),
        ("if x:\n  y()", "if x: y()\nb()\na()\n", Repeat.UNUSUAL),
        ("x = 1", "if b:\n  x = 1\na()\n", None),
        # That of another anchor is its own.
        ("x = 1", "x = 1\na()\na()\n", None),
        ("x = 1", "a()\nx = 1\na()\n", None),
    ],
)
def test_code_that_stands_elsewhere_in_the_block(code, source, repeat):
    result = run({"insert": code, "before": "a()", "expect": {"at-least": 1}}, source)
    assert {f.repeat for f in result.sites if f.todo} <= {repeat}
    assert [f.repeat for f in result.sites if f.repeat] == ([repeat] if repeat else [])


@pytest.mark.parametrize(
    "anchor",
    [
        "import a.b",
        "import a.b as z",
        "from a import b",
        "from a import b as z",
        "from a.b import c as d",
        "from a.b import (c, d)",
    ],
)
def test_an_import_as_anchor_may_be_spelt_otherwise(anchor):
    edit = insert("import new", before="from a.b import c")
    source = f"import os\n{anchor}\n\ng(a, b, c)\n"
    assert edited(edit, source) == source.replace(anchor, f"import new\n{anchor}")


@pytest.mark.parametrize(
    "anchor",
    ["import a", "from a.b import d", "from . import c", "from a.b import *", "import a.b.c.d"],
)
def test_an_import_of_something_else_is_no_anchor(anchor):
    edit = insert("import new", before="from a.b import c")
    assert not run(edit, f"{anchor}\ng(a, b, c)\n").sites


def test_an_import_as_the_anchor_has_it_comes_first():
    edit = insert("import new", after="from a.b import c")
    source = "import a.b\nfrom a.b import c\n"
    assert edited(edit, source) == f"{source}import new\n"
    nested = "import a.b\ndef f():\n    from a.b import c\n"
    assert edited(edit, nested) == f"{nested}    import new\n"


def test_the_first_of_several_other_imports_is_the_anchor():
    edit = insert("import a.b", before="from a.b import c")
    source = "from a import b\nfrom a.b import c as d\n"
    assert edited(edit, source) == f"import a.b\n{source}"


FIELDS = '''\
@dataclass
class Limits:
    """Limits."""

    tokens: int = 8192
    """How many tokens."""
    seqs: int = 256  # at once
    # The last.
    name: str


class Kind(Enum):
    DENSE = "dense"
    MOE = auto()
'''


@pytest.mark.parametrize(
    ("edit", "old", "new"),
    [
        # A string below a field says what it is, and stays below it.
        (
            {
                "insert": 'drafts: int = 0\n"""How many."""',
                "after": "tokens = $_",
                "within": "Limits",
            },
            '    """How many tokens."""\n',
            '    """How many tokens."""\n    drafts: int = 0\n    """How many."""\n',
        ),
        (
            {"insert": "drafts: int = 0", "after": "seqs: int = $_", "within": "Limits"},
            "  # at once\n",
            "  # at once\n    drafts: int = 0\n",
        ),
        (
            {"insert": "drafts: int", "before": "name: str", "within": "Limits"},
            "    # The last.\n",
            "    drafts: int\n    # The last.\n",
        ),
        (
            {"insert": 'HYBRID = "hybrid"', "after": "DENSE = $_", "within": "Kind"},
            "    MOE",
            '    HYBRID = "hybrid"\n    MOE',
        ),
        (
            {"insert": "HYBRID = auto()", "at-end-of": "class Kind: ..."},
            "MOE = auto()\n",
            "MOE = auto()\n    HYBRID = auto()\n",
        ),
    ],
)
def test_fields_and_members(edit, old, new):
    assert FIELDS.count(old) == 1
    assert edited(edit, FIELDS) == FIELDS.replace(old, new)


def test_a_string_goes_right_below_its_field():
    edit = {"insert": '"""At once."""', "after": "seqs = $_", "within": "Limits"}
    assert edited(edit, FIELDS) == FIELDS.replace("at once\n", 'at once\n    """At once."""\n')


AT_END = {"insert": "def new():\n    return 1\n", "at-end-of": "module", "files": "*"}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("def f():\n    pass\n", "def f():\n    pass\n\n\ndef new():\n    return 1\n"),
        ("x = 1\n# the end\n", "x = 1\n\n\ndef new():\n    return 1\n# the end\n"),
        ("x = 1\n\n\ndef new():\n    return 1\n", "x = 1\n\n\ndef new():\n    return 1\n"),
    ],
)
def test_at_the_end_of_a_module(before, after):
    assert edited(AT_END, before) == after
    assert edited(AT_END, after) == after


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("def new():\n    return 1\n\n\nx = 1\n", "another definition of new is already there"),
        ("f()\nexit()\n", "is never reached, because of `exit()`"),
    ],
)
def test_the_end_of_a_module_is_in_the_way(source, problem):
    assert problem in str(run(AT_END, source).mismatch)
