from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers import decide, fails, patch_of, patched, tree_of
from vpatch.planning.plan import plan
from vpatch.planning.relations import order
from vpatch.planning.state import State
from vpatch.source.searched import SearchedTree

REWRITE = {"find": "f($x)", "rewrite": "g($x)"}
ADDING = {"find": "f($x)", "rewrite": "f($x, a)"}
PREFIX = {"find": "x = L(...)", "add-keyword": {"prefix": "'p'"}}
DTYPE = {"find": "x = L(...)", "add-keyword": {"dtype": "D"}}
MODULE = "vllm/m.py"


def states(patches, tree):
    return {d.patch.id: d.state.value for d in plan(patches, tree).decisions}


def where(decision, what=""):
    return [f.where for f in decision.findings if what in f.what]


def test_needed(tmp_path):
    patch = patch_of(tmp_path, edits=[REWRITE])
    decision = decide(patch, tree_of({MODULE: "# f\n\nf(1)\n", "vllm/n.py": "x\n"}))
    assert decision.state is State.NEEDED
    assert decision.reason == "1 place to edit in 1 file"
    assert {p: c.after for p, c in decision.changes.items()} == {MODULE: b"# f\n\ng(1)\n"}
    assert decision.changes[MODULE].before == b"# f\n\nf(1)\n"
    assert where(decision, "rewrite") == ["vllm/m.py:3"]


def test_lines_are_only_looked_up_when_asked_for(tmp_path):
    patch = patch_of(tmp_path, edits=[REWRITE])
    assert plan([patch], tree_of({MODULE: "f(1)\n"})).decisions[0].findings == ()


def test_pattern_that_matches_twice(tmp_path):
    decision = decide(patch_of(tmp_path, edits=[REWRITE]), tree_of({MODULE: "f(1)\n\nf(2)\n"}))
    assert (decision.state, decision.changes) == (State.CONFLICT, {})
    assert "expected 1, found 2" in decision.reason
    assert where(decision, "to do") == ["vllm/m.py:1", "vllm/m.py:3"]


def test_target_renamed(tmp_path):
    patch = patch_of(tmp_path, concerns={"text": "class Layer"}, edits=[PREFIX])
    source = "class Layer:\n    def __init__(self):\n        x2 = L(1, 2)\n"
    decision = decide(patch, tree_of({MODULE: source}))
    assert decision.state is State.CONFLICT
    assert "expected 1, found 0" in decision.reason
    assert where(decision, "nearest: x2 = L(1, 2)") == ["vllm/m.py:3"]


def test_file_moved(tmp_path):
    patch = patch_of(tmp_path, edits=[REWRITE])
    decision = decide(patch, tree_of({"vllm/deep/er/moved.py": "f(1)\n"}))
    assert decision.state is State.NEEDED
    assert list(decision.changes) == ["vllm/deep/er/moved.py"]


def test_absent(tmp_path):
    patch = patch_of(tmp_path, concerns={"find": "class Layer: ..."}, edits=[REWRITE])
    decision = decide(patch, tree_of({MODULE: "f(1)\n"}))
    assert decision.state is State.ABSENT
    assert decision.reason == "the tree does not have the code class Layer: ..."


@pytest.mark.parametrize(("carried", "state"), [((), "upstreamed"), (("fix",), "applied")])
def test_applied_twice(tmp_path, carried, state):
    patch = patch_of(tmp_path, edits=[ADDING, {**PREFIX, "expect": 2}])
    tree = tree_of({MODULE: "f(1)\r\nx = L()\r\nx = L(\r\n\t1,\r\n)"})
    first = plan([patch], tree)
    assert first.taken
    second = plan([patch], patched(tree, first, carried=carried))
    assert [(d.state.value, dict(d.changes)) for d in second.decisions] == [(state, {})]


def test_upstream_has_some_of_it(tmp_path):
    patch = patch_of(tmp_path, edits=[{**PREFIX, "any-value": True, "expect": 3}])
    tree = tree_of({MODULE: "x = L()\nx = L(prefix=q)\n", "vllm/n.py": "x = L(prefix='f')\n"})
    decision = decide(patch, tree)
    assert (decision.state, decision.reason) == (State.NEEDED, "1 place to edit in 1 file")
    assert list(decision.changes) == [MODULE]
    assert where(decision, "to do") == ["vllm/m.py:1"]
    assert {"vllm/m.py:2", "vllm/n.py:1"} <= set(where(decision, "there"))


def test_two_patches_edit_the_same_call(tmp_path):
    one = patch_of(tmp_path, "one", concerns={"text": "L"}, edits=[PREFIX])
    two = patch_of(tmp_path, "two", concerns={"text": "L"}, edits=[DTYPE])
    tree = tree_of({MODULE: "x = L(\n    1,  # why\n)\n"})
    made = plan([one, two], tree)
    assert [d.state for d in made.decisions] == [State.NEEDED] * 2
    assert patched(tree, made).read(MODULE) == (
        b"x = L(\n    1,  # why\n    prefix='p',\n    dtype=D,\n)\n"
    )
    # The second starts from what the first leaves.
    assert made.decisions[1].changes[MODULE].before == made.decisions[0].changes[MODULE].after


