from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.helpers import fails
from tests.projects import NAME_PROJ, SLOW_MODE, write_patch
from vpatch.errors import ManyErrors, UsageError
from vpatch.library.catalog import find_library

ROOT = Path(__file__).parents[2]


@pytest.fixture
def project(tmp_path):
    (tmp_path / "patches").mkdir()
    (tmp_path / "recipes").mkdir()
    return tmp_path


def recipe(folder, name):
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("vllm: 0.50.0\npatches: [a]\n")
    return folder / name


def test_the_library_that_comes_along(tmp_path):
    library = find_library(tmp_path)
    assert library.patches["mtp-proj-prefix"] == ROOT / "patches" / "mtp-proj-prefix"
    assert library.recipes["vllm-0.23"] == ROOT / "recipes" / "vllm-0.23.yaml"
    assert (library.notes, library.own) == ((), frozenset())
    for patch in library.load(library.patches):
        assert patch.folder == library.patches[patch.id]


def test_the_order_of_places(project, tmp_path):
    """An option before a setting, that before the current folder, that before the library."""
    (project / "vpatch.toml").write_text('patches = ["set"]\nrecipes = ["setr"]\n')
    option, configured, current = (tmp_path / name for name in ("option", "set", "patches"))
    for patch_id, folders in {
        "everywhere": (option, configured, current),
        "set-too": (configured, current),
        "mtp-proj-prefix": (current,),
    }.items():
        for folder in folders:
            write_patch(folder, patch_id, NAME_PROJ, more=f"risks: {folder.name}")
    recipe(project / "setr", "one.yaml")
    with recipe(project / "recipes", "one.yaml").open("a") as file:
        file.write("why: another\n")
    library = find_library(project, [option])
    assert library.patches["everywhere"] == option / "everywhere"
    assert library.patches["set-too"] == configured / "set-too"
    assert library.patches["mtp-proj-prefix"] == current / "mtp-proj-prefix"
    assert library.recipes["one"] == project / "setr" / "one.yaml"
    assert set(library.notes) == {
        f"{option / 'everywhere'} hides {configured / 'everywhere'}",
        f"{option / 'everywhere'} hides {current / 'everywhere'}",
        f"{configured / 'set-too'} hides {current / 'set-too'}",
        "used instead of the patches that came with vpatch: mtp-proj-prefix",
        f"{project / 'setr' / 'one.yaml'} hides {project / 'recipes' / 'one.yaml'}",
    }
    assert library.own == {"everywhere", "set-too", "mtp-proj-prefix"}


def test_a_copy_hides_nothing(project):
    """As in vpatch's own checkout, where an installed vpatch finds its library a second time."""
    for name in ("mtp-proj-prefix", "cpu-spec-decode-fp64-gumbel"):
        shutil.copytree(ROOT / "patches" / name, project / "patches" / name)
    shutil.copy(ROOT / "recipes" / "vllm-0.23.yaml", project / "recipes")
    assert find_library(project).notes == ()


def test_a_folder_named_twice_hides_nothing(project):
    write_patch(project / "patches", "one", NAME_PROJ)
    library = find_library(project, [project / "patches", project / "." / "patches"])
    assert library.notes == ()


def test_inside_the_checkout_of_vpatch_itself():
    assert find_library(ROOT).notes == ()


def test_folders_of_other_tools_are_left_alone(project):
    (project / "patches" / "leftpad").mkdir()
    (project / "patches" / "0001.diff").write_text("")
    (project / "recipes" / "cake.yml").write_text("flour: 1\n")
    assert "leftpad" not in find_library(project).patches
    write_patch(project / "patches", "one", NAME_PROJ)
    with fails("library.wrong-file", r"has no patch\.yaml") as caught:
        find_library(project)
    assert caught.value.where == str(project / "patches" / "leftpad")


def test_hidden_folders_are_no_patches(project):
    write_patch(project / "patches", "one", NAME_PROJ)
    for name in (".git", "__pycache__", "_drafts"):
        (project / "patches" / name).mkdir()
    assert "one" in find_library(project).patches


def test_a_named_folder_must_hold_patches(project):
    (project / "mine" / "empty").mkdir(parents=True)
    with fails("library.wrong-file", r"has no patch\.yaml"):
        find_library(project, [project / "mine"])
    with fails("library.no-such-folder"):
        find_library(project, [project / "none"])
    with fails("library.no-such-folder"):
        find_library(project, [], [project / "none"])


def test_a_recipe_in_a_named_folder_ends_in_yaml(project):
    recipe(project / "mine", "one.yml")
    with fails("library.wrong-file", r"ends in \.yaml"):
        find_library(project, [], [project / "mine"])


def test_a_recipe_by_name_or_path(project):
    path = recipe(project / "recipes", "one.yaml")
    other = recipe(project / "elsewhere", "two.yaml")
    library = find_library(project)
    assert library.recipe("one") == path
    assert library.recipe(str(other)) == other
    with fails("library.unknown-name", "there is no recipe 'onn'") as caught:
        library.recipe("onn")
    assert caught.value.hint == "did you mean 'one'?"
    with fails("library.unknown-name", "there is no recipe"):
        library.recipe(str(project / "none.yaml"))


