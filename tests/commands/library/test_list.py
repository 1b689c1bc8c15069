from __future__ import annotations

import shutil

import pytest

from tests.projects import NAME_PROJ, write_patch
from vpatch.library.catalog import installed


def test_list_has_the_projects_own_and_the_librarys(project):
    (project.folder / "recipes").mkdir()
    (project.folder / "recipes" / "mine.yaml").write_text("vllm: 0.50.0\npatches: [name-proj]\n")
    out = project.run("list").out
    own, theirs, recipes = out.split("\n\n")
    assert own.startswith("Patches of the project: 2 patches\n  name-proj ")
    assert "needed in vllm >=0.50" in own
    assert [line.split()[0] for line in own.splitlines()[1::2]] == ["name-proj", "slow-mode"]
    heading, *lines = theirs.splitlines()
    assert heading == "Patches of the library: 2 patches"
    assert [line.split()[0] for line in lines[::2]] == [
        "cpu-spec-decode-fp64-gumbel",
        "mtp-proj-prefix",
    ]
    assert recipes == "Recipes\n  of the project: mine\n  of the library: vllm-0.23\n"


def test_list_has_backports_below_a_heading_of_their_own(empty):
    assert "Backports" not in empty.run("list").out
    folder = write_patch(installed("patches") / "security", "cve-1", NAME_PROJ)
    try:
        lines = empty.run("list").out.splitlines()
    finally:
        shutil.rmtree(folder.parent)
    assert lines[0] == "Patches of the project: 0 patches"
    start = lines.index("Backports of security fixes in the library: 1 patch")
    assert lines[start + 1].split()[0] == "cve-1"


def test_list_as_json(project):
    document = project.run("list", "--json").json
    patches = {patch["id"]: patch for patch in document["patches"]}
    assert patches["name-proj"]["folder"] == str(project.patches / "name-proj")
    assert patches["name-proj"]["title"] == "[Bugfix] name-proj"
    assert patches["name-proj"]["digest"].startswith("sha256:")
    (recipe,) = document["recipes"]
    assert recipe["name"] == "vllm-0.23"
    assert recipe["file"].endswith("recipes/vllm-0.23.yaml")


def test_search_finds_patches_by_what_people_know(project):
    """A symptom, a thread, a model or a file: all words, in any case, anywhere in the patch."""
    for words in ("MTP quantisation", "vllm#44817 prefix", "deepseek_v4/nvidia/mtp.py"):
        out = project.run("list", "--search", words).out
        assert out.startswith(f"Patches with {words}: 1 patch\n  mtp-proj-prefix ")
    assert "Recipes" not in out
    assert "vllm/models/deepseek_v4/nvidia/mtp.py" in out
    (one,) = project.run("list", "--search", "Bugfix slow-mode", "--json").json["patches"]
    assert one["id"] == "slow-mode"


def test_search_that_finds_nothing(project):
    run = project.run("list", "--search", "slow-mode quantisation", code=1)
    assert run.out.startswith("Patches with slow-mode quantisation: 0 patches\n")
    assert "next: vpatch diagnose LOGFILE" in run.out
    assert "--search has no words" in project.run("list", "--search", " ", code=2).err


def test_a_projects_own_hides_the_librarys_and_says_so(empty):
    empty.patch("mtp-proj-prefix", NAME_PROJ)
    run = empty.run("list", "--json")
    assert run.err == "note: used instead of the patches that came with vpatch: mtp-proj-prefix\n"
    (one,) = (p for p in run.json["patches"] if p["id"] == "mtp-proj-prefix")
    assert one["folder"] == str(empty.patches / "mtp-proj-prefix")


@pytest.mark.parametrize("where", ["vpatch.toml", "pyproject.toml", "--patches-dir"])
def test_where_patches_may_lie(project, where):
    project.patches.rename(project.folder / "mine")
    table = {"vpatch.toml": "", "pyproject.toml": "[tool.vpatch]\n"}.get(where)
    if table is not None:
        (project.folder / where).write_text(f'{table}patches = ["mine"]\n')
    options = ["--patches-dir", "mine"] if table is None else []
    ids = [patch["id"] for patch in project.run("list", *options, "--json").json["patches"]]
    assert "name-proj" in ids
    assert "mtp-proj-prefix" in ids


def test_list_with_a_wrong_setting(empty):
    (empty.folder / "vpatch.toml").write_text('patchs = ["mine"]\n')
    run = empty.run("list", code=2)
    assert "unknown key 'patchs'\n  next: did you mean 'patches'?" in run.err
    (error,) = empty.run("list", "--json", code=2).json_errors
    assert error["where"] == str(empty.folder / "vpatch.toml")


def test_list_reports_everything_that_is_wrong(project):
    for patch_id in ("name-proj", "slow-mode"):
        file = project.patches / patch_id / "patch.yaml"
        file.write_text(file.read_text().replace("remove-when", "remove-wen"))
    run = project.run("list", "--json", code=2)
    errors = run.json_errors
    files = {error["where"].rpartition(":")[0] for error in errors}
    assert files == {
        str(project.patches / patch_id / "patch.yaml") for patch_id in ("name-proj", "slow-mode")
    }
    # People read a cause once, with each place that has it.
    for error in errors:
        assert error["where"] in run.err
        assert run.err.count(error["what"]) == 1