def test_second_patch_no_longer_fits(tmp_path):
    one = patch_of(tmp_path, "one", edits=[REWRITE])
    two = patch_of(
        tmp_path, "two", concerns={"text": "("}, edits=[{"find": "f($x)", "rewrite": "h($x)"}]
    )
    made = plan([one, two], tree_of({MODULE: "f(1)\n"}), findings_for="all")
    assert [d.state for d in made.decisions] == [State.NEEDED, State.CONFLICT]
    assert "fits the pristine tree, but not after one: rewrite f($x)" in made.decisions[1].reason
    assert made.stopping(asked_for=False) == made.decisions[1:]


def test_first_patch_spoils_the_count_of_another_file(tmp_path):
    one = patch_of(
        tmp_path,
        "one",
        concerns={"text": "h"},
        edits=[{"find": "h($x)", "rewrite": "f($x)", "files": "*/n.py"}],
    )
    two = patch_of(tmp_path, "two", edits=[REWRITE])
    made = plan([one, two], tree_of({MODULE: "f(1)\n", "vllm/n.py": "h(1)\n"}))
    assert made.decisions[1].state is State.CONFLICT
    assert "not after one: " in made.decisions[1].reason


@pytest.mark.parametrize(
    "two",
    [
        # Its work is done, but not by upstream.
        {"concerns": {"text": "g"}, "edits": [REWRITE]},
        # Its code is gone, but was there.
        {"concerns": {"find": "f($x)"}, "edits": [{"find": "f($x)", "rewrite": "h($x)"}]},
    ],
)
def test_first_patch_does_the_work_of_the_second(tmp_path, two):
    one = patch_of(tmp_path, "one", edits=[REWRITE])
    other = patch_of(tmp_path, "two", **two)
    decision = plan([one, other], tree_of({MODULE: "f(1)  # g\n"})).decisions[1]
    assert decision.state is State.CONFLICT
    assert "fits the pristine tree, but not after one" in decision.reason


def test_requires_puts_a_patch_behind(tmp_path):
    # Its pattern only exists once the first has been applied.
    two = patch_of(
        tmp_path,
        "two",
        concerns={"text": "("},
        requires=["one"],
        edits=[{"find": "g($x)", "rewrite": "h(g($x))"}],
    )
    one = patch_of(tmp_path, "one", edits=[REWRITE])
    tree = tree_of({MODULE: "f(1)\n"})
    made = plan([two, one], tree)
    assert [(d.patch.id, d.state) for d in made.decisions] == [
        ("one", State.NEEDED),
        ("two", State.NEEDED),
    ]
    assert patched(tree, made).read(MODULE) == b"h(g(1))\n"


@pytest.mark.parametrize(
    ("source", "one", "state", "reason"),
    [
        ("k(1); f(1)\n", True, "needed", "1 place"),
        ("k(1); f(1, a)\n", True, "needed", "1 place"),
        ("k(1)\n", True, "blocked", "requires one, which is conflict"),
        ("k(1)", False, "blocked", "requires one, which is not among the patches"),
        ("f(1)\n", False, "blocked", "requires one, which is not among the patches"),
        ("h(k(1))\n", False, "upstreamed", "every place already is"),
    ],
)
def test_requires(tmp_path, source, one, state, reason):
    first = patch_of(tmp_path, "one", concerns={"text": "("}, edits=[ADDING])
    two = patch_of(
        tmp_path,
        "two",
        concerns={"text": "("},
        requires=["one"],
        edits=[{"find": "k($x)", "rewrite": "h(k($x))"}],
    )
    decision = plan([first, two] if one else [two], tree_of({MODULE: source})).decisions[-1]
    assert (decision.state.value, decision.changes != {}) == (state, state == "needed")
    assert reason in decision.reason


def test_requires_in_a_circle(tmp_path):
    one = patch_of(tmp_path, "one", requires=["two"], edits=[REWRITE])
    two = patch_of(tmp_path, "two", requires=["one"], edits=[REWRITE])
    with fails("planning.circular-requires", ": one -> two -> one") as error:
        order([one, two])
    file, _, line = error.value.where.rpartition(":")
    assert file == str(two.folder / "patch.yaml")
    assert '"one"' in Path(file).read_text().splitlines()[int(line) - 1]
    assert error.value.hint


def test_order_is_kept_but_for_requirements(tmp_path):
    names = ["d", "c", "b", "a"]
    patches = [
        patch_of(tmp_path, n, requires=["a"] if n == "c" else [], edits=[REWRITE]) for n in names
    ]
    assert [p.id for p in order(patches)] == ["d", "a", "c", "b"]


@pytest.mark.parametrize("declaring", ["one", "two"])
def test_conflicts(tmp_path, declaring):
    other = {"one": "two", "two": "one"}
    patches = [
        patch_of(
            tmp_path,
            name,
            concerns={"text": "("},
            edits=[edit],
            conflicts=[other[name]] if name == declaring else [],
        )
        for name, edit in (("one", REWRITE), ("two", {"find": "k($x)", "rewrite": "h($x)"}))
    ]
    made = plan(patches, tree_of({MODULE: "f(1); k(1)\n"}))
    assert [d.state for d in made.decisions] == [State.NEEDED, State.CONFLICT]
    assert "excludes one, which is needed" in made.decisions[1].reason
    assert made.decisions[1].changes == {}
    # A patch that is not taken excludes nothing.
    assert states(patches, tree_of({MODULE: "g(1); k(1)\n"}))["two"] == "needed"


