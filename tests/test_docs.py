"""What the documentation shows loads, does what it says, and leaves nothing out."""

from __future__ import annotations

import ast
import json
import re
import shutil
from typing import get_args

import click
import jsonschema
import pytest
from jsonschema.validators import Draft202012Validator
from ruamel.yaml import YAML

from tests import documents
from tests.documents import ROOT, followed, page
from tests.helpers import MODULE, edits_of, patch_of, run
from tests.projects import NAME_PROJ, write_patch
from vpatch.checkout.lockfile import LockFile
from vpatch.codemods import SiteTransformer
from vpatch.codemods.allowed import LIBCST, PURE, VPATCH
from vpatch.codemods.inputs import inputs_of
from vpatch.commands.audit.acceptance import ACCEPTED_FILE, AcceptedDeclaration, read_accepted
from vpatch.console.document import Envelope, ErrorOutput
from vpatch.declare.bench import Bench
from vpatch.declare.edits import VERBS
from vpatch.declare.patch import PatchDeclaration
from vpatch.declare.project_settings import read_settings
from vpatch.declare.recipe import RecipeDeclaration
from vpatch.declare.smoke import Figure
from vpatch.declare.target import Target
from vpatch.declare.yamlfile import read_yaml, valid_keys
from vpatch.engine import PAYLOAD
from vpatch.errors import ExitCode
from vpatch.evidence.records import BehaviourTestRecord, SmokeRecord
from vpatch.library.catalog import find_library
from vpatch.library.project import Project
from vpatch.library.shapes import BehaviourOnRelease, KnownShape, Shapes
from vpatch.main import cli
from vpatch.registry import RESULTS


def blocks(name):
    found = re.findall(r"^```yaml\n(.*?)^```", page(name), re.MULTILINE | re.DOTALL)
    return [YAML(typ="safe").load(block) for block in found]


@pytest.fixture(scope="module")
def loaded():
    return [*blocks("reference/edits.md"), *blocks("reference/patch.md")]


@pytest.fixture(scope="module")
def shown_edits(loaded):
    return [edit for block in loaded if isinstance(block, list) for edit in block]


CODEMOD = "from vpatch.codemods import SiteTransformer\nclass Codemod(SiteTransformer): ...\n"
DIFF = "--- a/x.sh\n+++ b/x.sh\n@@ -1 +1 @@\n-a\n+b\n"


def test_each_edit_that_is_shown_loads(shown_edits, tmp_path):
    (tmp_path / "bf16.py").write_text("def bf16_o_proj():\n    return 1\n")
    (tmp_path / "expand.py").write_text("def _expand_kernel_impl():\n    return 1\n")
    (tmp_path / "codemod.py").write_text(CODEMOD)
    (tmp_path / "install.diff").write_text(DIFF)
    (tmp_path / "compat.py").write_text("")
    (tmp_path / "check.py").write_text("def check_codec():\n    return 1\n")
    for edit in shown_edits:
        assert edits_of(edit, tmp_path), edit


ENTRIES = """\
KINDS = ["dense", "moe"]
_MODELS = {
    # Going.
    "OldForCausalLM": ("old", "OldForCausalLM"),
}
CONFIG = {'sizes': [256, 512], 'name': "a"}


class Platform:
    def supports(self, kind):
        return kind in ("cuda",)
"""
CHANGED = """\
KINDS = ["dense", "hybrid", "moe"]
_MODELS = {
    # Going.
    "NewForCausalLM": ("new", "NewForCausalLM"),
}
CONFIG = {'sizes': [256, 512, 1024], 'name': "a"}


class Platform:
    def supports(self, kind):
        return kind in ("cuda", "npu")
"""


