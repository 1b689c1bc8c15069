"""The public API: what the documentation shows runs on the real archive of vLLM 0.23.0."""

from __future__ import annotations

import contextlib
import doctest
import io
import re
from pathlib import Path

import pytest

from tests.documents import page, shown
from tests.helpers import fails
from tests.projects import SLOW_MODE, write_patch, write_tree
from vpatch import api

PATCH = "mtp-proj-prefix"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
def test_the_script_of_the_documentation():
    (code,) = re.findall(
        r"^```python\n(.*?)^```", page("how-to/python.md"), re.MULTILINE | re.DOTALL
    )
    assert len(code.splitlines()) <= 30
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "python.md", "exec"), {})  # noqa: S102 - the page's own code
    assert printed.getvalue() == shown("python")


@pytest.mark.slow
def test_the_examples_of_docstrings():
    found = doctest.testmod(api)
    assert found.attempted >= 6
    assert found.failed == 0


def test_every_public_name_is_there_and_documented():
    for name in api.__all__:
        assert getattr(api, name).__doc__, name


def test_what_is_not_there():
    with pytest.raises(api.UsageError, match="no-such-patch"):
        api.status(api.open_context(), "0.23", patches=["no-such-patch"])
    with fails("vpatch.lock-named-twice"):
        api.check(api.open_context(), "0.23", lock="x")


@pytest.mark.parametrize(
    ("argument", "given", "hint"),
    [
        ("patches", PATCH, f"give a list: patches=['{PATCH}']"),
        ("patches", PATCH.encode(), f"give a list: patches=['{PATCH}']"),
        ("patches", "", "leave it out"),
        ("trees", "vllm-ascend==0.23.0", "give a list: trees=['vllm-ascend==0.23.0']"),
    ],
)
@pytest.mark.parametrize("function", [api.status, api.plan, api.apply, api.smoke, api.bench])
def test_a_string_is_no_list(function, argument, given, hint):
    with fails("vpatch.not-a-list", match=f"^{argument} is ") as caught:
        function(api.open_context(), "0.23", **{argument: given})
    assert caught.value.hint == hint
    assert isinstance(caught.value, api.UsageError)


@pytest.mark.parametrize("argument", ["patches_dirs", "recipes_dirs"])
@pytest.mark.parametrize("given", ["mine", b"mine", Path("mine")])
def test_one_folder_is_no_list(argument, given):
    with fails("vpatch.not-a-list") as caught:
        api.open_context(**{argument: given})
    assert caught.value.hint == f"give a list: {argument}=['mine']"


def test_the_folder_of_a_context_must_be_there(folder):
    (folder / "file").write_text("")
    for given, what in [("nosuch", "no such folder"), (folder / "file", "not a folder")]:
        with fails("vpatch.not-a-folder", match=what) as caught:
            api.open_context(given)
        assert caught.value.where == str(folder / given)
        assert isinstance(caught.value, api.UsageError)


@pytest.fixture
def mine(folder):
    """A folder with a small vLLM, a patch for it, and a recipe with both."""
    write_tree(folder / "small")
    write_patch(folder / "own", "slow-mode", SLOW_MODE, concerns="text: def start")
    (folder / "lists").mkdir()
    recipe = folder / "lists" / "mine.yaml"
    recipe.write_text("vllm: {source: ../small}\npatches: [slow-mode]\n")
    return recipe


def opened(folder=None, own="own"):
    return api.open_context(folder, patches_dirs=[own], trust_everything=True)


@pytest.mark.usefixtures("mine")
def test_nothing_is_printed(capfd):
    context = opened()
    api.apply(context, "./small", patches=["slow-mode"])
    assert api.check(context).differences == ()
    assert b"+" in api.diff(context, "slow-mode")
    assert capfd.readouterr() == ("", "")