VARIANTS = [
    {
        "name": "old",
        "when": {"text": "class Old"},
        "edits": [{"find": "f($x)", "rewrite": "g($x)"}],
    },
    {
        "name": "new",
        "when": {"text": "class New"},
        "edits": [{"find": "f($x, $y)", "rewrite": "g($x, $y)"}],
    },
    {"name": "rest", "edits": [{"find": "f()", "rewrite": "g()"}]},
]


@pytest.mark.parametrize(
    ("source", "variant", "after"),
    [
        ("class Old: f(1)\n", "old", "class Old: g(1)\n"),
        ("class New: f(1, 2)\n", "new", "class New: g(1, 2)\n"),
        ("class Old: f()\n", "rest", "class Old: g()\n"),
        ("f()\n", "rest", "g()\n"),
    ],
)
def test_variant_is_chosen_by_structure(tmp_path, source, variant, after):
    decision = decide(patch_of(tmp_path, variants=VARIANTS), tree_of({MODULE: source}))
    assert (decision.state, decision.variant) == (State.NEEDED, variant)
    assert decision.changes[MODULE].after == after.encode()


def test_when_keeps_a_variant_from_being_tried(tmp_path):
    # The edit of `old` would fit, but the tree is not of that shape.
    patch = patch_of(tmp_path, variants=VARIANTS[:2])
    decision = decide(patch, tree_of({MODULE: "f(1)\n"}))
    assert decision.state is State.CONFLICT
    assert decision.reason == "the code is there, but in the shape of no variant (old, new)"


def test_every_variant_says_why_it_does_not_fit(tmp_path):
    decision = decide(
        patch_of(tmp_path, variants=VARIANTS), tree_of({MODULE: "class Old: f(1, 2, 3)\n"})
    )
    assert decision.state is State.CONFLICT
    assert "variant old: rewrite f($x): expected 1, found 0" in decision.reason
    assert "variant rest: rewrite f(): expected 1, found 0" in decision.reason
    assert "variant new" not in decision.reason


def test_effect_tells_that_upstream_has_it(tmp_path):
    effect = {"find": "f($x, safe=True)"}
    patch = patch_of(tmp_path, effect=effect, edits=[{**REWRITE, "rewrite": "f($x, safe=True)"}])
    assert decide(patch, tree_of({MODULE: "f(1, safe=True)\n"})).state is State.UPSTREAMED
    assert decide(patch, tree_of({MODULE: "f(1)\n"})).state is State.NEEDED


def test_effect_that_the_patch_does_not_have(tmp_path):
    patch = patch_of(tmp_path, effect={"text": "cure"}, edits=[REWRITE])
    decision = decide(patch, tree_of({MODULE: "f(1)\n"}))
    assert (decision.state, decision.changes) == (State.CONFLICT, {})
    assert decision.reason == "after the patch, the tree still does not have the text 'cure'"


@pytest.mark.parametrize(
    ("effect", "says"),
    [
        (
            {"all": [{"text": "g(1)"}, {"text": "cure\n  it", "files": "vllm/*"}, {"find": "h()"}]},
            (
                "does not have these lines in vllm/*:\n    cure\n      it\n"
                "and it does not have the code h()"
            ),
        ),
        ({"all": [{"text": "g(1)"}, {"none": [{"text": "x"}, {"text": "y"}]}]}, "has the text 'y'"),
        (
            {"any": [{"text": "cure"}, {"text": "all\nill\nsin\n"}]},
            "does not have the text 'cure' or the text 'all' with 2 lines below",
        ),
    ],
)
def test_only_the_conditions_of_an_effect_that_fail_are_named(tmp_path, effect, says):
    patch = patch_of(tmp_path, effect=effect, edits=[REWRITE])
    reason = decide(patch, tree_of({MODULE: "f(1)\ny\n"})).reason
    assert reason == f"after the patch, the tree still {says}"


