"""Statements that follow each other: rewritten, wrapped, moved, deleted."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers import decide, edited, edits_of, fails, patch_of, run, tree_of
from tests.test_properties import AT_TOP, IN_BODY, PROPERTY, TRAILING, reformat, some
from tests.test_properties import body as lines_of
from vpatch.planning.state import State


def rewrite(find, new, **keys):
    return {"find": find, "rewrite": new, **keys}


def delete(find, **keys):
    return {"delete": find, **keys}


def body(text):
    """The statements of a function f."""
    return "def f():\n" + "".join(f"    {line}\n" if line else "\n" for line in text.split("\n"))


@pytest.mark.parametrize(
    ("find", "before", "after"),
    [
        ("x = 1", "a\nx = 1\ny", "a\ny"),
        ("x = 1\ny = $_", "a\nx = 1\ny = 2\nz", "a\nz"),
        ("f($x, ...)", "a\nf(\n    1,\n    2,\n)\nz", "a\nz"),
        # No blank line is doubled, and none gets to the beginning or the end of a block.
        ("x = 1", "a\n\nx = 1\n\ny", "a\n\ny"),
        ("x = 1", "a\n\nx = 1\ny", "a\n\ny"),
        ("x = 1", "a\nx = 1\n\ny", "a\n\ny"),
        ("x = 1", "x = 1\n\ny", "y"),
        ("x = 1", "a\n\nx = 1", "a"),
        # Comments above stay, also where nothing else does.
        ("x = 1", "a\n# why\nx = 1\ny", "a\n# why\ny"),
        ("x = 1\ny = 2", "a\nx = 1\n# why\ny = 2\nz", "a\n# why\nz"),
        ("x = 1", "a\n\n# why\nx = 1", "a\n# why"),
        ("x = 1", "x = 1", "pass"),
        ("x = 1", "# why\nx = 1", "# why\npass"),
        ("x = 1", "if a:\n    x = 1\nelse:\n    b", "if a:\n    pass\nelse:\n    b"),
        # A line that others share is cut.
        ("x = 1", "a; x = 1; y  # c", "a\ny  # c"),
        ("x = 1", "# c\nx = 1; a;  y", "# c\na;  y"),
        ("x = 1\ny", "x = 1; y; z", "z"),
        # Statements with blocks.
        ("if a: ...", "if a:\n    b\n    c\nd", "d"),
        ("if a: ...\nelse: ...", "if a:\n    b\nelse: c\nd", "d"),
        ("for i in $x:\n    $x.f(i)", "for i in a: a.f(i)\nd", "d"),
    ],
)
def test_delete(find, before, after):
    edit = delete(find, within="f")
    assert edited(edit, body(before)) == body(after)
    crlf = body(before).replace("    ", "\t").replace("\n", "\r\n")
    assert edited(edit, crlf) == body(after).replace("    ", "\t").replace("\n", "\r\n")


@pytest.mark.parametrize(
    ("find", "before", "after"),
    [
        ("import a", "import a\nimport b\n", "import b\n"),
        ("import a", "# head\n\nimport a\nx\n", "# head\n\nx\n"),
        ("import a", "import a\n", ""),
        ("import a", "b\n# why\nimport a\n", "b\n# why\n"),
        (
            "def g(...): ...",
            "x = 1\n\n\n@d\ndef g(a: int) -> T:\n    return a\n\n\nclass C: pass\n",
            "x = 1\n\n\nclass C: pass\n",
        ),
        ("def g(...): ...", "class C:\n    def g(self): pass\n", "class C:\n    pass\n"),
    ],
)
def test_delete_in_a_module_or_a_class(find, before, after):
    assert edited(delete(find), before) == after


def test_delete_a_definition_within_itself():
    source = "def g(): a\nclass C:\n    def g(self): b\n    x = 1\n"
    edit = delete("def g(...): ...", within="C.g")
    assert edited(edit, source) == "def g(): a\nclass C:\n    x = 1\n"


def test_delete_with_comments():
    before = "a\n\n# other\n\n# why\n# so\nx = 1  # then\n\n# below\ny"
    edit = delete("x = 1", **{"with-comments": True})
    assert edited(edit, body(before)) == body("a\n\n# other\n\n# below\ny")
    source = body("if a:\n    # why\n    b  # so\ny")
    assert edited(delete("if a: ...", **{"with-comments": True}), source) == body("y")


def test_delete_more_than_one():
    edit = delete("f($x)", where={"$x": ["1", "2"]}, expect=3)
    source = body("f(1)\nf(2)\nf(3)\nif a:\n    f(1)")
    assert edited(edit, source) == body("f(3)\nif a:\n    pass")


@pytest.mark.parametrize(
    ("find", "before", "message"),
    [
        ("x = 1", "a\nx = 1  # why", "would drop the comment '# why'"),
        ("if a: ...", "if a:\n    # why\n    b", "would drop the comment '# why'"),
        ("if a: ...", "if a:\n    b\nelse:\n    c", "has an else that the pattern leaves out"),
        ("if a: ...", "if a:\n    b\nelif c:\n    d", "has an else that the pattern leaves out"),
        ("for i in a: ...", "for i in a:\n    b\nelse:\n    c", "has an else"),
        ("try: ...\nexcept E: ...", "try: a\nexcept E: b\nfinally: c", "has an finally"),
        ("if a: ...", "if b:\n    c\nelif a:\n    d", "is an elif"),
        ("x = 1", "if a: x = 1", "is on the line of a block's header"),
    ],
)
def test_what_is_not_deleted(find, before, message):
    result = run(delete(find), body(before))
    assert message in result.mismatch
    assert result.view.files == {}


@pytest.mark.parametrize("find", ["...", "x = 1\n...\ny = 2", "...\nx = 1"])
def test_delete_says_what_goes(find):
    with pytest.raises(Exception, match=r"would match everything|nobody named"):
        edits_of(delete(find))


def test_nothing_shows_that_a_statement_was_there(tmp_path):
    edit = delete("x = 1", within="f")
    source = body("a\nx = 1")
    assert run(edit, body("a")).mismatch == "expected 1, found 0"
    patch = patch_of(tmp_path, concerns={"find": "def f(...): ..."}, edits=[edit])
    assert decide(patch, tree_of({"vllm/m.py": source})).state is State.NEEDED
    assert decide(patch, tree_of({"vllm/m.py": body("a")})).state is State.CONFLICT
    carried = tree_of({"vllm/m.py": body("a")}, carried=["fix"])
    assert decide(patch, carried).state is State.APPLIED
    again = tree_of({"vllm/m.py": source}, carried=["fix"])
    assert decide(patch, again).state is State.CONFLICT
    effect = {"none": [{"find": "x = 1", "within": "f"}]}
    told = patch_of(tmp_path, concerns={"find": "def f(...): ..."}, edits=[edit], effect=effect)
    assert decide(told, tree_of({"vllm/m.py": source})).state is State.NEEDED
    assert decide(told, tree_of({"vllm/m.py": body("a")})).state is State.UPSTREAMED


@pytest.mark.parametrize(
    ("find", "new", "before", "after"),
    [
        # One into several.
        ("x = 1", "x = 1\ny = 2", "a\n\n# c\nx = 1  # t\n\nz", "a\n\n# c\nx = 1  # t\ny = 2\n\nz"),
        ("x = $a", "y = 2\nx = $a", "a\n\nx = 1  # t\nz", "a\n\ny = 2\nx = 1  # t\nz"),
        ("x = 1", "y = 2\nx = 1", "a\n\n# c\nx = 1", "a\n\ny = 2\n\n# c\nx = 1"),
        (
            "return f($x)",
            "y = f($x)\nif y is None:\n    y = 0\nreturn y",
            "# c\nreturn f(1)",
            "# c\ny = f(1)\nif y is None:\n    y = 0\nreturn y",
        ),
        ("f($x)", "# new\ng($x)\nh($x)", "# c\nf(1)\nz", "# c\n# new\ng(1)\nh(1)\nz"),
        # Several into one, or into others.
        ("x = $a\ny = $b", "x, y = $a, $b", "a\n\nx = 1\ny = 2\nz", "a\n\nx, y = 1, 2\nz"),
        ("x = 1\ny = 2", "z = 3", "a\n\n# c\nx = 1\n# d\ny = 2\nw", "a\n\n# c\n# d\nz = 3\nw"),
        (
            "x = $a\nx.f($b)",
            "x = $a\nx.g($b, k=1)\nx.h()",
            "x = 1  # c\n\nx.f(  # w\n    2,\n)  # k\nz",
            "x = 1  # c\n\nx.g(  # w\n    2,\n    k=1,\n)  # k\nx.h()\nz",
        ),
        # What is between stays, with its comments.
        (
            "x = $a\n...\nx.f($b)",
            "x = $a\n...\nx.g($b)",
            "x = 1\n\n# why\ny = 2  # t\nx.f(3)\nx.h(4)",
            "x = 1\n\n# why\ny = 2  # t\nx.g(3)\nx.h(4)",
        ),
        (
            "a()\nx = 1",
            "a()\nx = 2",
            "x = 1\na()\nx = 1\nb()\nx = 1",
            "x = 1\na()\nx = 2\nb()\nx = 1",
        ),
        ("a()\nb()", "b()\na()", "# a\na()\nb()  # b", "b()  # b\n# a\na()"),
        ("a\nx = 1\nb", "a\nb", "a  # a\n\nx = 1\nb", "a  # a\n\nb"),
        # Into a block, and out of it.
        (
            "x = g($a)",
            "if c:\n    x = g($a)\nelse:\n    x = None",
            "a\n\n# why\nx = g(\n    1,  # one\n)  # t\ny",
            "a\n\n# why\nif c:\n    x = g(\n        1,  # one\n    )  # t\nelse:\n    x = None\ny",
        ),
        (
            "x = g($a)\n...\ny",
            "with c:\n    x = g($a)\n    ...\n    y",
            "b\n\nx = g(1)\n\n# z\nz  # z\ny\nw",
            "b\n\nwith c:\n    x = g(1)\n\n    # z\n    z  # z\n    y\nw",
        ),
        (
            "x = g(...)\n...",
            "try:\n    x = g(...)\n    ...\nfinally:\n    h()",
            "b\nx = g(1,  2)\nif z:\n    # z\n    w",
            "b\ntry:\n    x = g(1,  2)\n    if z:\n        # z\n        w\nfinally:\n    h()",
        ),
        (
            "for i in $x: ...",
            "if $x: \n    for i in $x: ...",
            "for i in y:\n    z(i)  # z\nelse:\n    w",
            "if y: \n    for i in y:\n        z(i)  # z\n    else:\n        w",
        ),
        (
            "if c: ...",
            "...",
            "a\n# w\nif c:\n    x  # x\n\n    # y\n    y\nz",
            "a\n# w\nx  # x\n\n# y\ny\nz",
        ),
        ("with $_ as y:\n    x\n    ...", "...\nx", "with b as y: x; z", "z\nx"),
        (
            "if c:\n    x\n    ...",
            "if d:\n    ...\n    x",
            "if c:\n    x  # x\n    y",
            "if d:\n    y\n    x  # x",
        ),
        (
            "a\nb",
            "if c:\n    a\n    x\nelse:\n    b",
            "a  # 1\nb  # 2",
            "if c:\n    a  # 1\n    x\nelse:\n    b  # 2",
        ),
        # On a line that others share.
        ("x\ny", "y\nz", "a; x; y; b  # c", "a\ny\nz\nb  # c"),
    ],
)
def test_rewrite(find, new, before, after):
    edit = rewrite(find, new)
    assert edited(edit, body(before)) == body(after)
    tabs = body(before).replace("    ", "\t").replace("\n", "\r\n")
    made = edited({**edit, "rewrite": new.replace("    ", "\t")}, tabs)
    assert made == body(after).replace("    ", "\t").replace("\n", "\r\n")


def test_new_definitions_have_blank_lines():
    edit = rewrite("class A: ...", "class A: ...\nclass B:\n    x = 1")
    before = "class A:\n    y\n\n\nclass C: z\n"
    assert edited(edit, before) == "class A:\n    y\n\n\nclass B:\n    x = 1\n\n\nclass C: z\n"


@pytest.mark.parametrize(
    ("find", "new", "there", "shown"),
    [
        # The new code holds the old, or a statement of it.
        ("x = 1", "x = 1\ny = 2", "x = 1\ny = 2", True),
        ("x = f($a)", "if c:\n    x = f($a)", "if c: x = f(1)", True),
        ("a()\nx = 1", "a()\nx = 2", "a()\nx = 2", True),
        # It holds nothing of it, or nothing else.
        ("x = 1\ny = 2", "z = 3", "z = 3", False),
        ("a()\nx = 1", "a()", "a()", False),
        ("if c:\n    x = 1", "x = 1", "x = 1", False),
        ("a()\nb()", "b()\na()", "b()\na()", False),
    ],
)
def test_new_code_that_is_there(find, new, there, shown):
    for source in (body(there), f"class C:\n    def f(self):\n        q\n        {there}\n"):
        if "\n" in there and "class" in source:
            continue
        result = run(rewrite(find, new), source)
        assert (result.mismatch is None) == shown
        assert not result.todo
        carried = run(rewrite(find, new), source, carried=True)
        assert (carried.mismatch, carried.todo) == (None, False)


def test_new_code_that_is_never_reached_is_not_done():
    result = run(rewrite("x = 1", "x = 1\ny = 2"), body("return\nx = 1\ny = 2"))
    assert result.mismatch == "expected 1, found 0"


def test_old_code_behind_new_code_is_to_do():
    edit = rewrite("a\nb", "b", expect={"at-least": 1})
    assert edited(edit, body("b\na\nb\nb")) == body("b\nb\nb")


def test_new_statements_that_are_elsewhere_in_the_block(tmp_path):
    edit = rewrite("x = 1", "x = 1\ny = 2")
    patch = patch_of(tmp_path, edits=[edit])
    decision = decide(patch, tree_of({"vllm/m.py": body("x = 1\na\ny = 2")}))
    assert decision.state is State.CONFLICT
    assert "the same code is at another place" in decision.reason


@pytest.mark.parametrize(
    ("find", "new", "before", "message"),
    [
        ("x = 1\ny = 2", "z = 3", "x = 1  # why\ny = 2", "would drop the comment '# why'"),
        (
            "if c: ...",
            "...",
            "if c:\n    x\nelse:\n    z",
            "would drop what the pattern leaves out",
        ),
        ("if c: ...", "...", "if c:  # why\n    x", "would drop the comment '# why'"),
        ("x = 1\ny", "y\nz", "x: int = 1\ny", "would drop what the pattern leaves out"),
        ("x", "x\ny", "if a: x", "is on the line of a block's header"),
        ("if a: x", "x", "if b:\n    y\nelif a:\n    x", "nothing but another elif"),
        ("g($a)", "import x as $a\ny", "g(1)", "is not Python there"),
    ],
)
def test_what_is_not_rewritten(find, new, before, message):
    result = run(rewrite(find, new), body(before))
    assert message in result.mismatch
    assert result.view.files == {}


@pytest.mark.parametrize(
    ("find", "new", "message"),
    [
        ("x = 1\ny = 2", "x = 1; y = 2", "nothing would change"),
        ("x = f(...)\ny", "x = g()\ny", "would be lost"),
        ("x\n...\ny", "x\ny", "would be lost"),
        ("x\ny", "x\n...\ny", "would be lost"),
        ("x = f(...)", "if a:\n    x = f(..., 1)\nelse:\n    x = f(...)", "would be lost"),
        ("if a: ...\nelse: ...", "...", "would be lost"),
        ("...", "x\ny", "would match everything"),
        ("$x", "y\n$x", "would match everything"),
        ("...\n...", "x", "would match everything"),
    ],
)
def test_rewrites_that_are_refused(find, new, message):
    with pytest.raises(Exception, match=message):
        edits_of(rewrite(find, new))


def test_unknown_metavariable():
    with fails("codemods.unknown-metavariable", r"\$y: in the new code"):
        edits_of(rewrite("f($x)\ng()", "g($y)"))
    with fails("codemods.unknown-metavariable", r"has no \$y"):
        edits_of(delete("f($x)", where={"$y": ["1"]}))


def test_near_code_is_told_by_the_statement_with_the_most_names(tmp_path):
    edit = rewrite("x = 1\nself.proj = ReplicatedLinear($a, $b)", "y")
    patch = patch_of(tmp_path, edits=[edit])
    source = body("self.proj = ReplicatedLinear(1)")
    decision = decide(patch, tree_of({"vllm/m.py": source}))
    found = [finding.what for finding in decision.findings]
    assert "nearest: self.proj = ReplicatedLinear(1)" in found


TARGETS = ["self.y = make(a, 'b', k=1)", "make(a)", "assert make", "del make[0]", "y: T = make"]
INSIDE = st.sampled_from(["", " ", "\n        ", "  # inside\n"])


@st.composite
def methods(draw):
    """What is above a statement of a method, the statement, and what is below."""
    top = "".join(draw(some(AT_TOP))) + "class C:\n    def m(self):\n"
    above = lines_of(draw(some(IN_BODY)))
    target = draw(st.sampled_from(TARGETS))
    made = reformat(draw, target, inside=INSIDE)
    below = draw(TRAILING) + "".join(f"        {each}" for each in draw(some(IN_BODY)))
    return top + above, target, made, f"{below}        z\n" + "".join(draw(some(AT_TOP)))


def written(lines):
    return [line.strip() for line in lines.splitlines() if line.strip()]


@pytest.mark.slow
@PROPERTY
@given(parts=methods(), everything=st.booleans())
def test_delete_leaves_all_else_as_it_is(parts, everything):
    above, target, made, below = parts
    edit = delete(target, within="C.m", **{"with-comments": everything})
    before = f"{above}{made}{below}"
    result = run(edit, before)
    if result.mismatch is not None:
        assert "would drop the comment" in result.mismatch
        assert not everything
        assert "#" in made + below.partition("\n")[0]
        return
    after = result.view.read("vllm/m.py").decode()
    assert ast.dump(ast.parse(after)) == ast.dump(ast.parse(f"{above}{below.lstrip(' ')}")), after
    if everything:
        return
    assert written(after) == written(above + below)
    again = run(edit, after, carried=True)
    assert (again.mismatch, again.todo) == (None, False)


@pytest.mark.slow
@PROPERTY
@given(parts=methods(), to_end=st.booleans())
def test_wrapped_statements_stay_as_they_are(parts, to_end):
    above, target, made, below = parts
    gap = "\n..." if to_end else ""
    inner = target + gap.replace("\n", "\n    ")
    edit = rewrite(f"{target}{gap}", f"with lock:\n    {inner}", within="C.m")
    before = f"{above}{made}{below}"
    result = run(edit, before)
    assert result.mismatch is None, result.mismatch
    after = result.view.read("vllm/m.py").decode()
    # Nothing but the new line is there more, and all lines are in order.
    assert [line for line in written(after) if line != "with lock:"] == written(before)
    assert after.count("with lock:") == 1
    (block,) = [one for one in ast.walk(ast.parse(after)) if isinstance(one, ast.With)]
    assert ast.dump(block.body[0]) == ast.dump(ast.parse(target).body[0])
    assert len(block.body) == 1 or to_end
    again = run(edit, after)
    assert (again.mismatch, again.todo) == (None, False)
    # And out of the block again.
    out = run(rewrite("with lock: ...", "...", within="C.m"), after)
    assert written(out.view.read("vllm/m.py").decode()) == written(before)


@pytest.mark.slow
@PROPERTY
@given(parts=methods())
def test_new_statements_leave_all_else_as_it_is(parts):
    above, target, made, below = parts
    edit = rewrite(target, f"first(1)\n{target}\nlast(2)", within="C.m")
    before = f"{above}{made}{below}"
    result = run(edit, before)
    assert result.mismatch is None, result.mismatch
    after = result.view.read("vllm/m.py").decode()
    new = {"first(1)", "last(2)"}
    assert [line for line in written(after) if line not in new] == written(before)
    text = ast.unparse(ast.parse(after))
    assert f"first(1)\n        {ast.unparse(ast.parse(target))}\n        last(2)" in text
    again = run(edit, after)
    assert (again.mismatch, again.todo) == (None, False)
