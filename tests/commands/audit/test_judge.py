from __future__ import annotations

from dataclasses import replace

import pytest

from tests.commands.audit.cases import (
    CURED,
    ELSEWHERE,
    GONE,
    HOLE,
    ID,
    OTHER_CURE,
    PATH,
    advisory,
    fix,
    plan_of,
    recorded,
)
from tests.helpers import tree_of
from tests.records import surroundings_in
from vpatch.commands.audit.judge import Status, is_open, judge
from vpatch.library.shapes import BehaviourInRecipe
from vpatch.planning.shape import digest_of_definitions
from vpatch.planning.state import Plan, State


@pytest.fixture
def patch(tmp_path):
    return recorded(fix(tmp_path))


def judged(patches, code, *, about=None, trust_untested=False, **tree):
    made = plan_of(patches, code, **tree)
    (finding,) = judge([about or advisory()], made, trust_untested=trust_untested)
    return finding


def test_a_hole_is_shown_where_it_is(patch):
    finding = judged([patch], HOLE)
    assert finding.status is Status.AFFECTED
    assert [(place.path, place.line) for place in finding.places] == [(PATH, 2)]
    assert (finding.severity, finding.claimed, finding.remark) == ("high", True, None)


def test_upstreams_own_code_is_a_fix(patch):
    finding = judged([patch], CURED, version="0.24.0")
    assert finding.status is Status.FIXED
    basis = "read from 1 definition in 1 file and 0 around these, as in vLLM 0.24.0"
    assert finding.reason == f"vLLM 0.24.0 has the fix, and this is its code; {basis}"
    released = judged([patch], CURED, version="0.24.0", released=True)
    assert released.reason.endswith(
        "read from 1 definition in 1 file of the archive of vLLM 0.24.0"
    )


@pytest.mark.parametrize(("code", "state"), [(CURED, "upstreamed"), (GONE, "absent")])
def test_what_contradicts_needed_in_is_to_be_looked_at(patch, code, state):
    """The release is said to have the defect, and somebody cured it: nobody knows how well."""
    finding = judged([patch], code, version="0.23.0")
    claim = f"declared that it is needed in vllm-0.23.0 ('<0.24'), but is {state}"
    assert (finding.status, finding.remark) == (Status.UNDER_INVESTIGATION, claim)
    assert finding.reason == f"fix is {state}: {claim}"


def test_a_patch_whose_test_holds_is_a_fix(tmp_path):
    patch = recorded(fix(tmp_path), upstream=False)
    finding = judged([patch], CURED, carried={"fix"})
    assert finding.status is Status.FIXED
    assert finding.reason.startswith("fix is applied, and its test holds: by behaviour on cpu")


def test_upstreams_own_code_is_a_fix_whoever_put_it_there(tmp_path):
    patch = recorded(fix(tmp_path), outcome=None)
    finding = judged([patch], CURED, carried={"fix"})
    assert finding.reason.startswith("vLLM 0.24.0 has the fix, and this is its code; read from")


def test_a_cure_that_nobody_tested_is_not_fixed(patch):
    finding = judged([patch], OTHER_CURE)
    assert finding.decisions[0].state is State.UPSTREAMED
    assert finding.status is Status.UNDER_INVESTIGATION


def test_who_trusts_a_cure_that_nobody_tested_does_not_trust_other_code(tmp_path, patch):
    """A patch without a record rests on its author's word. A record says what the word is about."""
    trusting = {"version": "0.24.0", "trust_untested": True}
    assert judged([fix(tmp_path)], OTHER_CURE, **trusting).status is Status.FIXED
    finding = judged([patch], OTHER_CURE, **trusting)
    assert finding.status is Status.UNDER_INVESTIGATION
    assert "; new shape: differs from" in finding.reason


@pytest.mark.parametrize("outcome", [None, "contradicts", "not asked"])
def test_a_patch_without_a_test_that_holds_fixes_nothing(tmp_path, outcome):
    patch = recorded(fix(tmp_path), outcome=outcome, upstream=False)
    finding = judged([patch], CURED, carried={"fix"})
    assert finding.status is Status.UNDER_INVESTIGATION
    assert "no behaviour test has shown" in finding.reason


def test_evidence_of_another_edition_of_the_patch_fixes_nothing(patch):
    old = replace(patch, shapes=patch.shapes.model_copy(update={"patch_digest": "sha256:old"}))
    for code, tree in ((CURED, {"carried": {"fix"}}), (CURED, {"version": "0.24.0"})):
        assert judged([old], code, **tree).status is Status.UNDER_INVESTIGATION