@pytest.mark.parametrize(
    ("edit", "source", "places"),
    [
        (
            {
                "find": "torch.ops._C.no_such_op($a, $b)",
                "rewrite": "torch.ops._C.permute_cols($a, $b)",
            },
            "torch.ops._C.permute_cols(f, x)\n",
            1,
        ),
        ({"find": "no_such_op(f)", "rewrite": "x"}, "x\nx\nx\nx\n", 4),
        ({"find": "y = no_such_op(f)", "rewrite": "pass"}, "pass\n" * 366, 366),
        (
            {"find": "def $f(): ...", "replace-body": "pass", "having": "no_such_op()"},
            "def f():\n    pass\n",
            1,
        ),
        ({"text": {"find": "no_such_op", "replace": "f"}, "files": "vllm/*"}, "f\nf\n", 2),
    ],
)
def test_new_code_without_a_sign_of_the_old_is_no_cure(tmp_path, edit, source, places):
    concerns = {"any": [{"text": "f"}, {"text": "pass"}, {"text": "x"}]}
    edit = {**edit, "expect": {"at-least": 1}}
    tree = tree_of({MODULE: source})
    decision = decide(patch_of(tmp_path, concerns=concerns, edits=[edit]), tree)
    assert decision.state is State.CONFLICT
    assert (
        f"expected at least 1, found 0; {places} more with the new code, but nothing shows that "
        "it replaced the old; if this tree has the cure, declare an `effect`"
    ) in decision.reason
    assert len(where(decision, "the new code, with no sign of the old")) == min(places, 3)
    # An effect tells, and so does the tree's own lock.
    effect = {"text": source.strip()[-4:]}
    cured = patch_of(tmp_path, "cured", concerns=concerns, edits=[edit], effect=effect)
    assert decide(cured, tree).state is State.UPSTREAMED
    carried = tree_of({MODULE: source}, carried=["fix"])
    assert (
        decide(patch_of(tmp_path, concerns=concerns, edits=[edit]), carried).state is State.APPLIED
    )


def test_effect_that_a_tree_with_every_place_done_does_not_have(tmp_path):
    patch = patch_of(tmp_path, effect={"text": "cure"}, edits=[ADDING])
    decision = decide(patch, tree_of({MODULE: "f(1, a)\n"}))
    assert decision.state is State.CONFLICT
    assert "still does not have the text 'cure'" in decision.reason


@pytest.mark.parametrize(
    ("claim", "source", "version", "disagreement"),
    [
        (">=0.20,<0.24", "f(1)\n", "0.23.0", None),
        (">=0.20,<0.24", "f(1, a)\n", "0.24.0", None),
        (
            ">=0.20,<0.23",
            "f(1)\n",
            "0.23.0",
            "is not needed in vllm-0.23.0 ('>=0.20,<0.23'), but is needed",
        ),
        (
            ">=0.20",
            "f(1, a)\n",
            "0.23.0",
            "is needed in vllm-0.23.0 ('>=0.20'), but is upstreamed",
        ),
        (">=0.20", "x\n", "0.23.0", "but is absent"),
        ("<0.20", "f(1); f(2)\n", "0.23.0", "but is conflict"),
        (">=0.23.0rc1", "f(1)\n", "0.23.0rc2", None),
        ("<0.20", "f(1)\n", None, None),
    ],
)
def test_disagreement(tmp_path, claim, source, version, disagreement):
    patch = patch_of(tmp_path, needed_in={"vllm": claim}, edits=[ADDING])
    found = decide(patch, tree_of({MODULE: source}, version=version)).disagreement
    assert (found is None) == (disagreement is None)
    assert disagreement is None or disagreement in found


@pytest.mark.parametrize(
    ("version", "carried", "state"),
    [
        ("0.19.1", [], State.NOT_DECLARED),
        ("0.23.0", [], State.CONFLICT),
        (None, [], State.CONFLICT),
        ("0.19.1", ["fix"], State.CONFLICT),
    ],
)
def test_a_patch_that_fits_nowhere_in_a_version_that_it_does_not_claim(
    tmp_path, version, carried, state
):
    claim = {"needed_in": {"vllm": ">=0.20"}, "concerns": {"text": "f"}}
    patch = patch_of(tmp_path, edits=[PREFIX], **claim)
    other = patch_of(tmp_path, "other", edits=[ADDING], requires=["fix"], **claim)
    tree = tree_of({MODULE: "f(1)\n"}, version=version, carried=carried)
    decision = decide(patch, tree)
    assert decision.state is state
    is_open = state is State.NOT_DECLARED
    assert ("not declared for vllm-0.19.1 ('>=0.20')" in decision.reason) is is_open
    assert decision.state.stops is not is_open
    both = plan([patch, other], tree)
    blocked = both.decisions[1]
    assert blocked.state is (State.NOT_DECLARED if is_open else State.BLOCKED)
    # Nobody asked for it, so it stops nothing; who names it is told.
    assert bool(both.stopping(asked_for=False)) is not is_open
    assert len(both.stopping(asked_for=True)) == 2


def test_no_claim_about_this_tree(tmp_path):
    patch = patch_of(tmp_path, needed_in={"vllm": "<0"}, edits=[REWRITE])
    assert decide(patch, tree_of({MODULE: "f(1)\n"}, name="vllm-ascend")).disagreement is None


def broken(tmp_path, edit, source, files=None):
    decision = decide(patch_of(tmp_path, files=files, edits=[edit]), tree_of(source))
    assert (decision.state, decision.changes) == (State.CONFLICT, {})
    return decision.reason


def test_result_that_does_not_compile(tmp_path):
    edit = {"text": {"find": "f(1)", "replace": "f(1"}, "files": "vllm/*"}
    reason = broken(tmp_path, edit, {MODULE: "y\nf(1)\n"})
    assert reason.startswith("after the patch, vllm/m.py does not compile: line 2")
    edit = {"find": "f($x)", "rewrite": "return $x + 0"}
    reason = broken(tmp_path, {**edit, "find": "x = f($x)"}, {MODULE: "x = f(1)\n"})
    assert "'return' outside function" in reason


