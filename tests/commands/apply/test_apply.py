from __future__ import annotations

import hashlib
import os
import subprocess
import sys

import pytest

from tests.commands.install import official
from tests.projects import (
    ENGINE,
    FILES,
    LLAMA,
    NAME_PROJ,
    NAMED,
    NO_SUCH,
    SLOW_MODE,
    VERSION,
    git,
    write_tree,
)
from vpatch.checkout.lockfile import LockedImage, LockFile, read_lock
from vpatch.library import loading

LABEL = f"vllm-{VERSION}"


def test_apply_says_what_it_did(project):
    run = project.apply()
    lines = run.out.splitlines()
    assert lines[0].startswith(f"vllm {VERSION}  {LABEL}.tar.gz  sha256:")
    assert lines[0].endswith("  no recipe: every patch of the project that it needs")
    assert "  needed      name-proj  1 place to edit in 1 file" in lines
    lock = git(project.target, "log", "--format=%H").split()
    text = (project.target / "vpatch.lock").read_bytes()
    digits = hashlib.sha256(text).hexdigest()[:12]
    assert lines[-5:] == [
        f".vpatch/{LABEL}  2 patches on the pristine tree {lock[2][:12]}",
        f"  {lock[1][:12]}  name-proj",
        f"  {lock[0][:12]}  slow-mode",
        f".vpatch/{LABEL}/vpatch.lock  2 files changed",
        f"to build it: SETUPTOOLS_SCM_PRETEND_VERSION={VERSION}+vpatch.{digits}",
    ]
    assert f"Downloading {LABEL}.tar.gz" in run.err
    assert NAMED in (project.target / LLAMA).read_bytes()


def test_the_version_of_a_build_is_that_of_the_wheel(project, tmp_path):
    wheel = official.write(tmp_path / "official")
    made = project.run("wheel", "--vllm", VERSION, "--wheel", wheel, "--json").json
    (checkout,) = project.apply("--json").json["checkouts"]
    assert checkout["build_version"] == made["version"]
    # An image that was built of the checkout does not change it.
    lock = read_lock(project.target / "vpatch.lock")
    image = LockedImage(mode="overlay", base="a:1", pinned="a@sha256:1")
    with_image = lock.model_copy(update={"image": image})
    (project.target / "vpatch.lock").write_text(with_image.dump())
    (checkout,) = project.apply("--json").json["checkouts"]
    assert checkout["outcome"] == "unchanged"
    assert checkout["lock"]["image"] is not None
    assert checkout["build_version"] == made["version"]


def test_a_source_that_is_no_release_has_no_version_of_a_build(project):
    project.apply()
    run = project.run("apply", "--vllm", f"./.vpatch/{LABEL}", "--checkout", "again")
    assert "SETUPTOOLS_SCM_PRETEND_VERSION" not in run.out


@pytest.mark.parametrize("path", ["afile/x", "n" * 300, "n" * 250, "loop", "loop/x"])
def test_a_path_that_no_checkout_can_have(project, path):
    (project.folder / "afile").touch()
    (project.folder / "loop").symlink_to("loop")
    project.run("status", "--vllm", VERSION)  # so that the cache has the tree
    before = project.state()
    run = project.apply("--checkout", path, code=2)
    assert run.codes == ("checkout.bad-path",)
    assert f"  next: correct {path}, or name another folder with --checkout\n" in run.err
    assert project.state() == before


IMPORTS = """
import sys
from vpatch.main import main

slow = {"concurrent.futures", "libcst", "pydantic", "ruamel.yaml", "sqlite3"}
try:
    main()
except SystemExit as end:
    print(end.code, sorted(slow & sys.modules.keys()))
"""