def test_code_that_is_not_there(tmp_path, patch):
    finding = judged([patch], ELSEWHERE, version="0.25.0", released=True)
    assert (finding.status, finding.remark) == (Status.NOT_AFFECTED, None)
    assert finding.reason.endswith("the archive of vLLM 0.25.0 has nothing that the patch reads")
    other = fix(tmp_path, needed="<0.20")
    claimed = judged([recorded(other, absent_in="0.23.0")], ELSEWHERE, released=True)
    assert claimed.remark == "the advisory's range has this version; the code does not"


def test_code_that_is_nowhere_may_have_another_name(patch):
    finding = judged([patch], ELSEWHERE, version="0.25.0")
    assert finding.status is Status.UNDER_INVESTIGATION
    assert "nothing that the patch is about is there" in finding.reason


def test_absent_on_code_that_nobody_checked(tmp_path):
    finding = judged([fix(tmp_path)], ELSEWHERE)
    assert finding.status is Status.UNDER_INVESTIGATION


@pytest.mark.parametrize("state", [State.CONFLICT, State.BLOCKED, State.UNTRUSTED])
def test_what_nobody_can_tell_is_not_fixed(patch, state):
    made = plan_of([patch], CURED, carried={"fix"})
    (decision,) = made.decisions
    stopped = replace(decision, state=state, reason="it cannot be told", shape=None)
    (finding,) = judge([advisory()], Plan(made.pin, (stopped,)), trust_untested=True)
    assert finding.status is Status.UNDER_INVESTIGATION
    assert finding.reason == f"fix is {state}: it cannot be told"


def test_the_worst_of_several_patches_counts(tmp_path, patch):
    other = recorded(fix(tmp_path, patch_id="other"), outcome=None, upstream=False)
    finding = judged([patch, other], CURED, carried={"fix", "other"})
    assert finding.status is Status.UNDER_INVESTIGATION
    assert finding.reason.startswith("other is applied")


def in_recipe(patch, source, **keys):
    """The patch, with a result for this code that a recipe makes of 0.23.0."""
    carried = () if source in {ELSEWHERE, GONE} else {"fix"}
    made = judged([patch], source, carried=carried).decisions[0]
    entry = {
        "recipe": "security-0.23.0",
        "test": "test_attack.py",
        "engine": "cpu",
        "outcome": "holds",
        "state": made.state,
        "code": digest_of_definitions(made.shape.definitions),
        "around": digest_of_definitions(
            surroundings_in(patch, tree_of({PATH: source}, carried=carried))
        ),
        "patch_digest": patch.digest,
    }
    found = BehaviourInRecipe.model_validate(entry | keys)
    known = {"vllm": {"0.23.0": (found,)}}
    return replace(patch, shapes=patch.shapes.model_copy(update={"in_recipes": known}))


def test_what_a_recipe_makes_is_fixed_by_a_test_on_exactly_that(patch):
    proven = in_recipe(patch, OTHER_CURE)
    finding = judged([proven], OTHER_CURE, carried={"fix"})
    assert finding.status is Status.FIXED
    where = "by behaviour on cpu in 0.23.0 with the recipe security-0.23.0"
    assert finding.reason.startswith(f"fix is applied, and its test holds: {where}; read from")
    # The same code without a lock, such as in an environment.
    assert judged([proven], OTHER_CURE).status is Status.FIXED
    other = OTHER_CURE.replace("audit", "log")
    assert judged([proven], other, carried={"fix"}).status is Status.UNDER_INVESTIGATION


@pytest.mark.parametrize(
    "keys",
    [
        {"outcome": "contradicts"},
        {"outcome": "not asked"},
        {"patch_digest": "sha256:another edition"},
        {"code": "sha256:0"},
        {"state": "absent"},
    ],
    ids=str,
)
def test_a_result_in_a_recipe_that_proves_nothing(patch, keys):
    proven = in_recipe(patch, OTHER_CURE, **keys)
    finding = judged([proven], OTHER_CURE, carried={"fix"})
    assert finding.status is Status.UNDER_INVESTIGATION