def test_result_that_is_no_text_of_python_is_not_compiled(tmp_path):
    edit = {"text": {"find": "f(1)", "replace": "f(1"}, "files": "x.sh"}
    patch = patch_of(tmp_path, concerns={"text": "f", "files": "x.sh"}, edits=[edit])
    assert decide(patch, tree_of({"x.sh": "f(1)\n"})).state is State.NEEDED


def test_edit_that_does_not_fit_its_own_result(tmp_path):
    edit = {"insert": "f(2)", "after": "f($_)"}
    reason = broken(tmp_path, edit, {MODULE: "f(1)\n"})
    assert reason.startswith("applied twice, insert after f($_) does not fit")


def test_edit_that_changes_its_own_result(tmp_path):
    codemod = (
        "import libcst as cst\nfrom vpatch.codemods import SiteTransformer\n"
        "class Codemod(SiteTransformer):\n    kinds = (cst.Integer,)\n"
        "    def edit(self, original, updated):\n        self.add(original, todo=True)\n"
        "        return cst.Integer(str(int(updated.value) + 1))\n"
    )
    edit = {"codemod": "codemod.py", "contains": "f"}
    reason = broken(tmp_path, edit, {MODULE: "f(1)\n"}, {"codemod.py": codemod})
    assert reason == "applied twice, codemod.py changes the file again"


def test_codemod_that_says_it_works_and_does_not(tmp_path):
    codemod = (
        "import libcst as cst\nfrom vpatch.codemods import SiteTransformer\n"
        "class Codemod(SiteTransformer):\n    kinds = (cst.Integer,)\n"
        "    def edit(self, original, updated):\n        self.add(original, todo=True)\n"
        "        return updated\n"
    )
    edit = {"codemod": "codemod.py", "contains": "f"}
    reason = broken(tmp_path, edit, {MODULE: "f(1)\n"}, {"codemod.py": codemod})
    assert "reports a place to change, but changes nothing\nnext: return the changed" in reason


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (b"\x0cf(1)\n", "vllm/m.py libcst cannot write it back byte for byte (a form feed"),
        (b"f(1\n", "vllm/m.py:1 is not Python that libcst can parse"),
        (b"# coding: nonsense\nf(1)\n", "vllm/m.py is not Python"),
    ],
)
def test_file_that_cannot_be_parsed(tmp_path, source, message):
    assert broken(tmp_path, REWRITE, {MODULE: source}).startswith(message)


def test_new_code_that_the_encoding_cannot_write(tmp_path):
    edit = {**REWRITE, "rewrite": "g($x, '\u2192')"}
    reason = broken(tmp_path, edit, {MODULE: b"# coding: latin-1\nf('\xe9')\n"})
    assert "the file's encoding (iso-8859-1) cannot write '\u2192' of the new code" in reason


@pytest.mark.parametrize(
    "source",
    [
        b"\xef\xbb\xbf# \xc3\xa9\nf( 1 )\n",
        b"# coding: latin-1\nx = '\xe9'\nf( 1 )",
        b"if x:\r\n\tf( 1 ) # a\r\n\ty\r\n",
        b"x\r\ny\nf( 1 )\nz\r\n",
        b"\n\n  \nf( 1 )\\\n\n# end",
        b"f( 1 ); x ;\n\t\n",
    ],
)
def test_bytes_outside_the_edit_stay(tmp_path, source):
    decision = decide(patch_of(tmp_path, edits=[REWRITE]), tree_of({MODULE: source}))
    assert decision.state is State.NEEDED, decision.reason
    assert decision.changes[MODULE].after == source.replace(b"f(", b"g(")


@pytest.mark.parametrize("end", ["\r\n", "\n"])
def test_new_code_has_the_line_ends_of_its_file(tmp_path, end):
    code = 'def g():\n    """One line.\n\n    Another.\n    """\n'
    edits = [{"insert": code, "after": "def f(): ..."}]
    tree = tree_of({MODULE: f"def f():{end}    return 1{end}"})
    planned = plan([patch_of(tmp_path, edits=edits)], tree)
    after = planned.decisions[0].changes[MODULE].after
    assert after.count(b"\n") > 6
    assert after.count(b"\r\n") == (after.count(b"\n") if end == "\r\n" else 0)
    again = plan([patch_of(tmp_path, edits=edits)], patched(tree, planned))
    assert again.decisions[0].state is State.UPSTREAMED


def test_text_and_code_edits_of_one_file(tmp_path):
    edits = [
        REWRITE,
        {"text": {"find": "# one", "replace": "# two"}, "files": MODULE},
        {"find": "h($x)", "rewrite": "k($x)"},
    ]
    decision = decide(patch_of(tmp_path, edits=edits), tree_of({MODULE: "f(1)  # one\nh(1)\n"}))
    assert decision.state is State.NEEDED, decision.reason
    assert decision.changes[MODULE].after == b"g(1)  # two\nk(1)\n"