def test_a_patch_that_is_not_there(project):
    library = find_library(project)
    with pytest.raises(UsageError) as caught:
        library.patch("mtp-proj-prefx")
    assert caught.value.hint == "did you mean 'mtp-proj-prefix'?"
    with pytest.raises(UsageError) as caught:
        library.patch("zzz")
    assert caught.value.hint == "nothing has a similar name; vpatch list shows every patch"
    with pytest.raises(UsageError) as caught:
        library.target("zzz")
    assert caught.value.hint.startswith("there are: ")


def test_everything_that_is_wrong_is_reported(project):
    for patch_id in ("one", "two", "three"):
        write_patch(project / "patches", patch_id, NAME_PROJ)
    for patch_id in ("one", "two"):
        file = project / "patches" / patch_id / "patch.yaml"
        file.write_text(file.read_text().replace("why:", "whi:"))
    library = find_library(project)
    with pytest.raises(ManyErrors) as caught:
        library.load(["one", "two", "three", "four"])
    text = str(caught.value)
    assert f"{project}/patches/one/patch.yaml:3: unknown key 'whi'" in text
    assert f"{project}/patches/two/patch.yaml:3: unknown key 'whi'" in text
    assert "there is no patch 'four'" in text
    assert "patches/three" not in text


def test_a_patch_that_requires_what_is_not_there(project):
    folder = write_patch(project / "patches", "name-proj", NAME_PROJ, more="requires: [slow-mod]\n")
    write_patch(project / "patches", "slow-mode", SLOW_MODE)
    with fails("library.unknown-name", "requires 'slow-mod', and there is no") as error:
        find_library(project).patch("name-proj")
    lines = (folder / "patch.yaml").read_text().splitlines()
    line = lines.index("requires: [slow-mod]") + 1
    assert error.value.where == f"{folder / 'patch.yaml'}:{line}"
    assert error.value.hint == "did you mean 'slow-mode'?"
    write_patch(project / "patches", "name-proj", NAME_PROJ, more="requires: [slow-mode]\n")
    assert find_library(project).patch("name-proj").id == "name-proj"


def test_what_hides_another_need_not_fit_into_memory(project):
    folder = write_patch(project / "patches", "mtp-proj-prefix", NAME_PROJ)
    with (folder / "large").open("wb") as file:
        file.truncate(1 << 40)
    (note,) = find_library(project).notes
    assert note == "used instead of the patches that came with vpatch: mtp-proj-prefix"


def test_a_copy_of_the_library_is_not_ones_own(project):
    """In a checkout of vpatch itself, its patches are at hand twice."""
    for name in ("mtp-proj-prefix", "draft-hf-config-path"):
        shutil.copytree(ROOT / "patches" / name, project / "patches" / name)
    with (project / "patches" / "mtp-proj-prefix" / "patch.yaml").open("a") as file:
        file.write("# changed\n")
    assert find_library(project).own == {"mtp-proj-prefix"}


def test_a_patch_is_read_once_a_run(project):
    declared = write_patch(project / "patches", "mine", NAME_PROJ) / "patch.yaml"
    library = find_library(project)
    (first,) = library.load(["mine"])
    declared.write_text("damaged: [")
    assert library.patch("mine") is first
    assert library.load(["mine"]) == [first]
    with fails("declare.wrong-syntax", "not YAML"):
        find_library(project).patch("mine")


def test_a_patch_that_cannot_be_read_is_tried_again(project):
    declared = write_patch(project / "patches", "mine", NAME_PROJ) / "patch.yaml"
    text = declared.read_text()
    library = find_library(project)
    declared.write_text("damaged: [")
    with fails("declare.wrong-syntax", "not YAML"):
        library.patch("mine")
    declared.write_text(text)
    assert library.patch("mine").id == "mine"


def test_backports_of_security_fixes_have_a_folder(project):
    write_patch(project / "patches", "one", NAME_PROJ)
    fix = write_patch(project / "patches" / "security", "fix", NAME_PROJ)
    library = find_library(project)
    assert library.patches["fix"] == fix
    assert "fix" in library.security
    assert "fix" in library.own
    assert library.security.isdisjoint(library.usual)
    assert {"one", "mtp-proj-prefix"} <= {*library.usual}


def test_a_patch_may_be_called_security(project):
    folder = write_patch(project / "patches", "security", NAME_PROJ)
    library = find_library(project)
    assert library.patches["security"] == folder
    assert "security" in library.usual


def test_what_is_beside_backports_is_a_patch_as_well(project):
    write_patch(project / "patches" / "security", "fix", NAME_PROJ)
    (project / "patches" / "security" / "leftpad").mkdir()
    with fails("library.wrong-file", "has no patch.yaml"):
        find_library(project)
