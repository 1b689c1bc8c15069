"""Whatever the code: what is reached, what a pattern finds, and what a rewrite leaves alone."""

from __future__ import annotations

import ast
import dis
import re
import textwrap

import libcst as cst
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.helpers import run
from tests.test_properties import INSIDE, reformat
from vpatch.codemods.flow import barrier
from vpatch.codemods.pattern import PatternError, parse_pattern

PROPERTY = settings(
    max_examples=50,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


THOROUGH = settings(PROPERTY, max_examples=150)


def is_python(code):
    try:
        ast.parse(code)
    except SyntaxError:
        return False
    return True


def indented(body):
    return textwrap.indent(body, "    ")


def compound(block):
    """Statements with blocks, of blocks."""
    orelse = st.one_of(st.just(""), block.map(lambda body: f"else:\n{indented(body)}"))
    final = st.one_of(st.just(""), block.map(lambda body: f"finally:\n{indented(body)}"))
    test = st.sampled_from(["x", "True", "False"])
    return st.one_of(
        st.builds(lambda t, a, b: f"if {t}:\n{indented(a)}{b}", test, block, orelse),
        st.builds(lambda t, a, b: f"while {t}:\n{indented(a)}{b}", test, block, orelse),
        st.builds(lambda a: f"while True:\n{indented(a)}", block),
        st.builds(lambda a, b: f"for i in x:\n{indented(a)}{b}", block, orelse),
        st.builds(
            lambda a, b, c, d: f"try:\n{indented(a)}except E:\n{indented(b)}{c}{d}",
            block,
            block,
            orelse,
            final,
        ),
        st.builds(lambda a, b: f"try:\n{indented(a)}finally:\n{indented(b)}", block, block),
        st.builds(lambda a: f"def g():\n{indented(a)}", block),
    )


SIMPLE = st.sampled_from(["a()\n", "return x\n", "break\n", "if x:\n    break\n", "continue\n"])
BLOCK = st.recursive(
    SIMPLE,
    lambda block: st.lists(st.one_of(SIMPLE, compound(block)), min_size=1, max_size=2).map("".join),
    max_leaves=6,
)


def is_reached_by_python(body):
    """Whether Python's compiler keeps what stands behind the body: it leaves out dead code."""
    source = f"def f(x):\n{indented(body)}    marker()\n"
    module = compile(source, "x", "exec", dont_inherit=True, optimize=0)
    (code,) = (c for c in module.co_consts if hasattr(c, "co_code"))
    return any(instruction.argval == "marker" for instruction in dis.get_instructions(code))


def compiles(body):
    try:
        ast.parse(f"def f(x):\n{indented(body)}")
        compile(f"def f(x):\n{indented(body)}", "x", "exec", dont_inherit=True)
    except SyntaxError:
        return False
    return True


@PROPERTY
@given(body=BLOCK.filter(compiles))
def test_what_is_reached_is_what_python_s_compiler_keeps(body):
    reached = barrier(cst.parse_module(body).body) is None
    assert reached == is_reached_by_python(body), body


NAMES = [f"p{number}" for number in range(6)]


@st.composite
def parameters(draw):
    """Parameters in an order that Python takes, as texts."""
    names = NAMES[: draw(st.integers(0, 6))]
    plain = draw(st.integers(0, len(names)))
    keywords = draw(st.integers(plain, len(names)))
    items = [name + draw(st.sampled_from(["", ": int"])) for name in names[:plain]]
    items += [
        name + draw(st.sampled_from(["=1", ": str = (2, 3)"])) for name in names[plain:keywords]
    ]
    star = draw(st.sampled_from(["*", "*args"])) if keywords < len(names) else ""
    items += [star] if star else []
    items += [name + draw(st.sampled_from(["", "=[4]"])) for name in names[keywords:]]
    return items + draw(st.sampled_from([[], ["**kwargs"]]))


@PROPERTY
@given(data=st.data(), items=parameters())
def test_a_gap_may_stand_for_any_run_of_parameters(data, items):
    draw = data.draw
    code = f"def f({', '.join(items)}): pass"
    start = draw(st.integers(0, len(items)))
    end = draw(st.integers(start, len(items)))
    rest = items[end:]
    # A bare * needs a name behind it, and nothing stands behind **kwargs.
    left = [*items[:start], "...", *rest]
    pattern = f"def f({', '.join(left)}): ..."
    # A gap is read as one parameter: in the place of *, it may leave an order that is not Python's.
    if "**kwargs" in items[:start] or not is_python(
        f"def f({', '.join(left).replace('...', 'gap')}): ..."
    ):
        return
    (node,) = cst.parse_module(code).body
    assert parse_pattern(pattern).match(node) is not None, (pattern, code)
    # A parameter that is not there is not found.
    other = f"def f({', '.join([*items[:start], '...', 'zz', *rest])}): ..."
    try:
        found = parse_pattern(other)
    except Exception:  # noqa: BLE001 - not every order is Python's
        return
    assert found.match(node) is None, (other, code)


@pytest.mark.slow
@THOROUGH
@given(data=st.data(), items=parameters())
def test_a_new_parameter_leaves_the_others_as_they_are(data, items):
    draw = data.draw
    head = reformat(draw, f"def f({', '.join(items)}):", is_def=True, inside=INSIDE)
    before = f"{head} pass\n"
    edit = {"find": "def f(...): ...", "rewrite": "def f(new, ...): ..."}
    result = run(edit, before)
    assert result.mismatch is None, result.mismatch
    after = result.view.read("vllm/m.py").decode()
    wanted = ast.parse(f"def f({', '.join(['new', *items])}): pass")
    assert ast.dump(ast.parse(after)) == ast.dump(wanted)
    # Every byte stays, but for what is put between the bracket and the first parameter.
    at = before.index("(") + 1
    assert after.startswith(before[:at])
    assert after.endswith(before[at:].lstrip()) or "#" in before
    again = run(edit, after, carried=True)
    assert (again.mismatch, again.todo) == (None, False)


@st.composite
def other_parameters(draw, items):
    """A change of one parameter: a pattern with gaps, new code, and the parameters after it."""
    named = [i for i, item in enumerate(items) if item.startswith("p")]
    i = draw(st.sampled_from(named))
    name, _, default = items[i].partition("=")
    name = name.partition(":")[0].strip()
    says = f"{name}={default.strip()}" if default else name
    kind = draw(st.sampled_from(["goes", "moves", "gets a default", "gets an annotation"]))
    if kind == "goes":
        return says, "", [*items[:i], *items[i + 1 :]]
    if kind == "moves" and i + 1 in named:
        after = items[i + 1].partition(":")[0].partition("=")[0]
        has = items[i + 1].partition("=")[2].strip()
        other = f"{after}={has}" if has else after
        moved = [*items[:i], items[i + 1], items[i], *items[i + 2 :]]
        return f"{says}, {other}", f"{other}, {says}", moved
    if kind == "gets a default" or ":" in items[i]:
        head = items[i].partition("=")[0].strip()
        return says, f"{name}=9", [*items[:i], f"{head}=9", *items[i + 1 :]]
    new = f"{name}: T" + (f" = {default.strip()}" if default else "")
    return says, new, [*items[:i], new, *items[i + 1 :]]


@pytest.mark.slow
@THOROUGH
@given(data=st.data(), items=parameters().filter(lambda items: any(i[0] == "p" for i in items)))
def test_a_change_of_a_parameter_leaves_the_others_as_they_are(data, items):
    draw = data.draw
    old, new, wanted = draw(other_parameters(items))
    while wanted and wanted[-1] == "*":
        wanted.pop()
    wanted = [w for i, w in enumerate(wanted) if w != "*" or not wanted[i + 1].startswith("**")]
    middle = f"..., {new}, ..." if new else "..."
    find, rewrite = f"def f(..., {old}, ...): ...", f"def f({middle}): ..."
    head = reformat(draw, f"def f({', '.join(items)}):", is_def=True, inside=INSIDE)
    before = f"{head} pass\n"
    try:
        result = run({"find": find, "rewrite": rewrite}, before)
    except PatternError:  # as where nothing would change, or what is not Python's order
        return
    code = f"def f({', '.join(wanted)}): pass\n"
    if result.mismatch is not None:
        comment = "would drop the comment" in result.mismatch and "#" in before
        assert comment or not is_python(code), (result.mismatch, find, rewrite, before)
        return
    after = result.view.read("vllm/m.py").decode()
    if not is_python(code):
        assert not is_python(after)
        return
    assert ast.dump(ast.parse(after)) == ast.dump(ast.parse(code)), (find, rewrite, before, after)
    assert after.count("#") == before.count("#")
    again = run({"find": find, "rewrite": rewrite}, after, carried=True)
    assert (again.mismatch, again.todo) == (None, False), (find, rewrite, before, after)


ENTRIES = {"list": "[]", "tuple": "()", "set": "{}", "dict": "{}"}


def literal(kind, items):
    comma = "," if kind == "tuple" and len(items) == 1 else ""
    return f"{ENTRIES[kind][0]}{', '.join(items)}{comma}{ENTRIES[kind][1]}"


def written(draw, kind, items):
    """The literal on one line, or with an entry on each line, comments and blank lines."""
    if draw(st.booleans()):
        return f"x = {literal(kind, items)}\n"
    ends_with_comma = draw(st.booleans()) or (kind == "tuple" and len(items) == 1)
    lines = []
    for number, item in enumerate(items):
        lines += draw(st.sampled_from([[], [""], [f"# above {item}"], ["", f"# above {item}"]]))
        comma = "," if ends_with_comma or number < len(items) - 1 else ""
        lines.append(item + comma + draw(st.sampled_from(["", f"  # behind {item}"])))
    lines += draw(st.sampled_from([[], ["# last"]]))
    opening, closing = ENTRIES[kind]
    return "\n".join([f"x = {opening}", *(f"    {line}".rstrip() for line in lines), closing, ""])


@PROPERTY
@given(data=st.data(), kind=st.sampled_from(sorted(ENTRIES)), number=st.integers(1, 5))
def test_a_change_of_entries_leaves_the_others_as_they_are(data, kind, number):
    draw = data.draw
    form = '"{0}": {0}' if kind == "dict" else "{0}"
    *items, new, other = [form.format(f"e{n}") for n in range(number + 2)]
    at = draw(st.integers(0, number - 1))
    named = items[at]
    around = items[:at], items[at + 1 :]
    gaps = [["..."] if side or draw(st.booleans()) else [] for side in around]
    changes = [[new, named], [named, new], [new], [named, new, other], [new, other], []]
    change = draw(st.sampled_from(changes))
    edit = {
        "find": f"x = {literal(kind, [*gaps[0], named, *gaps[1]])}",
        "rewrite": f"x = {literal(kind, [*gaps[0], *change, *gaps[1]])}",
    }
    before = written(draw, kind, items)
    if not any(gaps) or (not change and kind == "set"):
        return
    result = run(edit, before)
    if result.mismatch is not None:
        # Nothing is left that the comment behind an entry could be behind.
        assert not change, (result.mismatch, edit, before)
        assert f"behind {named}" in before, (result.mismatch, edit, before)
        return
    after = result.view.read("vllm/m.py").decode()
    wanted = ast.parse(f"x = {literal(kind, [*around[0], *change, *around[1]])}")
    assert ast.dump(ast.parse(after)) == ast.dump(wanted), (edit, before, after)
    assert sorted(re.findall("#.*", after)) == sorted(re.findall("#.*", before)), (edit, after)
    for item in {*items} - {named}:
        if f"# above {item}\n" in before:
            assert f"# above {item}\n    {item}" in after, (edit, before, after)
        if f"# behind {item}\n" in before:
            assert re.search(rf"^ *{re.escape(item)},?  # behind", after, re.MULTILINE), after
    again = run(edit, after, carried=True)
    assert (again.mismatch, again.todo) == (None, False), (edit, before, after)