def test_added_file(tmp_path):
    one = patch_of(
        tmp_path,
        "one",
        files={"new.py": "f(1)\n"},
        concerns={"text": "x"},
        edits=[{"add-file": "vllm/new.py", "from": "new.py"}],
    )
    two = patch_of(tmp_path, "two", requires=["one"], edits=[REWRITE])
    tree = tree_of({MODULE: "x\n"})
    made = plan([one, two], tree)
    assert [d.state for d in made.decisions] == [State.NEEDED] * 2
    assert made.decisions[0].changes["vllm/new.py"].before is None
    assert patched(tree, made).read("vllm/new.py") == b"g(1)\n"


def test_edit_of_another_tree_folder_is_no_part_of_the_package(tmp_path):
    # tests/ is reached by a glob alone, whether or not an earlier edit has been there.
    files = {"vllm/m.py": b"f(1)\n", "tests/t.py": b"f(1)\n"}

    class Tree(SearchedTree):
        pin = tree_of({}).pin
        carried = frozenset()
        package_files = {"vllm/m.py": files["vllm/m.py"]}  # noqa: RUF012

        def paths(self):
            return sorted(files)

        def read(self, path):
            return files[path]

    one = patch_of(tmp_path, "one", edits=[{"find": "f(1)", "rewrite": "f(2)", "files": "tests/*"}])
    two = patch_of(tmp_path, "two", edits=[REWRITE])
    made = plan([one, two], Tree())
    assert [d.state for d in made.decisions] == [State.NEEDED] * 2
    assert list(made.decisions[1].changes) == ["vllm/m.py"]


def test_two_variants_that_fit_differently_are_a_conflict(tmp_path):
    edits = [{**PREFIX, "add-keyword": {"prefix": value}} for value in ("'p'", "'q'")]
    variants = [{"name": name, "edits": [edit]} for name, edit in zip("ab", edits, strict=True)]
    patch = patch_of(tmp_path, concerns={"text": "L"}, variants=variants)
    decision = decide(patch, tree_of({MODULE: "x = L()\n"}))
    assert decision.state is State.CONFLICT
    assert decision.reason == "the variants a and b both fit, with different results"


def test_a_tree_that_lacks_what_its_lock_names_is_a_conflict(tmp_path):
    patch = patch_of(tmp_path, concerns={"text": "L"}, edits=[PREFIX])
    tree = tree_of({MODULE: "x = L()\n"}, carried=[patch.id])
    decision = decide(patch, tree)
    assert decision.state is State.CONFLICT
    assert "the tree's lock names the patch" in decision.reason


@pytest.mark.parametrize("findings_for", ["all", "stopping", "none"])
def test_the_second_run_is_made_whoever_is_told(tmp_path, findings_for):
    codemod = (
        "import libcst as cst\nfrom vpatch.codemods import SiteTransformer\n"
        "class Codemod(SiteTransformer):\n"
        "    kinds = (cst.Integer,)\n"
        "    def edit(self, original, updated):\n"
        "        self.add(original, todo=True)\n"
        "        return updated.with_changes(value=updated.value + '0')\n"
    )
    edits = [{"codemod": "codemod.py", "contains": ["f"]}]
    files = {"codemod.py": codemod}
    patch = patch_of(tmp_path, files=files, concerns={"text": "f"}, edits=edits)
    (decision,) = plan([patch], tree_of({MODULE: "f(1)\n"}), findings_for=findings_for).decisions
    assert decision.state is State.CONFLICT
    assert decision.reason == "applied twice, codemod.py changes the file again"


def test_alone_is_decided_on_the_pristine_tree_and_not_met_by_others(tmp_path):
    first = patch_of(tmp_path / "1", "first", edits=[REWRITE])
    other = patch_of(
        tmp_path / "2", "other", edits=[{"find": "f($x)", "rewrite": "h($x)"}], conflicts=["first"]
    )
    edits = [{"find": "g($x)", "rewrite": "i($x)"}]
    third = patch_of(tmp_path / "3", "third", edits=edits, concerns={"text": "(1)"})
    tree = tree_of({MODULE: "f(1)\n"})
    together = states([first, other, third], tree)
    assert together == {"first": "needed", "other": "conflict", "third": "needed"}
    made = plan([first, other, third], tree, alone={"other"})
    assert [(d.patch.id, d.state.value) for d in made.decisions] == [
        ("first", "needed"),
        ("other", "needed"),
        ("third", "needed"),
    ]
    assert made.decisions[1].changes[MODULE].after == b"h(1)\n"


def test_alone_without_what_it_requires(tmp_path):
    patch = patch_of(tmp_path, edits=[REWRITE], requires=["elsewhere"])
    (decision,) = plan([patch], tree_of({MODULE: "f(1)\n"}), alone={"fix"}).decisions
    assert decision.state is State.BLOCKED
    assert decision.reason == "requires elsewhere, which is not among the patches"


def test_two_variants_that_fit_alike_are_none_too_many(tmp_path):
    variants = [{"name": name, "edits": [REWRITE]} for name in "ab"]
    decision = decide(patch_of(tmp_path, variants=variants), tree_of({MODULE: "f(1)\n"}))
    assert (decision.state, decision.variant) == (State.NEEDED, "a")