def test_the_edits_of_entries_that_are_shown_change_them(shown_edits):
    code = ENTRIES
    edits = [
        edit
        for words in (("KINDS", "_MODELS"), ("CONFIG", "$kind in"))
        for edit in shown_edits
        if any(word in str(edit.get("find")) for word in words)
    ]
    assert len(edits) == 5
    for edit in edits:
        result = run(edit, code)
        assert result.mismatch is None, result.mismatch
        code = result.view.read(MODULE).decode()
    assert code == CHANGED


FIELDS = '''\
class SchedulerConfig:
    max_num_seqs: int = 128
    """How many run at once."""
    policy: str = "fcfs"


class ModelKind(Enum):
    DENSE = "dense"
    MOE = auto()
'''


def test_the_edits_of_fields_that_are_shown_add_them(shown_edits):
    code = FIELDS
    edits = [e for e in shown_edits if e.get("within") in {"SchedulerConfig", "ModelKind"}]
    edits += [e for e in shown_edits if e.get("at-end-of") == "class ModelKind: ..."]
    assert len(edits) == 3
    for edit in edits:
        result = run(edit, code)
        assert result.mismatch is None, result.mismatch
        code = result.view.read(MODULE).decode()
    added = '    max_drafts: int = 0\n    """How many tokens are drafted at most."""\n    policy'
    wanted = FIELDS.replace("    policy", added).replace(
        "    MOE", '    HYBRID = "hybrid"\n    MOE'
    )
    assert code == wanted + "    OTHER = auto()\n"


def test_keys_of_a_patch_that_are_shown_load(loaded, tmp_path):
    edits = [{"find": "f()", "rewrite": "g()"}]
    shown_keys = [block for block in loaded if isinstance(block, dict)]
    assert shown_keys
    for number, keys in enumerate(shown_keys):
        folder = tmp_path / str(number)
        folder.mkdir()
        patch_of(folder, edits=edits, files={"test_behaviour.py": ""}, **keys)


def test_every_edit_is_shown(shown_edits):
    assert {verb for edit in shown_edits for verb in edit if verb in VERBS} == set(VERBS)


@pytest.fixture(scope="module")
def codemods():
    """The edit, the codemod and the diff of each example."""
    return re.findall(
        r"^```yaml\n(.*?)^```\n\n```python\n(.*?)^```\n\n```diff\n(.*?)^```",
        page("how-to/codemods.md"),
        re.MULTILINE | re.DOTALL,
    )


def test_the_modules_are_listed_that_a_codemod_may_import():
    (listed,) = re.findall(
        r"^- from Python:(.*?)^- ", page("how-to/codemods.md"), re.DOTALL | re.MULTILINE
    )
    assert set(re.findall(r"`([\w.]+)`", listed)) == PURE
    (listed,) = re.findall(
        r"^- libcst:(.*?)^- ", page("how-to/codemods.md"), re.DOTALL | re.MULTILINE
    )
    shown = set(re.findall(r"`([\w.]+)`", listed)) - {"libcst.codemod.commands"}
    assert shown == LIBCST | {VPATCH}


def side(diff, sign):
    lines = [line for line in diff.splitlines() if line[:1] in {"", " ", sign}]
    return "".join(f"{line[1:]}\n" for line in lines)


def test_each_codemod_that_is_shown_does_what_is_shown(codemods, tmp_path):
    for edit, codemod, diff in codemods:
        (tmp_path / "codemod.py").write_text(codemod)
        before, after = side(diff, "-"), side(diff, "+")
        (declared,) = YAML(typ="safe").load(edit)["edits"]
        assert inputs_of(codemod.encode(), tmp_path / "codemod.py").reason is None
        result = run(declared, before, tmp_path)
        assert result.mismatch is None
        assert result.view.read(MODULE).decode() == after
        assert not run(declared, after, tmp_path).todo


def test_both_kinds_of_codemod_are_shown(codemods):
    bases = [
        re.findall(r"^class \w+\((\w+)\)", codemod, re.MULTILINE) for _, codemod, _ in codemods
    ]
    assert bases == [["SiteTransformer"], ["VisitorBasedCodemodCommand"]]