@pytest.mark.parametrize("recipe", [True, False])
def test_apply_of_what_is_known_imports_no_parser(project, recipe):
    (project.folder / "recipes").mkdir()
    text = f"vllm: {VERSION}\npatches: [name-proj]\n"
    (project.folder / "recipes" / "own.yaml").write_text(text)
    source = ["--recipe", "own"] if recipe else ["--vllm", VERSION]
    words = ["apply", *source, "--trust", "--checkout"]
    project.run(*words, "first")
    run = subprocess.run(
        [sys.executable, "-c", IMPORTS, *words, "second"],
        cwd=project.folder,
        env=os.environ | project.env,
        check=True,
        capture_output=True,
        text=True,
    )
    assert run.stdout.splitlines()[-1] == "0 []"
    assert (project.folder / "second" / LLAMA).is_file()


def test_apply_again_says_that_nothing_was_done(applied):
    run = applied.apply()
    assert run.out.splitlines()[-1] == (
        f".vpatch/{LABEL} already is exactly this; nothing was written"
    )
    assert run.err == (
        "note: these are the project's own patches; --library adds 2 of the library\n"
    )


def test_apply_says_what_is_not_as_before(applied):
    patch = applied.patches / "name-proj" / "patch.yaml"
    patch.write_text(patch.read_text().replace("Without it", "Without this patch"))
    applied.patch("third", "- find: launch(...)\n  add-keyword: {steps: '2'}")
    run = applied.apply("--patch", "name-proj", "--patch", "third")
    assert run.out.splitlines()[-2] == (
        "since the last apply: 1 new: third; 1 gone: slow-mode; 1 changed: name-proj"
    )
    (done,) = applied.apply("--json").json["checkouts"]
    assert done["outcome"] == "replaced"
    assert done["changes"] == {
        "source": None,
        "new": ["slow-mode"],
        "gone": {},
        "changed": [],
        "kept": ["name-proj", "third"],
    }


def test_threads_upstream_do_not_change_a_commit(applied):
    """They are not in a patch's digest, so two checkouts of one digest must have one id."""
    thread = "{ref: vllm-project/vllm#8, is: pull request, relation: backport, state: STATE}"
    heads = {git(applied.target, "rev-parse", "HEAD")}
    for state in ("open", "merged"):
        threads = f"upstream: [{thread.replace('STATE', state)}]\n"
        applied.patch("name-proj", NAME_PROJ, more=threads)
        assert "already is exactly this" in applied.apply().out
        applied.apply("--checkout", state)
        heads.add(git(applied.folder / state, "rev-parse", "HEAD"))
    assert len(heads) == 1


def test_apply_as_json(project):
    run = project.apply("--json")
    (tree,), (checkout,) = run.json["trees"], run.json["checkouts"]
    assert checkout["outcome"] == "created"
    assert checkout["folder"] == f".vpatch/{LABEL}"
    assert tree["recipe"] is None
    assert tree["version"] == VERSION
    assert [p["id"] for p in checkout["lock"]["patches"]] == ["name-proj", "slow-mode"]
    lock = project.folder / checkout["folder"] / "vpatch.lock"
    assert LockFile.model_validate(checkout["lock"], strict=False).dump() == lock.read_text()
    assert project.apply("--json").json["checkouts"][0]["outcome"] == "unchanged"


def test_apply_with_a_conflict(project):
    project.patch("z-tail", NO_SUCH)
    run = project.apply(code=1)
    assert "  conflict    z-tail" in run.out
    assert run.err.endswith(
        "nothing was written: 1 patch cannot be applied\n"
        "  next: vpatch status --vllm 0.50.0 --why z-tail\n"
    )
    assert not project.target.exists()


@pytest.mark.parametrize("series", ["latest", "0.51"])
def test_apply_of_a_series(project, series):
    project.run("apply", "--vllm", series)
    assert (project.folder / ".vpatch" / "vllm-0.51.0").is_dir()


def test_apply_of_one_patch(project):
    project.apply("--patch", "slow-mode")
    assert (project.target / LLAMA).read_bytes() == FILES[LLAMA]
    assert b"slow" in (project.target / ENGINE).read_bytes()


def test_apply_by_a_recipe(project):
    (project.folder / "recipes").mkdir()
    recipe = f"vllm: {VERSION}\npatches: [slow-mode]\n"
    (project.folder / "recipes" / "mine.yaml").write_text(recipe)
    run = project.run("apply", "--recipe", "mine")
    assert run.out.splitlines()[0].endswith("  recipe mine")
    assert (project.target / LLAMA).read_bytes() == FILES[LLAMA]
    again = project.run("apply", "--recipe", "recipes/mine.yaml", "--checkout", "other", "--json")
    assert again.json["trees"][0]["recipe"] == "mine"


