"""vpatch bump --write proves a recipe in a real vLLM of the new release, which the cache has."""

from __future__ import annotations

import json
import os

import pytest

from tests.engine.conftest import RELEASE, vpatch
from tests.projects import git, own_repository, write_patch

# tests/commands/bump/test_bump_proof.py does so in a vLLM of a few lines; this one takes a minute.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("cpu_engine"),
    pytest.mark.skipif(
        os.environ.get("VPATCH_TEST_RELEASES") != "all", reason="only with VPATCH_TEST_RELEASES=all"
    ),
]

RECIPE = """
vllm: 0.22.1
patches: [own]
smoke:
  models: {tiny: {synthetic: all}}
  prompts: {words: ["<003><009>"]}
  defaults:
    prompts: words
    flags: {enforce-eager: true, max-model-len: 512, max-num-seqs: 8}
    environment:
      VLLM_CPU_KVCACHE_SPACE: "1"
      TORCHDYNAMO_DISABLE: "1"
      VLLM_ENABLE_V1_MULTIPROCESSING: "0"
    timeouts: {start: 300, token: 60, cell: 600, stop: 60}
  cells:
    - {model: tiny, k: [0], modes: [offline]}
"""


# Nothing depends on it: this is about the engine.
EDIT = """
- insert: assert n >= 0
  at-start-of: "def largest_power_of_2_divisor(...): ..."
"""


def test_the_smoke_plan_of_the_new_recipe_runs_in_the_engine_of_the_cache(tmp_path):
    """Nobody names the engine. The evidence is of the new release, and of the patched tree."""
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "mine.yaml").write_text(RECIPE)
    folder = write_patch(
        tmp_path / "patches", "own", EDIT, concerns="text: def largest_power_of_2_divisor"
    )
    declared = folder / "patch.yaml"
    declared.write_text(declared.read_text().replace(">=0.50", ">=0.22"))
    (tmp_path / ".gitignore").write_text("evidence/\n")
    own_repository(tmp_path)
    git(tmp_path, "add", "--all")
    git(tmp_path, "commit", "--quiet", "--message=x")
    run = vpatch("bump", "mine", "--to", RELEASE, "--write", "--trust", "--json", folder=tmp_path)
    written = json.loads(run.stdout)["result"]["written"]
    (smoke,) = (step for step in written["proof"] if "smoke" in step["what"])
    (folder,) = (tmp_path / "evidence").iterdir()
    assert smoke == {
        "what": "vpatch smoke --recipe mine",
        "outcome": "holds",
        "reason": f"evidence in evidence/{folder.name}",
    }
    record = json.loads((folder / "results.json").read_text())
    (tree,) = record["subject"]
    assert (tree["pin"]["version"], tree["patches"][0]["id"]) == (RELEASE, "own")
    assert f"vllm: {RELEASE}\n" in git(tmp_path, "show", f"{written['branch']}:recipes/mine.yaml")
    assert git(tmp_path, "status", "--porcelain") == ""