def test_alone_comes_with_what_it_requires(tmp_path):
    first = patch_of(tmp_path / "1", "first", edits=[REWRITE])
    edits = [{"find": "g($x)", "rewrite": "h($x)"}]
    second = patch_of(
        tmp_path / "2", "second", edits=edits, requires=["first"], concerns={"text": "(1)"}
    )
    third = patch_of(tmp_path / "3", "third", edits=[{"find": "f($x)", "rewrite": "i($x)"}])
    tree = tree_of({MODULE: "f(1)\n"})
    made = plan([third, first, second], tree, alone={"first", "second"})
    assert [(d.patch.id, d.state.value) for d in made.decisions] == [
        ("third", "needed"),
        ("first", "needed"),
        ("second", "needed"),
    ]


def test_a_name_that_nothing_defines(tmp_path):
    edit = {"insert": "frobnicate(undefined_thing)", "after": "A = 1"}
    reason = broken(tmp_path, edit, {MODULE: "# f\nA = 1\n"})
    assert reason == (
        "after the patch, line 3 of vllm/m.py uses frobnicate, which is not defined there "
        "(frobnicate(undefined_thing)): add an add-import edit, or define it\n"
        "after the patch, line 3 of vllm/m.py uses undefined_thing, which is not defined there "
        "(frobnicate(undefined_thing)): add an add-import edit, or define it"
    )


@pytest.mark.parametrize(
    ("import_", "lacks"),
    [
        ("from vllm.utils.gone import helper", True),
        ("from vllm.utils import gone", True),
        ("from .utils import gone", True),
        ("from vllm.utils import helper, inner", False),
        ("from vllm.utils.built import helper", False),
        ("from vllm.anything import gone", False),
        ("from elsewhere import gone", False),
        ("try:\n    from vllm.utils import gone\nexcept ImportError:\n    gone = 1", False),
        (
            "import contextlib\nwith contextlib.suppress():\n    from vllm.utils import gone",
            False,
        ),
        (
            "import vllm.utils\nif hasattr(vllm.utils, 'gone'):\n    from vllm.utils import gone",
            False,
        ),
    ],
)
def test_an_import_of_what_the_tree_lacks(tmp_path, import_, lacks):
    """A module may be made by a build, if other files import it too."""
    tree = {
        MODULE: "# f\nA = 1\n",
        "vllm/__init__.py": "",
        "vllm/utils/__init__.py": "def helper(): ...\n",
        "vllm/utils/inner.py": "",
        "vllm/anything.py": "def __getattr__(name): ...\n",
        "vllm/user.py": "from vllm.utils.built import Other\n",
    }
    patch = patch_of(tmp_path, edits=[{"insert": import_, "after": "A = 1"}])
    decision = decide(patch, tree_of(tree))
    assert decision.state is (State.CONFLICT if lacks else State.NEEDED)
    assert decision.reason.endswith(", which the tree lacks") is lacks
    part = {path: text for path, text in tree.items() if path != "vllm/__init__.py"}
    assert decide(patch, tree_of(part)).state is State.NEEDED


SNIPPET = """\
from math import isnan as is_nan, inf
import os.path


def helper(): ...


def one(x):
    return is_nan(x) or os.path.join(x) or helper()
"""


def test_a_snippet_without_its_imports(tmp_path):
    edit = {"insert": {"from": "one.py", "name": "one"}, "before": "def f(): ..."}
    reason = broken(tmp_path, edit, {MODULE: "def f(): ...\n"}, {"one.py": SNIPPET})
    found = [line.partition(" uses ")[2] for line in reason.splitlines()]
    assert [(line.partition(",")[0], line.rpartition("): ")[2]) for line in found] == [
        ("is_nan", "add the edit `add-import: from math import isnan as is_nan`, as one.py has it"),
        ("os", "add the edit `add-import: import os.path`, as one.py has it"),
        ("helper", "one.py defines it, so insert it too"),
    ]


def test_a_snippet_with_its_imports(tmp_path):
    edits = [
        {"insert": {"from": "one.py", "name": name}, "before": "def f(): ..."}
        for name in ("one", "helper")
    ]
    # Two inserts at one anchor are one edit.
    edits[1] = {**edits[1], "before": "def one(...): ..."}
    edits += [
        {"add-import": code, "beside": "def f(): ..."}
        for code in ("from math import isnan as is_nan", "import os.path")
    ]
    patch = patch_of(tmp_path, files={"one.py": SNIPPET}, edits=edits)
    decision = decide(patch, tree_of({MODULE: "def f(): ...\n"}))
    assert decision.state is State.NEEDED, decision.reason


def test_an_import_that_is_left_without_a_use_is_a_note(tmp_path):
    patch = patch_of(tmp_path, edits=[{"find": "os.getenv($x)", "rewrite": "f.env($x)"}])
    tree = tree_of({MODULE: "import os\n\nf = os.getenv('x')\n"})
    (decision,) = plan([patch], tree, findings_for="all").decisions
    assert decision.state is State.NEEDED, decision.reason
    assert [f.path for f in decision.findings if "nothing uses the import of os" in f.what] == [
        MODULE
    ]