def test_a_test_that_fails_in_a_recipe_outweighs_one_that_holds(patch):
    proven = in_recipe(patch, OTHER_CURE)
    (held,) = proven.shapes.in_recipes["vllm"]["0.23.0"]
    against = held.model_copy(update={"test": "test_more.py", "outcome": "contradicts"})
    both = {"vllm": {"0.23.0": (held, against)}}
    contradicted = replace(patch, shapes=patch.shapes.model_copy(update={"in_recipes": both}))
    finding = judged([contradicted], OTHER_CURE, carried={"fix"})
    assert finding.status is Status.UNDER_INVESTIGATION


def test_what_a_recipe_makes_of_code_in_which_the_patch_is_absent(tmp_path):
    patch = recorded(fix(tmp_path, needed="<0.20"))
    shapes = patch.shapes.shapes["vllm"]
    without = patch.shapes.model_copy(update={"shapes": {"vllm": shapes[:2]}})
    unknown = replace(patch, shapes=without)
    assert judged([unknown], GONE).status is Status.UNDER_INVESTIGATION
    proven = in_recipe(unknown, GONE, outcome="not asked", test=None, engine=None)
    assert judged([proven], GONE).status is Status.NOT_AFFECTED
    wrong = in_recipe(unknown, GONE, outcome="not asked", state="applied")
    assert judged([wrong], GONE).status is Status.UNDER_INVESTIGATION
    blind = in_recipe(unknown, ELSEWHERE, outcome="not asked", test=None, engine=None)
    assert judged([blind], ELSEWHERE).status is Status.UNDER_INVESTIGATION


def test_an_advisory_without_a_patch_is_never_left_out(patch):
    about = advisory("CVE-2026-9", database_specific={"vpatch": {"not_carried": "It is compiled."}})
    inside = judged([patch], HOLE, about=about)
    assert (inside.status, inside.reason) == (Status.UNKNOWN, "It is compiled.")
    outside = judged([patch], HOLE, about=about, version="0.24.0")
    assert (outside.status, outside.decisions) == (Status.NOT_AFFECTED, ())
    unversioned = judged([patch], HOLE, about=about, version=None)
    assert unversioned.status is Status.UNKNOWN


def test_a_patch_is_found_by_an_alias(tmp_path):
    patch = fix(tmp_path, resolves="[{id: GHSA-aaaa-bbbb-cccc, severity: critical}]")
    about = advisory(aliases=["GHSA-aaaa-bbbb-cccc"], database_specific={})
    finding = judged([patch], HOLE, about=about)
    assert (finding.status, finding.severity) == (Status.AFFECTED, "critical")


def test_code_that_has_a_hole_outside_of_the_range(patch):
    finding = judged([patch], HOLE, version="0.30.0")
    assert finding.status is Status.AFFECTED
    assert finding.remark == "the advisory's range does not have this version; the code does"


@pytest.mark.parametrize(
    ("severity", "least", "expected"),
    [("HIGH", "high", True), ("HIGH", "critical", False), ("LOW", "low", True), ("", "high", True)],
)
def test_what_fails_a_run(patch, severity, least, expected):
    about = advisory(database_specific={"severity": severity})
    assert is_open(judged([patch], HOLE, about=about), least) is expected
    assert not is_open(judged([patch], CURED, about=about, version="0.24.0"), "low")


def test_the_id_in_the_patch_is_that_of_the_advisory(patch):
    assert judged([patch], HOLE, about=advisory("CVE-2026-12345")).decisions == ()
    assert judged([patch], HOLE, about=advisory(ID)).decisions != ()


def test_a_lock_is_no_proof(patch):
    """Somebody put the old code back: the lock names the patch, and the hole is there."""
    made = plan_of([patch], HOLE, carried={"fix"})
    assert made.decisions[0].state is State.CONFLICT
    (finding,) = judge([advisory()], made, locked={"fix"})
    assert finding.status is Status.AFFECTED
    assert finding.reason.startswith("the lock names fix, and the code does not have all of it")
    assert is_open(finding, "high")


@pytest.mark.parametrize(
    ("version", "status"),
    [
        ("0.24.0", Status.NOT_AFFECTED),
        ("0.24.0+cpu", Status.NOT_AFFECTED),
        ("0.24.1.dev3+g1a2b3c", Status.UNKNOWN),
    ],
)
def test_a_build_between_releases_is_not_judged_by_its_number(version, status):
    made = plan_of([], HOLE, version=version)
    (finding,) = judge([advisory()], made)
    assert (finding.status, finding.claimed) == (status, False)