def test_apply_says_which_of_your_patches_a_recipe_leaves_out(project):
    (project.folder / "recipes").mkdir()
    recipe = f"vllm: {VERSION}\npatches: [slow-mode]\n"
    (project.folder / "recipes" / "vllm-0.50.yaml").write_text(recipe)
    run = project.apply()
    assert run.err.startswith("note: the recipe vllm-0.50 does not take name-proj, one of yours\n")
    assert "mtp-proj-prefix" not in run.err


def test_apply_of_a_recipe_with_another_digest(project):
    (project.folder / "recipes").mkdir()
    pin = f"{{source: {VERSION}, sha256: {'ab' * 32}}}"
    (project.folder / "recipes" / "mine.yaml").write_text(f"vllm: {pin}\npatches: [slow-mode]\n")
    run = project.run("apply", "--recipe", "mine", code=1)
    assert f"sha256:{'ab' * 32} was expected" in run.err
    assert not project.target.exists()


def test_apply_of_a_folder(project):
    write_tree(project.folder / "tree")
    project.run("apply", "--vllm", "./tree", "--checkout", "out")
    assert NAMED in (project.folder / "out" / LLAMA).read_bytes()
    assert (project.folder / "tree" / LLAMA).read_bytes() == FILES[LLAMA]


def test_apply_of_a_repository(project):
    repo = write_tree(project.folder / "repo")
    git(repo, "init", "-q")
    git(repo, "add", "-A")
    git(repo, "commit", "-qm", "x")
    git(repo, "tag", "v0.50.0")
    (repo / LLAMA).write_bytes(b"later\n")
    project.run("apply", "--vllm", "./repo@v0.50.0", "--checkout", "out")
    assert NAMED in (project.folder / "out" / LLAMA).read_bytes()


def test_apply_of_several_trees(project):
    project.index.add("1.0.0", name="vllm-ascend")
    run = project.apply("--tree", "vllm-ascend==1.0.0", "--json")
    assert [row["tree"] for row in run.json["trees"]] == ["vllm", "vllm-ascend"]
    assert (project.folder / ".vpatch" / "vllm-ascend-1.0.0" / "vpatch.lock").exists()
    wrong = project.apply("--tree", "vllm-ascend==1.0.0", "--checkout", "x", code=2)
    assert wrong.codes == ("cli.conflicting-options",)


def test_a_conflict_in_one_tree_stops_all(project):
    project.patch("z-tail", NO_SUCH)
    project.index.add("1.0.0", name="vllm-ascend")
    project.run("apply", "--tree", "vllm-ascend==1.0.0", "--vllm", VERSION, code=1)
    assert not list((project.folder / ".vpatch").glob("v*"))


def test_apply_offline(applied):
    asked = len(applied.index.asked)
    applied.apply("--offline", "--checkout", "other")
    assert len(applied.index.asked) == asked
    run = applied.run("apply", "--vllm", "0.51.0", "--offline", code=4)
    assert "not in the cache" in run.err


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([], "or --recipe NAME (vpatch list shows every recipe)"),
        (["--vllm", "0.99"], "no final release 0.99 of vllm"),
        (["--vllm", "nonsense"], "it is neither a version nor a path"),
        (["--vllm", VERSION, "--patch", "name-prj"], "did you mean 'name-proj'?"),
        (["--vllm", VERSION, "--recipe", "vllm-0.23"], "both name a vLLM"),
        (["--recipe", "none"], "there is no recipe 'none'"),
        (["--vllm", VERSION, "--patches-dir", "none"], "there is no folder none"),
        (["--nonsense"], "no such option"),
    ],
)
def test_apply_used_wrongly(project, args, message):
    run = project.run("apply", *args, code=2)
    assert message in run.err
    assert not project.target.exists()
    if "--nonsense" not in args:
        (error,) = project.run("apply", *args, "--json", code=2).json_errors
        assert error["hint"]