def test_every_name_of_the_base_class_is_documented():
    text = page("how-to/codemods.md")
    own = {"kinds", "edit", "enter", "add", "is_within", "sees_identifiers"}
    assert own <= set(dir(SiteTransformer))
    assert {name for name in own if f"`{name}" not in text and f"self.{name}" not in text} == set()


def test_the_proposal_that_is_shown_loads(tmp_path):
    proposal, _ = blocks("how-to/upstream.md")
    edits = [{"find": "f()", "rewrite": "g()"}]
    patch = patch_of(tmp_path, edits=edits, files={"test_behaviour.py": ""}, **proposal)
    assert patch.declaration.proposal.keywords == ("expand_kernel",)


def test_why_a_patch_is_not_for_upstream_loads(tmp_path):
    _, not_proposed = blocks("how-to/upstream.md")
    edits = [{"find": "f()", "rewrite": "g()"}]
    patch = patch_of(tmp_path, edits=edits, **not_proposed)
    assert patch.declaration.not_for_upstream.startswith("It declares operators")
    assert patch.digest == patch_of(tmp_path, edits=edits).digest


def test_the_benchmark_plans_that_are_shown_load():
    (small,), (plan,) = blocks("how-to/bench.md"), blocks("reference/bench-plan.md")
    small = RecipeDeclaration.model_validate(small, strict=False)
    assert [(cells.model, cells.k) for cells in small.bench.cells] == [("tiny", (0, 2))]
    bench = Bench.model_validate(plan, strict=False)
    assert [shape.name for shape in bench.shapes] == ["8192/1024", "mixed/256"]


def test_every_key_of_a_benchmark_plan_is_told_of():
    text = page("reference/bench-plan.md")
    names = {field.alias for field in Bench.model_fields.values()}
    assert {name for name in names if f"`{name}`" not in text} == set()


def test_each_target_that_is_shown_loads(tmp_path):
    targets = blocks("reference/target.md")
    assert targets
    for target in targets:
        with (tmp_path / "target.yaml").open("w") as file:
            YAML(typ="safe", pure=True).dump(target, file)
        assert read_yaml(tmp_path / "target.yaml", Target)[0].repository == target["repository"]


def test_every_gate_is_in_the_table():
    text = page("how-to/upstream.md")
    named = set(re.findall(r"^\| ([a-z' -]+) \| ", text, re.MULTILINE)) - {"gate"}
    source = (ROOT / "vpatch" / "commands" / "upstream" / "gates.py").read_text(encoding="utf-8")
    known = set(re.findall(r'(?:name = |Gate\(\s*)"([a-z\' -]+)"', source)) - {"described"}
    assert named == known


def test_every_kind_of_finding_is_in_a_table():
    text = page("reference/checkpoint-findings.md")
    named = set(re.findall(r"^\| `([a-z0-9-]+)` \| ", text, re.MULTILINE))
    folder = ROOT / "vpatch" / "checkpoint"
    source = "".join((folder / f"{n}.py").read_text() for n in ("findings", "contradictions"))
    known = set(re.findall(r'Finding\(\s*"([a-z0-9-]+)"', source))
    assert named == known


@pytest.mark.parametrize("verb", VERBS)
def test_every_edit_is_listed(verb):
    rows = re.findall(r"^\| (`.*?) \|", page("reference/edits.md"), re.MULTILINE)
    assert any(f"`{verb}`" in row for row in rows)


@pytest.mark.slow
def test_the_tutorial_ends_in_a_working_patch(tmp_path):
    assert followed(page("tutorial/own-patch.md"), tmp_path) == (2, 11)


