"""The plans that run where a recipe has none, and the pristine side of a benchmark."""

from __future__ import annotations

import pytest

from tests.helpers import fails
from tests.projects import NAME_PROJ, SLOW_MODE, write_patch
from vpatch.commands.bench.sides import Opening, subjects_of
from vpatch.commands.bench.standard import standard_bench
from vpatch.commands.bench.usecase import BenchOptions
from vpatch.commands.smoke.request import SmokeOptions, planned_smoke, smoke_plan_of
from vpatch.commands.smoke.standard import standard_plan
from vpatch.progress import Progress
from vpatch.runs.matrix import matrix_of
from vpatch.workspace.context import Context
from vpatch.workspace.selection import Request

RECIPE = "vllm: 0.50.0\npatches: [name-proj]\n"
OWN_BENCH = "bench: {models: {m: {synthetic: all}}, shapes: [{input: 8, output: 7}], cells: [{model: m, k: [1]}]}\n"  # noqa: E501
MATRIX = RECIPE + "matrix: {vllm: [0.50.0, 0.51.0], patches: {all: [name-proj]}}\n"


class Notes(Progress):
    def __init__(self):
        self.lines = []

    def note(self, text):
        self.lines.append(text)


@pytest.fixture
def context(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("[tool.vpatch]\n")
    write_patch(tmp_path / "patches", "name-proj", NAME_PROJ)
    write_patch(tmp_path / "patches", "slow-mode", SLOW_MODE)
    (tmp_path / "recipes").mkdir()
    for name, text in (("bare", RECIPE), ("own", RECIPE + OWN_BENCH), ("many", MATRIX)):
        (tmp_path / "recipes" / f"{name}.yaml").write_text(text)
    with Context(trust_everything=True, progress=Notes()) as found:
        yield found


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (Request(recipe="bare"), "the recipe bare has no smoke plan: the standard plan runs"),
        (Request("0.77.0", patches=("name-proj",)), "no recipe has a smoke plan for this vLLM: "),
    ],
)
def test_a_smoke_run_without_a_plan_takes_the_standard_one(context, request_, said):
    _, smoke = planned_smoke(context, request_, SmokeOptions())
    assert smoke == standard_plan()
    (note,) = context.progress.lines
    assert note.startswith(said)


def test_a_recipe_that_was_named_for_its_plan_must_have_one(context):
    with fails("smoke.no-plan"):
        planned_smoke(context, Request(recipe="own"), SmokeOptions(plan="bare"))
    assert smoke_plan_of(context, "bare") == standard_plan()


def plan(context, recipe, served=(), **options):
    return BenchOptions(**options).overrides().plan(context, recipe, served)


@pytest.mark.parametrize("recipe", ["bare", None])
def test_a_benchmark_without_a_plan_takes_the_standard_one(context, recipe):
    assert plan(context, recipe) == standard_bench()
    (note,) = context.progress.lines
    assert "plan: the standard plan runs (k=0 and k=3, 24 tokens in and 32 out)" in note
    assert [(row.model, row.k) for row in plan(context, recipe, k="1").cells] == [
        ("all-accepted", (1,))
    ]


def test_a_model_and_a_shape_are_a_plan_of_their_own(context):
    found = plan(context, "bare", model="org/model@main", shapes=("8/9",))
    assert (found.flags, list(found.models)) == ({}, ["model"])
    assert context.progress.lines == []


def test_the_plan_of_a_recipe_stays(context):
    assert plan(context, "own").cells[0].k == (1,)
    assert context.progress.lines == []


def test_running_servers_get_no_load_that_nobody_asked_for(context):
    with fails("cli.missing-option", "the recipe bare has no benchmark plan"):
        plan(context, "bare", [1], model="org/model")


def sides(context, request, *, matrix=None):
    """What a benchmark with --before measures: releases and patches of each side."""
    said = {"image": None, "url": (), "compare": None, "before": True}
    opening = Opening(context, request, None, None, BenchOptions().overrides(), None, None, matrix)
    found = (
        [point.jobs for point in matrix.points]
        if matrix
        else [opening._jobs(vllm) for (vllm,) in subjects_of(said, request).sides]
    )
    return [(job.spec.version, [patch.id for patch in job.patches]) for (job,) in found]


@pytest.mark.parametrize(
    "request_", [Request(recipe="bare"), Request("0.50.0", patches=("name-proj",))]
)
def test_before_measures_the_pristine_release_first(context, request_):
    assert sides(context, request_) == [("0.50.0", []), ("0.50.0", ["name-proj"])]


def test_before_adds_the_pristine_release_of_each_in_a_matrix(context):
    request = Request(recipe="many")
    matrix = matrix_of(context, request).with_pristine()
    assert sides(context, request, matrix=matrix) == [
        ("0.50.0", []),
        ("0.51.0", []),
        ("0.50.0", ["name-proj"]),
        ("0.51.0", ["name-proj"]),
    ]
    assert matrix.with_pristine() == matrix
