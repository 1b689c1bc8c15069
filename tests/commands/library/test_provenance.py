"""vpatch show --format markdown: where patches come from."""

from __future__ import annotations

import json

import pytest

from tests.projects import ENGINE, LLAMA, SLOW_MODE, VERSION

DECLARED = """\
license: MIT
risks: slower | or not
upstream:
  - {ref: octo/vllm#7, is: issue}
  - {ref: octo/vllm#8, is: pull request, relation: backport, state: merged, release: "0.60.0"}
proof:
  - {test: test_slow.py, engine: cpu, vllm: "0.58.0", fails_before: {test_slow: slow}}
"""
RECORDED = ("0.58.0", "0.59.0", "0.60.0")


def rows(markdown, patch_id):
    table = markdown.partition(f"### {patch_id}\n")[2].partition("\n### ")[0]
    cells = [line.strip("| ").split(" | ") for line in table.splitlines() if line[:2] == "| "]
    return {name: text.split("<br>") for name, text in cells[1:]}


@pytest.fixture
def declared(project):
    project.patch("declared", SLOW_MODE, more=DECLARED.replace("fails_before", "fails-before"))
    (project.patches / "declared" / "test_slow.py").write_text("def test_slow(): ...\n")
    return project


def record(project, patch_id, digest, outcome="holds"):
    """What `vpatch test --record` writes: two shapes, of which the first needs the patch."""
    # The patch reads another file too, and leaves it as it is.
    read = {f"{LLAMA}::Llama": "c" * 16}
    shape = {"variant": None, "definitions": {f"{ENGINE}::start": "a" * 16, **read}}
    ran = {
        "test": "test_slow.py",
        "engine": "cpu",
        "outcome": outcome,
        "state": "needed",
        "patch_digest": digest,
        "test_digest": "sha256:0",
    }
    recorded = {
        "schema_version": 1,
        "patch_digest": digest,
        "shapes": {
            "vllm": [
                {
                    **shape,
                    "releases": RECORDED[:2],
                    "state": "needed",
                    "patched": {f"{ENGINE}::start": "b" * 16, **read},
                },
                {**shape, "releases": RECORDED[2:], "state": "upstreamed"},
            ]
        },
        "behaviour": {"vllm": {release: [ran] for release in RECORDED[:2]}},
    }
    (project.patches / patch_id / "shapes.json").write_text(json.dumps(recorded))


def test_what_is_declared_and_recorded(declared):
    digest = declared.run("show", "declared", "--json").json["digest"]
    record(declared, "declared", digest)
    table = rows(declared.run("show", "declared", "--format", "md").out, "declared")
    issue, pull = table["Threads"]
    assert issue == "[octo/vllm#7](https://github.com/octo/vllm/issues/7): issue"
    link, _, facts = pull.partition(": ")
    assert link == "[octo/vllm#8](https://github.com/octo/vllm/pull/8)"
    assert facts == "pull request, backport, merged, released in 0.60.0"
    assert table["Risks"] == ["slower \\| or not"]
    assert table["Origin"] == [
        "a backport of octo/vllm\\#8",
        "tools (AI) that helped to write it: not declared",
    ]
    assert table["Licence"] == ["MIT"]
    assert table["Files"] == [f"`{ENGINE}` in vllm 0.58.0 to 0.59.0"]
    assert table["Digest"] == [f"`{digest}`"]
    assert table["Proof"] == ["`test_slow.py`: holds on cpu in vllm 0.58.0 to 0.59.0"]


def test_a_record_of_another_edition_proves_nothing(declared):
    record(declared, "declared", f"sha256:{'0' * 64}")
    table = rows(declared.run("show", "declared", "--format", "markdown").out, "declared")
    assert table["Files"] == ["not recorded: name a release with `--vllm`"]
    assert table["Proof"] == ["`test_slow.py`: no run on cpu is recorded"]


def test_a_contradiction_is_shown(declared):
    digest = declared.run("show", "declared", "--json").json["digest"]
    record(declared, "declared", digest, outcome="contradicts")
    table = rows(declared.run("show", "declared", "--format", "md").out, "declared")
    assert table["Proof"] == ["`test_slow.py`: contradicts on cpu in vllm 0.58.0 to 0.59.0"]


def test_what_nobody_declared(project):
    table = rows(project.run("show", "name-proj", "--format", "md").out, "name-proj")
    assert table["Licence"] == ["not declared (`license` in patch.yaml)"]
    assert table["Threads"] == ["none declared"]
    assert table["Origin"][0] == "no pull request of upstream is declared"
    assert table["Proof"] == ["no behaviour test is declared"]
    assert "Resolves" not in table


def test_a_patch_of_the_library_has_its_licence(empty):
    table = rows(empty.run("show", "mtp-proj-prefix", "--format", "md").out, "mtp-proj-prefix")
    assert table["Licence"] == ["Apache-2.0, as vpatch"]


def test_several_patches_on_a_release(project):
    asked = ("name-proj", "slow-mode", "--format", "md", "--vllm", VERSION)
    out = project.run("show", *asked).out
    assert out.startswith("2 patches, declared for vpatch.\n")
    assert rows(out, "name-proj")["Files"] == [f"vllm-{VERSION}: `{LLAMA}`"]
    assert rows(out, "slow-mode")["Files"] == [f"vllm-{VERSION}: `{ENGINE}`"]


def test_all_patches_of_a_recipe(project):
    (project.folder / "recipes").mkdir()
    recipe = project.folder / "recipes" / "mine.yaml"
    recipe.write_text(f"vllm: {VERSION}\npatches: [name-proj, slow-mode]\n")
    out = project.run("show", "--recipe", "mine", "--format", "md").out
    assert [line for line in out.splitlines() if line[:4] == "### "] == [
        "### name-proj",
        "### slow-mode",
    ]
    absent = project.run("show", "late", "--recipe", "mine", "--format", "md", code=2)
    assert absent.err.startswith("error: the recipe mine does not take late\n")


def test_usage(project):
    for asked, what in (
        ((), "name one patch"),
        (("name-proj", "slow-mode"), "only --format markdown takes several patches"),
        (("--format", "md"), "no patch is named"),
        (("name-proj", "--format", "md", "--json"), "--json and --format md are two formats"),
        (("name-proj", "--format", "md", "--diff"), "--diff and --format md are two formats"),
    ):
        assert project.run("show", *asked, code=2).err.startswith(f"error: {what}\n")


@pytest.mark.parametrize("text", ["Apache 2", "GPL", "LicenseRef-", ""])
def test_a_licence_that_is_no_expression_is_refused(project, text):
    project.patch("declared", SLOW_MODE, more=f'license: "{text}"\n')
    assert "license" in project.run("show", "declared", code=2).err
