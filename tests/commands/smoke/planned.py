"""A project with a smoke plan for the small vLLM, and with a patch that its recipe has."""

from __future__ import annotations

from tests.commands.smoke.fake_vllm import FAKE
from tests.projects import VERSION, archive, write_patch

EDITS = """
- find: STRENGTH = 1
  rewrite: STRENGTH = 2
"""
PLAN = """
vllm: 0.50.0
patches: [strength]
smoke:
  models: {given: {checkpoint: MODEL}}
  prompts: {words: [four, fives]}
  imports: {modules: [json, vllm.layer]}
  defaults:
    prompts: words
    max-tokens: 8
    flags: {max-model-len: 64}
    timeouts: {start: 600, token: 600, cell: 600, stop: 600}
  cells:
    - {model: given, k: [0, 2]}
"""


def give_plan(project):
    """Write the recipe, the patch and a checkpoint, and have the index offer the vLLM."""
    project.trusting = True
    project.index.add(VERSION, archive(files={p: t.encode() for p, t in FAKE.items()}))
    write_patch(project.patches, "strength", EDITS, concerns="text: STRENGTH")
    checkpoint = project.folder / "model"
    checkpoint.mkdir()
    (checkpoint / "config.json").write_text("{}")
    project.recipe = project.folder / "recipes" / "vllm-0.50.yaml"
    project.recipe.parent.mkdir(exist_ok=True)
    write_plan(project, PLAN)


def write_plan(project, text):
    """Write the recipe; MODEL stands for the checkpoint."""
    project.recipe.write_text(text.replace("MODEL", str(project.folder / "model")))
