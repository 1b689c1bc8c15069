"""The matrix of a recipe: its points, and what it says of itself when it is wrong."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests.helpers import fails
from tests.projects import write_patch
from vpatch.declare.errors import DeclarationError
from vpatch.harness.machine import Machine
from vpatch.progress import Silent
from vpatch.runs.matrix import matrix_of
from vpatch.workspace.context import Context
from vpatch.workspace.selection import Request

RECIPE = """vllm: 0.50.0
patches: [one, two]
matrix:
  vllm: [0.50.0, 0.51.0]
  patches:
    pristine: []
    all: [one, two]
  models: [small, large]
  hardware:
    cpu: {engine: cpu}
    hopper: {gpus: 2, labels: {accelerator: h200}}
smoke:
  needs: {memory-gib: 3, labels: {zone: a}}
  models: {other: {synthetic: all}, small: {synthetic: all}, large: {synthetic: none}}
  prompts: {words: [say]}
  defaults: {prompts: words}
  cells:
    - {model: small, k: [0, 1]}
    - {model: other, k: [0, 1]}
    - {model: small, k: [0], modes: [server]}
bench:
  models: {small: {synthetic: all}, large: {synthetic: none}}
  shapes: [{input: 8, output: 7}]
  cells:
    - {model: small, k: [0, 1]}
    - {model: large, k: [3]}
"""
MACHINE = Machine("Linux", "a processor", 2, 16.0, ())


@pytest.fixture
def context(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("[tool.vpatch]\n")
    edit = "- {find: a(), rewrite: b()}"
    for name in ("one", "two"):
        write_patch(tmp_path / "patches", name, edit)
    (tmp_path / "recipes").mkdir()
    write(tmp_path, RECIPE)
    with Context(trust_everything=True) as found:
        yield found


def write(folder, text):
    (folder / "recipes" / "many.yaml").write_text(text)


def matrix(context, **asked):
    return matrix_of(context, Request(recipe="many", **asked))


def test_every_combination_is_a_point(context):
    found = matrix(context)
    assert [point.name for point in found.points] == [
        f"{release} {patches} {kind}"
        for release in ("0.50.0", "0.51.0")
        for patches in ("pristine", "all")
        for kind in ("cpu", "hopper")
    ]
    for point in found.points:
        (job,) = point.jobs
        assert job.spec.version == point.vllm
        named = [] if point.patches == "pristine" else ["one", "two"]
        assert [patch.id for patch in job.patches] == named
        # Where a recipe is named, a patch that finds nothing to do stops the run.
        assert job.recipe is None


def test_a_plan_has_the_models_and_the_needs_of_a_point(context):
    found = matrix(context)
    declared, _ = context.library.read_recipe(context.library.recipe("many"))
    hopper = found.points[1]
    plan = found.plan_at(declared.smoke, hopper.needs)
    assert [(row.model, row.k, row.modes) for row in plan.cells] == [
        ("small", (0, 1), None),
        ("small", (0,), ("server",)),
        ("large", (0, 1), None),
        ("large", (0,), ("server",)),
    ]
    assert (plan.needs.gpus, plan.needs.memory_gib) == (2, 3)
    assert plan.needs.labels == {"zone": "a", "accelerator": "h200"}
    plan = found.plan_at(declared.bench, found.points[0].needs)
    assert [(row.model, row.k) for row in plan.cells] == [
        ("small", (0, 1, 3)),
        ("large", (0, 1, 3)),
    ]
    assert plan.needs.engine == "cpu"


def test_this_machine_runs_what_it_can(context):
    notes = []
    found = matrix(context).here(MACHINE, "cpu", SimpleNamespace(note=notes.append))
    assert {point.hardware for point in found.points} == {"cpu"}
    assert len(found.points) == len(notes) == 4
    assert "0.50.0 pristine hopper is left out: the recipe needs 2 GPUs" in notes[0]
    assert "only nodes of a cluster have labels" in notes[0]


def test_this_machine_can_run_nothing(context, tmp_path):
    write(tmp_path, RECIPE.replace("{engine: cpu}", "{labels: {a: b}}"))
    with fails("cli.missing-option") as error:
        matrix(context).here(MACHINE, "cpu", Silent())
    assert error.value.where.endswith("many.yaml:3")


@pytest.mark.parametrize(
    ("old", "new", "line", "said"),
    [
        ("all: [one, two]", "all: [one, three]", 7, "the recipe does not list 'three'"),
        ("[0.50.0, 0.51.0]", "[0.50.0, 0.50.0]", 3, "vllm has a value twice"),
        ("[0.50.0, 0.51.0]", "[main]", 4, "main' does not match"),
        ("hardware:", "hardwares:", 9, "hardwares"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(context, tmp_path, old, new, line, said):
    write(tmp_path, RECIPE.replace(old, new))
    with pytest.raises(DeclarationError) as error:
        matrix(context)
    assert said in str(error.value)
    assert error.value.where.endswith(f"many.yaml:{line}")


def test_a_model_that_the_plan_does_not_have(context, tmp_path):
    write(tmp_path, RECIPE.replace("models: [small, large]", "models: [small, tiny]"))
    found = matrix(context)
    declared, _ = context.library.read_recipe(context.library.recipe("many"))
    with pytest.raises(DeclarationError, match="'tiny' is not in the models of the plan") as error:
        found.plan_at(declared.bench, found.points[0].needs)
    assert error.value.where.endswith("many.yaml:8")


def test_patches_and_sets_of_patches_exclude_each_other(context):
    with fails("cli.unused-option"):
        matrix(context, patches=("one",))


def test_no_matrix(context, tmp_path):
    write(tmp_path, "vllm: 0.50.0\npatches: [one]\n")
    assert matrix(context) is None
    assert matrix_of(context, Request(vllm="0.50.0")) is None