def test_a_second_definition(tmp_path):
    edit = {"insert": "if f:\n    def one(): ...\n    def one(): ...", "after": "A = 1"}
    reason = broken(tmp_path, edit, {MODULE: "f\nA = 1\n"})
    assert reason == (
        "after the patch, line 5 of vllm/m.py defines one again before anything uses it "
        "(def one(): ...)"
    )


@pytest.mark.parametrize("findings_for", ["all", "stopping", "none"])
def test_names_are_checked_for_a_status_too(tmp_path, findings_for):
    patch = patch_of(tmp_path, edits=[{"find": "f($x)", "rewrite": "undefined_thing($x)"}])
    (decision,) = plan([patch], tree_of({MODULE: "f(1)\n"}), findings_for=findings_for).decisions
    assert decision.state is State.CONFLICT
    assert "uses undefined_thing" in decision.reason


def test_a_fault_that_the_pristine_file_has_is_not_the_patchs(tmp_path):
    one = patch_of(tmp_path, "one", edits=[{"find": "f(1)", "rewrite": "f(os)"}])
    two = patch_of(tmp_path, "two", edits=[{"find": "f(os)", "rewrite": "f(2)"}], requires=["one"])
    tree = tree_of({MODULE: "import os\nundefined_thing\nf(1)\n"})
    assert states([one, two], tree) == {"one": "needed", "two": "needed"}


def test_code_that_nests_too_deeply_to_be_checked(tmp_path):
    edit = {"text": {"find": "f(1)", "replace": "f(2)"}, "files": "vllm/*"}
    reason = broken(tmp_path, edit, {MODULE: f"f(1)\nx = {'f + ' * 2000}1\n"})
    assert reason == (
        "after the patch, vllm/m.py does not compile: is nested more than 150 levels deep"
    )


SYNC_AND_MORE = [{"insert": "sync(f)", "after": "f(...)"}, ADDING]


@pytest.mark.parametrize(
    ("edits", "source", "state"),
    [
        # Half of an insert and a rewrite: the rewrite is done, or the insert is.
        (SYNC_AND_MORE, "f(1, a)\nx\nsync(f)\n", "conflict"),
        (SYNC_AND_MORE, "f(1, a)\n", "needed"),
        (SYNC_AND_MORE, "f(1)\nsync(f)\n", "needed"),
        ([{"insert": "A = x", "before": "f(...)"}, ADDING], "A = x\nx\nf(1)\n", "conflict"),
        ([{"insert": "A = x", "before": "f(...)"}, ADDING], "A = x\nf(1)\n", "needed"),
        ([{"insert": "A = x\nB = x", "before": "f(...)"}, ADDING], "B = x\nf(1)\n", "conflict"),
        # Nothing of it is there, but a call that is often repeated.
        (SYNC_AND_MORE, "sync(f)\nx\nf(1)\n", "needed"),
    ],
)
def test_a_tree_that_has_half_of_it_gets_nothing_twice(tmp_path, edits, source, state):
    tree = tree_of({MODULE: f"from x import sync\n{source}"})
    decision = decide(patch_of(tmp_path, edits=edits), tree)
    assert decision.state == state, decision.reason
    if state == "conflict" and "statements" not in decision.reason:
        assert "vllm/m.py: the same code is at another place of this block" in decision.reason
        # An effect tells that the work is to be done.
        patch = patch_of(tmp_path, "told", edits=edits, effect={"find": "f(1, a)", "files": "x"})
        assert "after the patch, the tree still" in decide(patch, tree).reason


def test_lines_are_those_of_the_pristine_file(tmp_path):
    """Not of what earlier patches and earlier edits of the same patch make of it."""
    inserting = {"insert": "A = 1\nB = 2\nC = 3", "before": "f(...)"}
    one = patch_of(tmp_path, "one", edits=[inserting])
    text = {"text": {"find": "# two", "replace": "# two\n# three"}, "files": MODULE}
    inserted = {"insert": "D = 1\nE = 2", "before": "f(1)"}
    edits = [inserted, text, DTYPE, {"find": "k(x)", "rewrite": "h(x)"}]
    two = patch_of(tmp_path, "two", edits=edits, requires=["one"])
    made = plan(
        [one, two], tree_of({MODULE: "f(1)\ny\nx = L()\n# two\nk(x)\nq\n"}), findings_for="all"
    )
    assert [d.state for d in made.decisions] == [State.NEEDED] * 2
    assert [f.line for f in made.decisions[1].findings] == [1, 1, 4, 3, 5]


def test_code_that_an_earlier_patch_added_has_the_line_where_it_was_added(tmp_path):
    one = patch_of(tmp_path, "one", edits=[{"insert": "z(f)", "after": "f(1)"}])
    edit = {"find": "z($a)", "rewrite": "z($a, b)"}
    two = patch_of(tmp_path, "two", edits=[edit], requires=["one"])
    made = plan([one, two], tree_of({MODULE: "x\nf(1)\ny\n"}), findings_for="all")
    assert where(made.decisions[1], "rewrite") == ["vllm/m.py:3"]
