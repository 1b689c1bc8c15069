"""A verdict each, on small trees."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.commands.bump.steps import kinds, step, stepped
from tests.helpers import patch_of, tree_of
from tests.records import with_surroundings
from vpatch.commands.bump.verdict import Verdict
from vpatch.library.shapes import BehaviourOnRelease, KnownShape, Shapes
from vpatch.planning.footprint import combined, definitions_read
from vpatch.planning.plan import plan
from vpatch.planning.shape import nameable
from vpatch.planning.view import View

FILE = "vllm/layer.py"
LAYER = """class Layer:
    def __init__(self, prefix):
        self.proj = Linear(4, 4)
        self.scale = scale_of(self)

    def forward(self, x):
        return self.proj(x)


def scale_of(layer):
    return layer.width**-0.5
"""
EDIT = {"find": "self.proj = Linear(...)", "add-keyword": {"prefix": 'f"{prefix}.proj"'}}
MERGED = {
    "ref": "vllm-project/vllm#9",
    "is": "pull request",
    "relation": "same change",
    "state": "merged",
    "release": "0.24.0",
}


@pytest.fixture
def patch(tmp_path):
    return patch_of(tmp_path, edits=[EDIT], concerns={"text": "class Layer"})


def judged(patch, after, before=LAYER, path=FILE):
    return step(patch, {FILE: before}, {path: after})


def test_the_same_code_is_kept(patch):
    one = judged(patch, LAYER)
    assert (one.verdict, one.reason) == (
        Verdict.KEEP,
        "the code that it edits and reads is the same",
    )
    assert one.changed == ()
    assert (one.old.places, one.new.places) == (1, 1)


def test_comments_docstrings_and_layout_do_not_count(patch):
    after = LAYER.replace(
        "Linear(4, 4)", "Linear(\n            4,\n            4,  # wide\n        )"
    )
    after = after.replace("(self, prefix):", '(self, prefix):\n        """Make it."""')
    assert judged(patch, after).verdict is Verdict.KEEP


def test_a_change_elsewhere_does_not_count(patch):
    assert judged(patch, LAYER.replace("self.proj(x)", "self.proj(x) * 2")).verdict is Verdict.KEEP


AROUND = LAYER.replace("layer.width**-0.5", "1.0")


def test_code_around_that_changed_asks_for_a_look(patch):
    one = judged(patch, AROUND)
    assert one.verdict is Verdict.LOOK_AGAIN
    assert one.reason == "upstream changed code around it: scale_of"
    (changed,) = one.changed
    assert (changed.kind, changed.around, changed.edited) == ("changed", True, False)
    assert "+    return 1.0" in changed.upstream


@pytest.mark.parametrize(
    ("outcome", "verdict"), [("holds", Verdict.KEEP), ("not asked", Verdict.LOOK_AGAIN)]
)
def test_a_test_that_holds_in_the_new_release_has_seen_what_is_around(patch, outcome, verdict):
    known = on_record(patch, [{FILE: LAYER}, {FILE: AROUND}], first=23)
    ran = BehaviourOnRelease(
        test="test_layer.py",
        engine="cpu",
        outcome=outcome,
        state="needed",
        patch_digest=patch.digest,
        test_digest="sha256:0",
    )
    digests = dict.fromkeys(["0.23.0", "0.24.0"], tree_of({}).pin.digest)
    more = {"archives": {"vllm": digests}, "behaviour": {"vllm": {"0.24.0": (ran,)}}}
    known = replace(known, shapes=known.shapes.model_copy(update=more))
    one = judged(known, AROUND)
    assert (one.verdict, str(one.new.sureness)) == (verdict, "on record")


def test_a_definition_that_only_moved_is_kept_and_named(patch):
    one = judged(patch, LAYER, path="vllm/new/layer.py")
    assert one.verdict is Verdict.KEEP
    assert ("Layer.__init__", "moved", True) in kinds(one)


def test_what_a_patch_reads_in_one_release_alone_can_have_moved(tmp_path):
    """The second release has the effect elsewhere, so that nothing is read of its file."""
    edit = {"find": "self.proj = Linear(...)", "add-keyword": {"scale": "scale_of(self)"}}
    one = step(
        patch_of(tmp_path, edits=[edit], concerns={"text": "class Layer"}),
        {FILE: LAYER},
        {
            FILE: LAYER.replace("Linear(4, 4)", "Linear(4, 4, scale=scale_of(self))").partition(
                "def scale_of"
            )[0],
            "vllm/scale.py": LAYER[LAYER.index("def scale_of") :],
        },
    )
    assert ("scale_of", "moved", False) in kinds(one)


def test_a_change_of_what_the_patch_edits_asks_for_a_look(patch):
    one = judged(patch, LAYER.replace("scale_of(self)", "None"))
    assert one.verdict is Verdict.LOOK_AGAIN
    assert one.reason == "upstream changed 1 definition that it edits"
    assert kinds(one) == {("Layer.__init__", "changed", True)}
    (code,) = one.changed
    assert code.upstream[3:] == [
        "     def __init__(self, prefix):",
        "         self.proj = Linear(4, 4)",
        "-        self.scale = scale_of(self)",
        "+        self.scale = None",
    ]
    assert [line for line in code.ours[3:] if line[0] != " "] == [
        "-        self.proj = Linear(4, 4)",
        '+        self.proj = Linear(4, 4, prefix=f"{prefix}.proj")',
    ]
    assert '        self.proj = Linear(4, 4, prefix=f"{prefix}.proj")' in code.patched.lines
    assert code.counts == (1, 1)


def test_a_changed_definition_is_compared_in_its_new_file(patch):
    after = LAYER.replace("scale_of(self)", "None")
    one = judged(patch, after, path="vllm/new/layer.py")
    assert one.verdict is Verdict.LOOK_AGAIN
    (code,) = (code for code in one.changed if code.kind == "changed")
    assert (code.before.path, code.after.path) == (FILE, "vllm/new/layer.py")
    assert code.counts == (1, 1)


def test_a_renamed_definition_is_compared_under_its_new_name(patch):
    # The class keeps its name in a comment, so `concerns` still holds.
    after = LAYER.replace("class Layer:", "# class Layer\nclass Block:")
    one = judged(patch, after)
    assert one.verdict is Verdict.LOOK_AGAIN
    assert ("Layer.__init__", "renamed", True) in kinds(one)
    renamed = next(code for code in one.changed if code.name == "Layer.__init__")
    assert renamed.after.said == "Block.__init__"


def test_a_change_of_what_new_code_names_asks_for_a_look(tmp_path):
    edit = {"find": "self.proj = Linear(...)", "add-keyword": {"scale": "scale_of(self)"}}
    patch = patch_of(tmp_path, edits=[edit], concerns={"text": "class Layer"})
    one = judged(patch, LAYER.replace("-0.5", "-1"))
    assert one.verdict is Verdict.LOOK_AGAIN
    assert one.reason == "upstream changed 1 definition that it only reads"
    assert kinds(one) == {("scale_of", "changed", False)}


def test_another_number_of_places_asks_for_a_look(tmp_path):
    edit = EDIT | {"expect": {"at-least": 1}}
    patch = patch_of(tmp_path, edits=[edit], concerns={"text": "class Layer"})
    twice = LAYER.replace("class Layer", "class Twin")
    one = step(patch, {FILE: LAYER}, {FILE: LAYER, "vllm/twin.py": twice})
    assert one.verdict is Verdict.LOOK_AGAIN
    assert "it edits 2 places, and edited 1" in one.reason
    assert ("Twin.__init__", "new", True) in kinds(one)


def test_a_patch_that_was_not_needed_before_asks_for_a_look(patch):
    one = step(patch, {FILE: "class Other: pass\n"}, {FILE: LAYER})
    assert one.verdict is Verdict.LOOK_AGAIN
    assert one.reason.startswith("it was absent, and is needed now; ")


def test_a_merged_change_that_the_release_lacks_asks_for_a_look(tmp_path):
    patch = patch_of(tmp_path, edits=[EDIT], concerns={"text": "class Layer"}, upstream=[MERGED])
    one = judged(patch, LAYER)
    assert one.verdict is Verdict.LOOK_AGAIN
    assert one.reason.endswith("reverted, or not the same change")


def test_what_the_old_release_lacked_too_is_nothing_new(tmp_path):
    upstream = [MERGED | {"release": "0.22.0"}]
    patch = patch_of(tmp_path, edits=[EDIT], concerns={"text": "class Layer"}, upstream=upstream)
    assert judged(patch, LAYER).verdict is Verdict.KEEP


CURED = LAYER.replace("Linear(4, 4)", 'Linear(4, 4, prefix=f"{prefix}.proj")')


def test_what_upstream_has_is_retired_with_three_facts(tmp_path):
    patch = patch_of(tmp_path, edits=[EDIT], concerns={"text": "class Layer"}, upstream=[MERGED])
    one = judged(patch, CURED)
    assert one.verdict is Verdict.RETIRE
    assert one.facts == (
        "pull request vllm-project/vllm#9: merged, same change, as declared",
        "release: 0.24.0 and later, as declared",
        "tree: every place already is as the patch makes it",
    )
    assert (one.old.places, one.new.places) == (1, 0)


def test_facts_that_the_patch_does_not_declare_are_said_to_be_missing(patch):
    assert judged(patch, CURED).facts == (
        "pull request: the patch declares none",
        "release: the patch declares none",
        "tree: every place already is as the patch makes it",
    )


def test_code_that_is_gone_is_not_needed(tmp_path):
    claim = {"vllm": "<0.24"}
    patch = patch_of(tmp_path, edits=[EDIT], concerns={"text": "class Layer"}, needed_in=claim)
    one = judged(patch, "x = 1\n")
    assert one.verdict is Verdict.NOT_NEEDED
    assert f"Layer.__init__ went from {FILE}" in one.reason
    assert ("Layer.__init__", "gone", True) in kinds(one)


def test_code_that_is_gone_against_the_claim_needs_a_person(patch):
    one = judged(patch, "x = 1\n")
    assert one.verdict is Verdict.NEEDS_A_PERSON
    assert "declared that it is needed in vllm-0.24.0 ('>=0.20'), but is absent" in one.reason


def test_a_release_that_is_too_old_for_a_patch_keeps_it(tmp_path):
    claim = {"vllm": ">=0.30"}
    patch = patch_of(tmp_path, edits=[EDIT], concerns={"text": "class Late"}, needed_in=claim)
    one = judged(patch, LAYER)
    assert one.verdict is Verdict.KEEP
    assert one.reason == "this version is older than what it is for (>=0.30)"


def test_a_conflict_needs_a_person(patch):
    one = judged(patch, LAYER.replace("Linear(4, 4)", "Dense(4, 4)"))
    assert one.verdict is Verdict.NEEDS_A_PERSON
    assert "self.proj = Linear(...)" in one.reason
    assert kinds(one) == {("Layer.__init__", "changed", True)}


def test_what_is_blocked_needs_a_person(tmp_path):
    first = patch_of(tmp_path, edits=[EDIT], concerns={"text": "class Layer"})
    edit = {"find": "return self.proj(x)", "rewrite": "return self.proj(x) + 0"}
    second = patch_of(
        tmp_path, "second", edits=[edit], requires=["fix"], concerns={"text": "class Layer"}
    )
    after = LAYER.replace("Linear(4, 4)", "Dense(4, 4)")
    found = stepped([first, second], {FILE: LAYER}, {FILE: after})
    assert found["second"].verdict is Verdict.NEEDS_A_PERSON
    assert found["second"].reason == "requires fix, which is conflict"


def on_record(patch, trees, *, edition=None, first=22):
    """The same patch with a record of some trees, read by this edition or by another one."""
    decisions = [plan([patch], tree_of(files)).decisions[0] for files in trees]
    names = {name for one in decisions for name in nameable(one.shape.definitions)}
    read = [definitions_read([], {}, names, View(tree_of(files))) for files in trees]
    known = tuple(
        KnownShape(
            releases=(f"0.{number}.0",),
            state=decision.state,
            variant=decision.variant,
            definitions=combined(decision.shape.definitions, definitions),
        )
        for number, (decision, definitions) in enumerate(zip(decisions, read, strict=True), first)
    )
    shapes = Shapes(patch_digest=edition or patch.digest, shapes={"vllm": known})
    pairs = {f"0.{number}.0": (tree_of(files), None) for number, files in enumerate(trees, first)}
    return with_surroundings(replace(patch, shapes=shapes), pairs)


@pytest.mark.parametrize(
    ("after", "verdict", "state"),
    [
        (LAYER, Verdict.KEEP, "is the same"),
        (CURED, Verdict.RETIRE, "the tree has the effect"),
        ("Layer = None\n", Verdict.NOT_NEEDED, f"Layer.__init__ went from {FILE}"),
    ],
    ids=lambda value: str(value)[:12],
)
@pytest.mark.parametrize("record", ["of this code", "of other code", "of another edition"])
def test_no_patch_goes_or_stays_by_a_state_on_a_new_shape(tmp_path, after, verdict, state, record):
    claim = {"vllm": "<0.24" if verdict is Verdict.NOT_NEEDED else ">=0.20"}
    plain = patch_of(tmp_path, edits=[EDIT], concerns={"text": "class Layer"}, needed_in=claim)
    other = LAYER.replace("scale_of(self)", "None")
    trees = {"of other code": [{FILE: other}]}.get(record, [{FILE: LAYER}, {FILE: after}])
    edition = "sha256:0" if record == "of another edition" else None
    one = judged(on_record(plain, trees, edition=edition), after)
    assert state in one.reason
    if record == "of this code":
        assert one.verdict is verdict
        return
    assert one.verdict is Verdict.LOOK_AGAIN
    assert "; new shape: " in one.reason
    assert one.facts == ()


def test_a_patch_that_only_another_tree_has_on_record_is_kept(patch):
    """As `vpatch status` marks nothing: no record of this tree says what its code was."""
    shapes = on_record(patch, [{FILE: CURED}]).shapes
    plugin = shapes.model_copy(update={"shapes": {"plugin": shapes.shapes["vllm"]}})
    assert judged(replace(patch, shapes=plugin), LAYER).verdict is Verdict.KEEP


def test_a_patch_of_a_plugin_is_read_by_the_record_of_the_plugin(patch):
    other = on_record(patch, [{FILE: CURED}]).shapes.shapes["vllm"]
    shapes = Shapes(patch_digest=patch.digest, shapes={"plugin": other})
    found = step(replace(patch, shapes=shapes), {FILE: LAYER}, {FILE: LAYER}, name="plugin")
    assert found.verdict is Verdict.LOOK_AGAIN


def test_what_needs_a_person_does_so_on_a_new_shape_too(patch):
    known = on_record(patch, [{FILE: LAYER}])
    assert judged(known, "x = 1\n").verdict is Verdict.NEEDS_A_PERSON
