"""vpatch test --recipe: behaviour tests on what all patches of a recipe make together."""

from __future__ import annotations

import json
import sys

import pytest

from tests.commands.audit.cases import advisory
from tests.commands.conftest import TEST
from tests.projects import VERSION
from vpatch.library.shapes import read_shapes

RUN = ("test", "--recipe", "both", "--engine", sys.executable)
RECORD = (*RUN, "--record")
ID = "CVE-2026-1234"


@pytest.fixture
def both(proven):
    """Two patches of one function: `name-proj`, which has a test, and `wide`."""
    proven.patch("wide", "- find: Linear(4, 8)\n  rewrite: Linear(8, 8)")
    recipes = proven.folder / "recipes"
    recipes.mkdir(exist_ok=True)
    (recipes / "both.yaml").write_text(f"vllm: {VERSION}\npatches: [name-proj, wide]\n")
    # Without a record of each patch, nobody knows what it makes alone.
    proven.run("test", "--record", "name-proj", "wide", "--vllm", VERSION)
    return proven


def recorded(project, patch_id="name-proj"):
    found = read_shapes(project.patches / patch_id).in_recipes
    return found["vllm"][VERSION] if found else ()


def holds(word="holds"):
    return f"{word}  name-proj  test_it.py  vLLM {VERSION} (cpu)  applied"


OTHER = """
def test_the_other():
    file = pathlib.Path(vllm.__file__).with_name("models") / "llama.py"
    assert "Linear(8, 8)" in file.read_text()
"""


@pytest.mark.slow
def test_a_result_is_for_all_that_the_recipe_makes(both):
    test = both.patches / "name-proj" / "test_it.py"
    test.write_text(TEST + OTHER)
    (one,) = both.run(*RUN, "--json").json["releases"]
    assert [case["name"] for case in one["runs"]["patched"]["tests"]][-1] == "test_the_other"
    assert (list(one["runs"]), recorded(both)) == (["patched"], ())
    run = both.run(*RECORD)
    assert run.out.startswith(f"{holds()}  ")
    assert run.out.endswith("1 holds; recorded before: 0\n")
    (first,) = recorded(both)
    assert (first.recipe, first.test, first.outcome) == ("both", "test_it.py", "holds")
    again = both.run(*RECORD)
    assert again.out == f"{holds('recorded: holds')}\n1 holds; recorded before: 1\n"
    assert "Running" not in again.err
    # Another test, and then another patch of the same function.
    test.write_text(TEST)
    assert "Running test_it.py" in both.run(*RECORD).err
    (second,) = recorded(both)
    assert (second.code, second.test_digest != first.test_digest) == (first.code, True)
    both.patch("wide", "- find: Linear(4, 8)\n  rewrite: Linear(9, 9)")
    assert "Running test_it.py" in both.run(*RECORD).err
    (third,) = recorded(both)
    assert third.code != second.code


@pytest.mark.slow
def test_a_contradiction_is_a_finding(both):
    test = both.patches / "name-proj" / "test_it.py"
    test.write_text(TEST.replace("assert patched", "assert not patched"))
    run = both.run(*RECORD, code=1)
    assert run.out.startswith(holds("contradicts"))
    assert "test_prefix failed on the patched tree: assert not True" in run.out
    assert recorded(both)[0].outcome == "contradicts"


@pytest.mark.slow
def test_what_no_other_patch_changes_is_left_out(both):
    """Its own record counts; without --record it runs as well."""
    (both.folder / "recipes" / "both.yaml").write_text(f"vllm: {VERSION}\npatches: [name-proj]\n")
    run = both.run(*RECORD)
    assert "1 patch left out, as no other patch changes their code: name-proj" in run.err
    assert run.out == "no behaviour test; recorded before: 0\n"
    assert recorded(both) == ()
    assert both.run(*RUN).out.startswith(holds())


@pytest.mark.slow
def test_the_audit_of_the_recipe_says_fixed(both):
    declared = both.patches / "name-proj" / "patch.yaml"
    text = declared.read_text().replace("edits:", f"resolves: [{{id: {ID}}}]\nedits:")
    declared.write_text(text)
    both.run("test", "--record", "name-proj", "--vllm", VERSION)
    row = advisory(fixed="0.60.0").model_dump(mode="json")
    (both.folder / "new.json").write_text(json.dumps(row))
    audit = ("audit", "--recipe", "both", "--advisories", "new.json", "--json")

    def status():
        (tree,) = both.run(*audit).json["trees"]
        return next(one["status"] for one in tree["advisories"] if one["id"] == ID)

    assert status() == "under_investigation"
    both.run(*RECORD)
    assert status() == "fixed"
    # A new reading of the releases keeps the result.
    both.run("test", "--record", "name-proj", "--vllm", VERSION)
    assert status() == "fixed"


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (("--recipe", "both"), "cli.unused-option", "--recipe would have no effect without"),
        ((*RUN[1:], "--vllm", "0.50"), "cli.unused-option", "no effect beside --recipe"),
        ((*RUN[1:], "--keep-engines", "1"), "cli.unused-option", "--keep-engines would have"),
        ((*RUN[1:], "--evidence-dir", "e"), "cli.unused-option", "--evidence-dir would have"),
        (("slow-mode", *RUN[1:]), "library.not-in-recipe", "does not have slow-mode"),
    ],
)
def test_wrong_use(both, args, code, said):
    run = both.run("test", *args, code=2)
    assert run.codes == (code,)
    assert said in run.err


def test_a_recipe_without_a_release(both):
    (both.folder / "recipes" / "both.yaml").write_text("vllm: ./src\npatches: [name-proj]\n")
    both.run("apply", "--vllm", VERSION, "--patch", "wide", "--checkout", "recipes/src")
    assert both.run(*RUN, code=2).codes == ("harness.no-release",)