@pytest.mark.parametrize("how", ["by name", "by a recipe"])
def test_a_patch_that_was_asked_for_and_is_missed_stops(project, how):
    """It claims to be needed, and finds nothing that it is about."""
    project.patch("a-lost", NO_SUCH, concerns="text: nowhere")
    if how == "by name":
        run = project.apply("--patch", "a-lost", code=1)
    else:
        folder = project.folder / "recipes"
        folder.mkdir()
        (folder / "r.yaml").write_text(f"vllm: {VERSION}\npatches: [a-lost]\n")
        run = project.run("apply", "--recipe", "r", code=1)
    assert "declared that it is needed" in run.out
    assert "nothing was written: 1 patch cannot be applied" in run.err
    source = ["--vllm", VERSION, "--patch", "a-lost"] if how == "by name" else ["--recipe", "r"]
    # A dry run needs no engine.
    assert project.run("build-image", *source, "--dry-run", code=1).codes == (
        "checkout.patch-stops",
    )
    assert not project.target.exists()


@pytest.mark.parametrize("how", ["by name", "by a recipe"])
def test_patches_that_were_asked_for_and_are_not_needed_are_a_finding(project, how):
    """Without one of them the checkout would be a plain vLLM, under the recipe's name."""
    project.patch("slow-mode", SLOW_MODE, more="effect: {text: def start}\n")
    options = ["--vllm", VERSION, "--patch", "slow-mode"]
    if how == "by a recipe":
        (project.folder / "recipes").mkdir()
        recipe = f"vllm: {VERSION}\npatches: [slow-mode]\n"
        (project.folder / "recipes" / "mine.yaml").write_text(recipe)
        options = ["--recipe", "mine"]
    for command, more, codes in (
        ("apply", (), ()),
        # A dry run needs no engine.
        ("build-image", ("--dry-run",), ("checkout.nothing-to-apply",)),
    ):
        run = project.run(command, *options, *more, code=1)
        assert "there is no patch to apply: slow-mode is upstreamed" in run.err
        assert run.codes == codes
        assert not project.target.exists()
    assert project.run("apply", *options, "--json", code=1).json["checkouts"] == []


def test_a_tree_that_carries_what_was_asked_for_is_no_finding(applied):
    tree = f"./.vpatch/vllm-{VERSION}"
    run = applied.run("apply", "--vllm", tree, "--patch", "slow-mode", "--checkout", "out")
    assert "applied     slow-mode" in run.out


@pytest.mark.parametrize("tree", ["./patches", "."])
def test_a_folder_of_something_else_is_no_vllm(project, tree):
    run = project.run("apply", "--vllm", tree, "--checkout", "out", code=2)
    assert f"error: {tree}: is not a source tree of vllm" in run.err
    assert not (project.folder / "out").exists()


def test_what_is_on_request_is_left_out_and_named(project):
    edits = "- find: launch(...)\n  rewrite: start(...)"
    project.patch("other-mode", edits, more="on-request: it is slow\nconflicts: [slow-mode]\n")
    run = project.run("status", "--vllm", VERSION)
    lines = [line.split()[:2] for line in run.out.splitlines()]
    assert ["needed", "other-mode"] in lines
    assert ["needed", "slow-mode"] in lines
    run = project.apply()
    assert "note: other-mode is left out, as it is on request: it is slow\n" in run.err
    assert "other-mode" not in run.out
    run = project.apply("--patch", "other-mode", "--checkout", "there")
    assert "needed      other-mode" in run.out
    assert "left out" not in run.err


def test_what_is_known_is_applied_without_reading_a_declaration(project, monkeypatch):
    asked = ("apply", "--vllm", VERSION, "--checkout")
    for name in ("first", "second"):
        project.run(*asked, project.folder / name)
        # Only what was read before may be asked for.
        monkeypatch.setattr(loading, "load_patch", None)
    locks = {(project.folder / name / "vpatch.lock").read_bytes() for name in ("first", "second")}
    assert len(locks) == 1
