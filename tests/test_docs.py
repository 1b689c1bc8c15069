"""Every edit, patch and target that the documentation shows is one that loads."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.helpers import MODULE, edits_of, patch_of, run
from vpatch.codemods import SiteTransformer
from vpatch.declare.bench import Bench
from vpatch.declare.edits import VERBS
from vpatch.declare.recipe import RecipeDeclaration
from vpatch.declare.target import Target
from vpatch.declare.yamlfile import read_yaml

DOCS = Path(__file__).parents[1] / "docs"


def blocks(name):
    text = (DOCS / name).read_text(encoding="utf-8")
    found = re.findall(r"^```yaml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return [YAML(typ="safe").load(block) for block in found]


LOADED = blocks("patches.md")
PROPOSAL, NOT_PROPOSED, *TARGETS = blocks("upstream.md")
EDITS = [edit for block in LOADED if isinstance(block, list) for edit in block]
KEYS = [block for block in LOADED if isinstance(block, dict)]
CODEMOD = "from vpatch.codemods import SiteTransformer\nclass Codemod(SiteTransformer): ...\n"
DIFF = "--- a/x.sh\n+++ b/x.sh\n@@ -1 +1 @@\n-a\n+b\n"


@pytest.mark.parametrize("edit", EDITS, ids=str)
def test_an_edit_that_is_shown_loads(edit, tmp_path):
    (tmp_path / "bf16.py").write_text("def bf16_o_proj():\n    return 1\n")
    (tmp_path / "expand.py").write_text("def _expand_kernel_impl():\n    return 1\n")
    (tmp_path / "codemod.py").write_text(CODEMOD)
    (tmp_path / "install.diff").write_text(DIFF)
    (tmp_path / "compat.py").write_text("")
    assert edits_of(edit, tmp_path)


@pytest.mark.parametrize("keys", KEYS, ids=str)
def test_keys_of_a_patch_that_are_shown_load(keys, tmp_path):
    edits = [{"find": "f()", "rewrite": "g()"}]
    patch_of(tmp_path, edits=edits, files={"test_behaviour.py": ""}, **keys)


def test_every_edit_is_shown():
    assert {verb for edit in EDITS for verb in edit if verb in VERBS} == set(VERBS)


CODEMODS = re.findall(
    r"^```yaml\n(.*?)^```\n\n```python\n(.*?)^```\n\n```diff\n(.*?)^```",
    (DOCS / "codemods.md").read_text(encoding="utf-8"),
    re.MULTILINE | re.DOTALL,
)


def side(diff, sign):
    lines = [line for line in diff.splitlines() if line[:1] in {"", " ", sign}]
    return "".join(f"{line[1:]}\n" for line in lines)


@pytest.mark.parametrize(("edit", "codemod", "diff"), CODEMODS)
def test_a_codemod_that_is_shown_does_what_is_shown(edit, codemod, diff, tmp_path):
    (tmp_path / "codemod.py").write_text(codemod)
    before, after = side(diff, "-"), side(diff, "+")
    (declared,) = YAML(typ="safe").load(edit)["edits"]
    result = run(declared, before, tmp_path)
    assert result.mismatch is None
    assert result.view.read(MODULE).decode() == after
    assert not run(declared, after, tmp_path).todo


def test_both_kinds_of_codemod_are_shown():
    bases = [
        re.findall(r"^class \w+\((\w+)\)", codemod, re.MULTILINE) for _, codemod, _ in CODEMODS
    ]
    assert bases == [["SiteTransformer"], ["VisitorBasedCodemodCommand"]]


def test_every_name_of_the_base_class_is_documented():
    text = (DOCS / "codemods.md").read_text(encoding="utf-8")
    own = {"kinds", "edit", "enter", "add", "is_within", "sees_identifiers"}
    assert own <= set(dir(SiteTransformer))
    assert {name for name in own if f"`{name}" not in text and f"self.{name}" not in text} == set()


def test_the_proposal_that_is_shown_loads(tmp_path):
    edits = [{"find": "f()", "rewrite": "g()"}]
    patch = patch_of(tmp_path, edits=edits, files={"test_behaviour.py": ""}, **PROPOSAL)
    assert patch.declaration.proposal.keywords == ("expand_kernel",)


def test_why_a_patch_is_not_for_upstream_loads(tmp_path):
    edits = [{"find": "f()", "rewrite": "g()"}]
    patch = patch_of(tmp_path, edits=edits, **NOT_PROPOSED)
    assert patch.declaration.not_for_upstream.startswith("It declares operators")
    assert patch.digest == patch_of(tmp_path, edits=edits).digest


def test_the_benchmark_plans_that_are_shown_load():
    small, plan = blocks("bench.md")
    small = RecipeDeclaration.model_validate(small, strict=False)
    assert [(cells.model, cells.k) for cells in small.bench.cells] == [("tiny", (0, 2))]
    bench = Bench.model_validate(plan, strict=False)
    assert [shape.name for shape in bench.shapes] == ["8192/1024", "mixed/256"]


def test_every_key_of_a_benchmark_plan_is_told_of():
    text = (DOCS / "bench.md").read_text(encoding="utf-8")
    names = {field.alias for field in Bench.model_fields.values()}
    assert {name for name in names if f"`{name}`" not in text} == set()


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target["repository"])
def test_a_target_that_is_shown_loads(target, tmp_path):
    with (tmp_path / "target.yaml").open("w") as file:
        YAML(typ="safe", pure=True).dump(target, file)
    assert read_yaml(tmp_path / "target.yaml", Target)[0].repository == target["repository"]


def test_every_gate_is_in_the_table():
    text = (DOCS / "upstream.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^\| ([a-z' -]+) \| ", text, re.MULTILINE)) - {"gate"}
    source = (DOCS.parent / "vpatch" / "upstream" / "gates.py").read_text(encoding="utf-8")
    known = set(re.findall(r'(?:name = |Gate\(\s*)"([a-z\' -]+)"', source)) - {"described"}
    assert named == known


def test_every_kind_of_finding_is_in_a_table():
    text = (DOCS / "checkpoints.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^\| `([a-z0-9-]+)` \| ", text, re.MULTILINE))
    source = (DOCS.parent / "vpatch" / "checkpoint" / "findings.py").read_text(encoding="utf-8")
    known = set(re.findall(r'Finding\(\s*"([a-z0-9-]+)"', source))
    assert named == known