@pytest.mark.usefixtures("mine")
def test_a_project_elsewhere(folder, tmp_path_factory, monkeypatch):
    api.apply(opened(), folder / "small", patches=["slow-mode"])
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    (folder / "vpatch.toml").write_text("")
    own = folder / "own"
    result = api.check(opened(folder, own))
    assert (result.differences, result.hint) == ((), None)
    lock = result.path.resolve()
    assert lock.is_relative_to(folder)
    assert api.check(opened(own=own), lock=lock).differences == ()


@pytest.mark.usefixtures("mine")
def test_a_changed_checkout_is_told_with_what_to_do():
    context = opened()
    asked = {"patches": ["slow-mode"], "checkout": "here"}
    (applied,) = api.apply(context, "./small", **asked)
    assert applied.outcome == "created"
    (path, *_) = applied.lock.files
    changed = applied.request.target / path.path
    changed.write_text(changed.read_text() + "# mine\n")
    result = api.check(context, checkout="here")
    assert result.drifted == ()
    assert all(path.path in difference for difference in result.damaged)
    assert result.hint.endswith("--force")
    with pytest.raises(api.VpatchError, match="changes that vpatch did not make"):
        api.apply(context, "./small", **asked)
    assert api.apply(context, "./small", **asked, force=True)


def states(plans):
    return [(d.patch.id, str(d.state)) for plan in plans for d in plan.decisions]


def test_a_version_and_a_recipe_may_be_paths(folder, mine):
    context = api.open_context(patches_dirs=["own"], trust_everything=True)
    needed = [("slow-mode", "needed")]
    for given in (Path("small"), folder / "small", "./small"):
        assert states(api.status(context, given, patches=["slow-mode"])) == needed
        assert states(api.plan(context, given, patches=["slow-mode"])) == needed
    for recipe in (mine, str(mine)):
        assert states(api.status(context, recipe=recipe)) == needed
        assert states(api.plan(context, recipe=recipe)) == needed


def test_a_path_is_no_release():
    with fails("source.wrong-spec", match="no such folder"):
        api.plan(api.open_context(), Path("0.23"))


@pytest.mark.usefixtures("mine")
def test_the_current_folder_may_change_after_the_context_is_opened(
    folder, tmp_path_factory, monkeypatch
):
    (folder / "vpatch.toml").write_text("")
    folders = {"patches_dirs": ["own"], "recipes_dirs": ["lists"]}
    contexts = [api.open_context(given, **folders) for given in (".", None)]
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    for context in contexts:
        assert context.project.marker == folder / "vpatch.toml"
        assert context.project.folder == folder
        assert context.library.patches["slow-mode"] == folder / "own" / "slow-mode"
        assert context.library.recipes["mine"] == folder / "lists" / "mine.yaml"


@pytest.mark.usefixtures("mine")
def test_the_end_of_a_with_block_removes_copies_of_patches():
    with api.open_context(patches_dirs=["own"], trust_everything=True) as context:
        copy = context.trust.copy_of(context.library.patches["slow-mode"])
        assert (copy / "patch.yaml").is_file()
    assert not copy.exists()


def test_strict_refuses_a_new_shape(folder):
    write_tree(folder / "vllm-0.50.0")
    write_patch(folder / "patches", "slow-mode", SLOW_MODE, concerns="text: def start")
    context = api.open_context(offline=True)
    with fails("checkout.patch-stops", "slow-mode is needed: .*; new shape: nothing is recorded"):
        api.apply(context, folder / "vllm-0.50.0", patches=["slow-mode"], strict=True)
    (recipe,) = [folder / "recipes" / "mine.yaml"]
    recipe.parent.mkdir()
    recipe.write_text(f"vllm: {folder}/vllm-0.50.0\npatches: [slow-mode]\nstrict: true\n")
    with fails("checkout.patch-stops", "new shape: nothing is recorded"):
        api.apply(context, recipe=recipe)
    (done,) = api.apply(context, folder / "vllm-0.50.0", patches=["slow-mode"])
    found = api.check(context, checkout=done.request.target)
    assert found.differences == ()
    strict = api.check(context, checkout=done.request.target, strict=True)
    assert "slow-mode is needed: new shape" in strict.differences[0]