@pytest.mark.slow
def test_a_plain_tree_is_there_by_its_page(tmp_path):
    text = page("how-to/plain-tree.md")
    assert followed(text, tmp_path) == (0, 1)
    (command,) = re.findall(r"^```bash\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    edited = tmp_path / "plain-0.23.0" / "vllm" / "v1" / "sample" / "rejection_sampler.py"
    edited.write_text(edited.read_text().replace("MAX_SPEC_LEN = 128", "MAX_SPEC_LEN = 256"))
    output = documents.run(f"{command.strip()} --releases none", tmp_path)
    assert "gives the same bytes" in output


@pytest.mark.slow
def test_several_releases_are_carried_by_their_page(tmp_path):
    (path, patch), *_ = re.findall(
        r"^`(patches/longer-drafts/patch.yaml)`\n\n```yaml\n(.*?)^```",
        page("tutorial/own-patch.md"),
        re.MULTILINE | re.DOTALL,
    )
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).write_text(patch)
    assert followed(page("how-to/several-releases.md"), tmp_path) == (2, 1)
    for recipe in ("serving-0.23", "serving-0.25"):
        assert "1 patch on" in documents.run(f"vpatch apply --recipe {recipe}", tmp_path)


@pytest.mark.slow
def test_a_diff_is_imported_by_its_page(tmp_path):
    text = page("how-to/import.md")
    assert followed(text, tmp_path) == (3, 8)
    apply, site_packages = re.findall(r"^```bash\n(.*?)^```", text, re.MULTILINE | re.DOTALL)[:2]
    documents.run(f"set -e\n{apply}", tmp_path)
    folder = re.search(r"--from-tree (\S+)", site_packages)[1]
    # It does not know its release any more.
    shutil.rmtree(tmp_path / "src" / ".git")
    from_tree = f"{site_packages.replace(folder, 'src').strip()} --releases none"
    assert "gives the same bytes" in documents.run(from_tree, tmp_path)


def keys_of(schema):
    """Every key of a JSON schema, at any depth."""
    found = set()
    if isinstance(schema, dict):
        found |= set(schema.get("properties", {}))
        parts = schema.values()
    else:
        parts = schema if isinstance(schema, list) else []
    return found.union(*map(keys_of, parts))


def unnamed(keys, *names):
    """The keys that are neither in code marks nor in a block of these pages."""
    code = re.findall(
        r"^```.*?^```|`[^`\n]+`", "\n".join(map(page, names)), re.MULTILINE | re.DOTALL
    )
    words = set(re.findall(r"[\w-]+", "\n".join(code)))
    return {key for key in keys if key not in words}


@pytest.mark.parametrize(
    ("declaration", "names"),
    [
        (PatchDeclaration, ["reference/patch.md", "reference/edits.md", "how-to/upstream.md"]),
        (Target, ["reference/target.md"]),
    ],
)
def test_every_key_of_a_declaration_is_named(declaration, names):
    assert unnamed(keys_of(declaration.model_json_schema()), *names) == set()


def test_every_key_of_a_recipe_is_named_on_the_page_of_its_part():
    found = RecipeDeclaration.model_json_schema()
    definitions = found.pop("$defs")
    own = keys_of(found)
    shared = {"Smoke", "CellSettings", "Cells", "Model", "Needs", "Imports", "Sampling", "Timeouts"}
    shared |= {"RepeatedPrompt"}
    bench = {"Bench", "BenchCells", "Shape"}
    other = set(definitions) - shared - bench
    pins = {"PinDeclaration", "UnsettledDeclaration"}
    assert other == {"ImageDeclaration", "MatrixDeclaration"} | pins
    own |= keys_of([definitions[name] for name in other])
    assert unnamed(own, "reference/recipe.md") == set()
    for names, path in ((shared, "smoke-plan"), (bench, "bench-plan")):
        keys = keys_of([definitions[name] for name in names])
        assert len(keys) > 10
        assert unnamed(keys, f"reference/{path}.md") == set()


def test_every_figure_of_a_threshold_is_named():
    assert unnamed(get_args(Figure), "reference/smoke-plan.md") == set()


