"""The recipes that come along: each is whole, and says nothing that vLLM would not take."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from vpatch.commands.smoke.cells import cells_of
from vpatch.declare.recipe import RecipeDeclaration
from vpatch.declare.yamlfile import read_yaml
from vpatch.source.spec import parse_vllm
from vpatch.workspace.context import Context

ROOT = Path(__file__).parents[1]
EVERY = sorted((ROOT / "recipes").glob("*.yaml"))
# Those of backports have nothing to run of their own.
RECIPES = [path for path in EVERY if not path.stem.startswith("security-")]


def declared(path):
    return read_yaml(path, RecipeDeclaration)[0]


@pytest.fixture(scope="module")
def engine_arguments():
    """The fields of EngineArgs: what vLLM's command line and its class LLM take."""
    with Context().tree(parse_vllm("0.23.0")) as tree:
        module = ast.parse(tree.read("vllm/engine/arg_utils.py"))
    (found,) = (n for n in module.body if isinstance(n, ast.ClassDef) and n.name == "EngineArgs")
    return {n.target.id for n in found.body if isinstance(n, ast.AnnAssign)}


def test_there_is_one_for_each_run():
    assert [path.stem for path in RECIPES] == [
        "deepseek-v4-flash-mtp",
        "deepseek-v4-tiny",
        "mtp-edges",
        "qwen3.5-mtp-metax",
        "vllm-0.23",
    ]


def test_each_release_has_a_recipe_of_its_backports():
    found = {path.stem.removeprefix("security-"): declared(path) for path in EVERY}
    found = {name: recipe for name, recipe in found.items() if recipe.security}
    assert {name: recipe.vllm.source for name, recipe in found.items()} == {
        release: release for release in Context(offline=True).releases()
    }
    assert all(recipe.why and not recipe.patches for recipe in found.values())


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_is_whole(path, engine_arguments):
    recipe = declared(path)
    assert recipe.why
    for patch in recipe.patches:
        assert (ROOT / "patches" / patch / "patch.yaml").is_file()
    cells = cells_of(recipe.smoke)
    # The plan of edges asks what an engine does, and a server only hands it on.
    assert {cell.mode for cell in cells} == (
        {"offline"} if path.stem == "mtp-edges" else {"offline", "server"}
    )
    assert {cell.model for cell in cells} == set(recipe.smoke.models)
    for cell in cells:
        assert {flag.replace("-", "_") for flag in cell.flags} <= engine_arguments
        # What a threshold needs three rounds for is run three times.
        assert cell.rounds >= 3 or not {"speed-up", "tokens-per-second"} & set(cell.checks)
    for row in {cell.row for cell in cells if "speed-up" in cell.checks}:
        assert 0 in {cell.k for cell in cells if cell.row == row}


@pytest.mark.parametrize(
    "path", [path for path in RECIPES if path.stem != "mtp-edges"], ids=lambda path: path.stem
)
def test_a_benchmark_plan_fits_its_servers(path, engine_arguments):
    plan = declared(path).bench
    assert {cell.model for cell in plan.cells} == set(plan.models)
    assert {flag.replace("-", "_") for flag in plan.flags} <= engine_arguments
    longest = max(shape.input + shape.output for shape in plan.shapes)
    assert longest <= plan.flags["max-model-len"]
    # More at once would wait in the server's queue, and be measured as slow.
    assert max(plan.concurrency) <= plan.flags.get("max-num-seqs", 256)
    for cells in plan.cells:
        assert 0 in cells.k, "nothing to compare with"
    assert plan.repeats >= 3
    assert plan.needs == declared(path).smoke.needs