@pytest.mark.parametrize("name", ["recipe", "smoke-plan"])
def test_a_recipe_that_is_shown_loads(name):
    for recipe in blocks(f"reference/{name}.md"):
        assert RecipeDeclaration.model_validate(recipe, strict=False).patches


def test_every_key_of_a_lock_is_named():
    keys = keys_of(LockFile.model_json_schema())
    assert len(keys) > 30
    assert unnamed(keys, "reference/lock.md") == set()


def with_json(group):
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if any("--json" in option.opts for option in command.params):
            yield name
        if isinstance(command, click.Group):
            for below in with_json(command):
                yield f"{name} {below}"


def test_all_commands_with_json_have_a_result():
    assert set(with_json(cli)) == set(RESULTS)


def test_the_keys_of_the_envelope_are_described():
    keys = {key for model in (Envelope, ErrorOutput) for key in model.model_fields}
    assert {key for key in keys if f"`{key}`" not in page("reference/json.md")} == set()


@pytest.mark.slow
def test_a_document_of_json_is_what_its_schema_says(tmp_path):
    one = "--vllm 0.23 --patch mtp-proj-prefix"
    documents.run(f"vpatch apply {one}", tmp_path)
    for command, options in {
        "status": one,
        "apply": one,
        "check": "",
        "list": "",
        "test": "mtp-proj-prefix",
        "cache list": "",
        "upstream-status": f"{one} --offline",
    }.items():
        # To add up the sizes of a full cache takes long.
        small = "VPATCH_CACHE_DIR=cache " if command == "cache list" else ""
        line = f"{small}vpatch {command} {options} --json"
        printed = json.loads(documents.run(line, tmp_path, codes=(0, 1, 4)))
        described = json.loads(documents.run(f"vpatch schema output {command}", tmp_path))
        jsonschema.validate(printed, described, cls=Draft202012Validator)
        assert printed["result"], command


def test_an_error_in_json_is_what_is_shown(tmp_path):
    error = re.search(r"^```json\n(.*?)^```", page("reference/json.md"), re.MULTILINE | re.DOTALL)
    assert documents.run("vpatch show mtp-proj --json", tmp_path, codes=(2,)) == error[1]


@pytest.mark.slow
def test_a_script_that_reads_json_works(tmp_path):
    text = page("reference/json.md")
    command = re.search(r"^vpatch status .*\| jq .*$", text, re.MULTILINE)[0]
    if shutil.which("jq") is None:
        pytest.skip("jq is not installed")
    assert "mtp-proj-prefix needed\n" in documents.run(command, tmp_path)


def test_an_error_is_what_is_shown(tmp_path):
    shown = re.search(
        r"^\$ (vpatch .*?)\n(.*?)^```", page("reference/exit-codes.md"), re.MULTILINE | re.DOTALL
    )
    assert documents.run(f"{shown[1]} 2>&1", tmp_path, codes=(2,)) == shown[2]


@pytest.mark.slow
def test_a_check_is_what_is_shown(tmp_path):
    documents.run("vpatch apply --vllm 0.23", tmp_path)
    assert followed(page("how-to/ci.md"), tmp_path) == (0, 2)


@pytest.mark.slow
def test_a_bump_is_what_is_shown(tmp_path):
    text = page("how-to/bump.md")
    ((command, shown),) = re.findall(r"^```console\n\$ (.*)\n((?s:.*?))^```", text, re.MULTILINE)
    assert documents.run(command, tmp_path, codes=(1,)).rstrip() == shown.rstrip()
    # Both definitions that the page walks through are in the diffs, with these lines.
    found = documents.run(f"{command} --diff", tmp_path, codes=(1,))
    lines = {line.strip() for line in found.splitlines()}
    for diff in re.findall(r"^```diff\n((?s:.*?))^```", text, re.MULTILINE):
        assert {line.strip() for line in diff.splitlines()} <= lines


@pytest.mark.slow
def test_a_series_is_what_is_shown(tmp_path):
    documents.run("vpatch apply --vllm 0.23", tmp_path)
    assert followed(page("how-to/series.md"), tmp_path) == (0, 1)


def test_every_key_of_evidence_is_named():
    keys = keys_of(SmokeRecord.model_json_schema(mode="serialization"))
    keys |= keys_of(BehaviourTestRecord.model_json_schema(mode="serialization"))
    assert len(keys) > 60
    assert unnamed(keys, "reference/evidence.md") == set()


def test_accepted_advisories_that_are_shown_load(tmp_path):
    (text,) = re.findall(
        r"^```yaml\n(accepted:.*?)^```", page("how-to/security.md"), re.MULTILINE | re.DOTALL
    )
    (tmp_path / ACCEPTED_FILE).write_text(text)
    (entry,) = read_accepted(Project(tmp_path, None))
    assert (entry.id, entry.until.year) == ("CVE-2026-54234", 2027)
    assert unnamed(set(valid_keys(AcceptedDeclaration)), "reference/project.md") == set()


def test_a_project_finds_what_its_page_says(tmp_path):
    text = page("reference/project.md")
    toml = re.search(r"^```toml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)[1]
    (tmp_path / "vpatch.toml").write_text(toml)
    settings = read_settings(tmp_path)
    assert settings.patches == ["carried", "vendor/patches"]
    assert unnamed(type(settings).model_fields, "reference/project.md") == set()
    for folder in ("patches", *settings.patches):
        write_patch(tmp_path / folder, folder.replace("/", "-"), NAME_PROJ)
    (tmp_path / "pins").mkdir()
    assert {"patches", "carried", "vendor-patches"} <= set(find_library(tmp_path).patches)


def test_every_exit_code_is_told_of():
    told = re.findall(r"^\| (\d+) \|", page("reference/exit-codes.md"), re.MULTILINE)
    assert {int(code) for code in told} == set(ExitCode)


def test_every_environment_variable_is_told_of():
    """Those that the source reads by name."""
    read = re.compile(r'(?:environ|env(?:ironment)?)(?:\.get\(|\[)\s*f?"([A-Z][A-Z_]+)"')
    constant = re.compile(r"^_(?:KEY|AUTHORITIES|MARK|OWN|ENTERPRISE) = (.*)", re.MULTILINE)
    found = set()
    for file in (ROOT / "vpatch").rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        found |= set(read.findall(text))
        if "environ" in text:
            found |= {n for line in constant.findall(text) for n in re.findall('"([A-Z_]+)"', line)}
    for file in (ROOT / "tests").rglob("*.py"):
        found |= set(re.findall(r'"(VPATCH_TEST_[A-Z]+)"', file.read_text(encoding="utf-8")))
    assert {"VPATCH_CACHE_DIR", "GH_TOKEN", "OPENAI_API_KEY", "VPATCH_TEST_DOCKER"} <= found
    assert unnamed(found, "reference/environment.md") == set()


def test_every_key_of_a_record_of_shapes_is_described():
    keys = {key for model in (Shapes, KnownShape, BehaviourOnRelease) for key in model.model_fields}
    assert unnamed(keys, "reference/shapes.md") == set()


def test_the_reference_has_each_command_with_its_options():
    text = documents.script("command_tables").on_page_markdown(page("reference/cli.md"))
    assert "<!--" not in text
    context = click.Context(cli, info_name="vpatch")
    for name in cli.list_commands(context):
        assert f"\n## vpatch {name} {{ #vpatch-{name} " in text
    (status,) = re.findall(r"^## vpatch status .*?(?=^## )", text, re.MULTILINE | re.DOTALL)
    assert "| `--why PATCH` | Show what vpatch looked for and found for one patch. |" in status
    # What each command has is there once, above all of them.
    assert "--log-file" not in status
    assert text.count("| `--log-file FILE` |") == 1
    assert "## vpatch cache clear { #vpatch-cache-clear data-toc-label='cache clear' }" in text


@pytest.mark.parametrize(
    ("on_github", "origin", "link"),
    [
        (None, "https://github.com/OWNER/vpatch.git", "https://github.com/OWNER/vpatch"),
        (None, "git@github.com:OWNER/vpatch.git", "https://github.com/OWNER/vpatch"),
        ("OWNER/vpatch", "/srv/clone", "https://github.com/OWNER/vpatch"),
        # Nobody else can open it, or it has a password.
        (None, "/srv/clone", None),
        (None, "https://me:secret@example.org/vpatch", None),
        (None, "", None),
    ],
)
def test_the_site_links_to_the_repository_that_it_is_built_from(
    on_github, origin, link, monkeypatch
):
    monkeypatch.delenv("GITHUB_SERVER_URL", raising=False)
    assert documents.script("site_facts").repository(on_github, origin) == link


def test_the_table_of_proofs_is_made_from_the_record():
    proof_table = documents.script("proof_table")
    needed = KnownShape(releases=("0.9.0", "0.10.0"), state="needed", variant=None, definitions={})
    absent = KnownShape(releases=("0.11.0",), state="absent", variant=None, definitions={})
    result = BehaviourOnRelease(
        test="t.py", engine="cpu", outcome="holds", state="needed", patch_digest="1", test_digest=""
    )
    shapes = Shapes(
        patch_digest="1",
        shapes={"vllm": (needed, absent)},
        behaviour={"vllm": {"0.9.0": (result,)}},
    )
    assert proof_table.table({"a": shapes, "b": Shapes(patch_digest="1")}).splitlines() == [
        "| vLLM | `a` | `b` |",
        "|---|---|---|",
        "| 0.9.0 | needed, by behaviour | no shape on record |",
        "| 0.10.0 | needed, by behaviour | no shape on record |",
        "| 0.11.0 | absent, not asked | no shape on record |",
        "",
        "- `a` in 0.11.0: not asked: nothing can run where the patch is absent.",
    ]
    assert proof_table.MARK in page("explanation/shapes.md")
    made = proof_table.on_page_markdown(page("explanation/shapes.md"))
    assert proof_table.MARK not in made
    assert proof_table.on_page_markdown("text") == "text"


def payload_modules():
    return {path.stem: ast.parse(path.read_text()) for path in PAYLOAD.glob("*.py")}


def test_each_fixture_is_on_its_page_and_nothing_else():
    offered = {}
    for module, tree in payload_modules().items():
        for node in tree.body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                offered[module] = set(ast.literal_eval(node.value))
    generated = page("reference/fixtures.md").partition("<!-- generated")[2]
    sections = re.split(r"^## (\w+)$", generated, flags=re.MULTILINE)[1:]
    shown = {
        module: re.findall(r"^### `(\w+)`$\n\n(?!#)\S", text, re.MULTILINE)
        for module, text in zip(sections[::2], sections[1::2], strict=True)
    }
    assert {module: sorted(names) for module, names in shown.items()} == {
        module: sorted(names) for module, names in offered.items()
    }
    # The tests of the library use nothing else.
    modules = payload_modules()
    used = {
        (node.module, alias.name)
        for file in (ROOT / "patches").rglob("test_*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module in modules
        for alias in node.names
    }
    assert ("tiny_mtp", "write_checkpoint") in used
    assert {(module, name) for module, name in used if name not in shown.get(module, ())} == set()


@pytest.mark.parametrize(
    "name",
    [
        *("errors.md", "fixtures.md", "json-keys.md", "patches.md"),
        *("known-issues.md", "known-issues-schema.json"),
    ],
)
def test_a_generated_page_is_what_the_code_says(name):
    assert page(f"reference/{name}") == documents.script("generate").PAGES[name](), (
        "run: python docs/generate.py"
    )
