from __future__ import annotations

import json
import os
import shlex
import shutil

import pytest

from tests.projects import (
    ENGINE,
    LLAMA,
    NO_SUCH,
    SLOW_MODE,
    VERSION,
    archive,
    git,
    snapshot,
    write_patch,
    write_tree,
)


def differences(project, *args, code=1):
    return project.run("check", *args, "--json", code=code).json["differences"]


def test_check_of_what_was_just_applied(applied):
    before = applied.state()
    run = applied.run("check")
    assert run.out == (
        f".vpatch/vllm-{VERSION}/vpatch.lock: 2 patches and 2 files are exactly as locked\n"
    )
    assert differences(applied, code=0) == []
    assert applied.state() == before


def test_check_finds_a_patch_that_was_edited(applied):
    applied.patch("slow-mode", SLOW_MODE.replace('"slow"', '"slower"'))
    found = differences(applied)
    assert found[0] == "slow-mode was edited since it was locked"
    assert found[1].startswith(f"{ENGINE}: the patches now make sha256:")
    run = applied.run("check", code=1)
    assert run.out.splitlines()[0].endswith("vpatch.lock: 2 differences")
    assert "next: vpatch apply" in run.out


def test_check_finds_a_patch_edited_in_its_words_alone(applied):
    file = applied.patches / "slow-mode" / "patch.yaml"
    file.write_text(file.read_text().replace("fails.", "fails at once."))
    assert differences(applied) == ["slow-mode was edited since it was locked"]


def test_check_does_not_mind_a_remark(applied):
    file = applied.patches / "slow-mode" / "patch.yaml"
    file.write_text(file.read_text() + "# a remark\n")
    applied.run("check")


def test_check_finds_a_patch_that_does_not_fit_any_more(applied):
    applied.patch("slow-mode", NO_SUCH)
    found = differences(applied)
    assert any(line.startswith("slow-mode is conflict, but the lock has it") for line in found)
    assert f"{ENGINE}: no patch changes it any more" in found


def test_check_finds_a_patch_that_is_gone(applied):
    shutil.rmtree(applied.patches / "slow-mode")
    assert differences(applied) == [
        "slow-mode is locked, and there is no such patch any more",
        f"{ENGINE}: no patch changes it any more",
    ]
    what_is_next_works(applied)


def next_of(project, *args):
    """What check says that is to be done next."""
    return project.run("check", *args, code=1).out.splitlines()[-1].removeprefix("  next: ")


def what_is_next_works(project):
    """Do what check says, and ask again."""
    following = next_of(project)
    assert following.startswith("vpatch apply ")
    project.run(*shlex.split(following)[1:])
    project.run("check")


@pytest.fixture
def recipe(project):
    """A project with a recipe, applied, and the recipe's file."""
    file = project.folder / "recipes" / "mine.yaml"
    file.parent.mkdir()
    file.write_text(f"vllm: {VERSION}\npatches: [name-proj, slow-mode]\n")
    project.run("apply", "--recipe", "mine")
    project.run("check")
    return file


def test_check_finds_a_patch_that_the_recipe_dropped(project, recipe):
    recipe.write_text(f"vllm: {VERSION}\npatches: [name-proj]\n")
    assert differences(project) == [
        "slow-mode is locked, and the recipe mine does not take it any more",
        f"{ENGINE}: no patch changes it any more",
    ]
    what_is_next_works(project)


def test_check_finds_a_patch_that_the_recipe_took_in(project, recipe):
    edits = "- add-file: vllm/new.py\n  from: new.py"
    (project.patch("a-new", edits) / "new.py").write_text("x = 1\n")
    project.run("check")
    recipe.write_text(f"vllm: {VERSION}\npatches: [name-proj, slow-mode, a-new]\n")
    assert differences(project) == [
        "a-new is needed, and the lock does not know it",
        "vllm/new.py: a patch changes it, and the lock does not know",
    ]
    what_is_next_works(project)


def test_check_finds_another_order(project, recipe):
    recipe.write_text(f"vllm: {VERSION}\npatches: [slow-mode, name-proj]\n")
    assert differences(project) == ["the order is now slow-mode, name-proj"]
    what_is_next_works(project)


@pytest.mark.parametrize(
    ("pin", "said"),
    [
        ("0.51.0", "vllm 0.51.0, and the lock has 0.50.0"),
        ("'0.51'", "vllm 0.51, and the lock has 0.50.0"),
        (
            f"{{source: {VERSION}, sha256: {'ab' * 32}}}",
            f"vllm {VERSION} (sha256:{'ab' * 32}), and",
        ),
        ("https://host/vllm.git@v0.50.0", "vllm https://host/vllm.git@v0.50.0, and the lock has"),
        ("../src", "vllm ../src, and the lock has 0.50.0"),
    ],
)
def test_check_finds_another_pin(project, recipe, pin, said):
    write_tree(project.folder / "src")
    recipe.write_text(f"vllm: {pin}\npatches: [name-proj, slow-mode]\n")
    (found,) = differences(project)
    assert found.startswith(f"the recipe mine pins {said}")
    assert next_of(project).startswith("vpatch status --recipe mine says what")


@pytest.mark.parametrize("pin", ["0.50", VERSION, "latest"])
def test_check_takes_a_series_for_any_of_its_releases(project, recipe, pin):
    recipe.write_text(f"vllm: '{pin}'\npatches: [name-proj, slow-mode]\n")
    project.run("check")


@pytest.mark.parametrize("source", ["./src", "./src@HEAD"])
def test_check_of_a_recipe_that_names_a_place(project, recipe, source):
    tree = write_tree(project.folder / "src")
    git(tree, "init", "-q")
    git(tree, "add", "-A")
    git(tree, "commit", "-qm", "x")
    recipe.write_text(f"vllm: .{source}\npatches: [slow-mode]\n")
    project.run("apply", "--recipe", "mine", "--checkout", "out")
    project.run("check", "--checkout", "out")


def test_check_says_that_a_recipe_is_gone(project, recipe):
    recipe.unlink()
    assert differences(project) == ["the lock is of the recipe mine, and there is none any more"]
    assert next_of(project).startswith("bring back what is gone")


def test_check_finds_a_new_patch_of_the_library(applied):
    applied.patch("z-new", "- {add-file: vllm/new.py, from: new.py}")
    (applied.patches / "z-new" / "new.py").write_text("x = 1\n")
    assert "z-new is needed, and the lock does not know it" in differences(applied)
    what_is_next_works(applied)


def test_check_of_chosen_patches_does_not_mind_others(project):
    project.apply("--patch", "slow-mode")
    project.run("check")
    project.patch("slow-mode", SLOW_MODE.replace('"slow"', '"slower"'))
    assert next_of(project) == f"vpatch apply --vllm {VERSION} --patch slow-mode"
    what_is_next_works(project)
    shutil.rmtree(project.patches / "slow-mode")
    assert next_of(project).startswith("bring back what is gone")


@pytest.mark.parametrize("options", [(), ("--patch", "name-proj")])
def test_check_remembers_that_backports_were_asked_for(project, options):
    write_patch(project.patches / "security", "fix", SLOW_MODE)
    shutil.rmtree(project.patches / "slow-mode")
    project.apply("--security", "all", *options)
    lock = json.loads((project.target / "vpatch.lock").read_text())
    assert lock["security"] == "all"
    assert {patch["id"] for patch in lock["patches"]} == {"name-proj", "fix"}
    project.run("check")
    assert "nothing was written" in project.apply("--security", "all", *options).out
    write_patch(project.patches / "security", "fix", SLOW_MODE.replace('"slow"', '"slower"'))
    assert "--security all" in next_of(project)
    what_is_next_works(project)


def test_check_of_backports_that_are_gone(project):
    write_patch(project.patches / "security", "fix", SLOW_MODE)
    project.apply("--security", "all", "--patch", "name-proj")
    shutil.rmtree(project.patches / "security")
    assert "fix is locked, and there is no such patch any more" in differences(project)


def test_check_finds_that_a_skipped_patch_is_needed_now(project):
    project.patch("slow-mode", SLOW_MODE, more="effect: {text: def start}\n")
    project.apply()
    project.run("check")
    project.patch("slow-mode", SLOW_MODE)
    assert "slow-mode was upstreamed when it was locked, and is needed" in differences(project)
    what_is_next_works(project)


def test_what_is_next_is_nothing_that_apply_refuses(applied):
    applied.patch("slow-mode", NO_SUCH)
    assert next_of(applied) == (
        f"vpatch status --vllm {VERSION} --why slow-mode, as vpatch apply refuses this"
    )
    applied.patch("slow-mode", SLOW_MODE.replace('"slow"', '"slower"'))
    modify(applied.target)
    assert next_of(applied) == (
        f"save what is yours in the checkout, then vpatch apply --vllm {VERSION} --force"
    )
    applied.apply("--force")
    applied.run("check")


def test_what_is_next_for_a_checkout_elsewhere(project):
    project.apply("--checkout", "out")
    modify(project.folder / "out")
    assert next_of(project, "--checkout", "out").endswith(
        f"--vllm {VERSION} --checkout out --force"
    )


def modify(target):
    (target / LLAMA).write_text("mine\n")


def delete(target):
    (target / LLAMA).unlink()


def add(target):
    (target / "mine.py").write_text("")


def commit(target):
    git(target, "commit", "-q", "--allow-empty", "-m", "mine")


def modify_and_hide(target):
    git(target, "update-index", "--assume-unchanged", LLAMA)
    modify(target)


CHANGES = {
    modify: [
        f"{LLAMA}: has other contents in the checkout than in the lock",
        f"changed or new: {LLAMA}",
    ],
    delete: [f"{LLAMA}: is missing in the checkout", f"changed or new: {LLAMA}"],
    add: ["changed or new: mine.py"],
    commit: ["commits of yours: refs/heads/vpatch is at "],
    modify_and_hide: [
        f"{LLAMA}: has other contents in the checkout than in the lock",
        f"hidden from git: {LLAMA}",
    ],
}


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_check_finds_a_change_in_the_checkout(applied, change):
    change(applied.target)
    before = snapshot(applied.target)
    found = differences(applied)
    assert len(found) == len(CHANGES[change])
    assert all(line.startswith(start) for line, start in zip(found, CHANGES[change], strict=True))
    assert snapshot(applied.target) == before


def test_check_finds_another_source(applied):
    lock = applied.target / "vpatch.lock"
    digest = applied.apply("--json").json["trees"][0]["digest"]
    lock.write_text(lock.read_text().replace(digest, f"sha256:{'0' * 64}"))
    run = applied.run("check", code=1)
    assert f"sha256:{'0' * 64} was expected" in run.err


def test_check_of_a_lock_kept_elsewhere(applied):
    kept = applied.folder / "kept.lock"
    kept.write_bytes((applied.target / "vpatch.lock").read_bytes())
    shutil.rmtree(applied.target)
    assert differences(applied, "--lock", "kept.lock", code=0) == []
    applied.patch("slow-mode", SLOW_MODE.replace('"slow"', '"slower"'))
    assert len(differences(applied, "--lock", "kept.lock")) == 2


def test_check_of_a_lock_and_a_checkout(applied):
    kept = applied.folder / "kept.lock"
    kept.write_bytes((applied.target / "vpatch.lock").read_bytes())
    modify(applied.target)
    found = differences(applied, "--lock", kept, "--checkout", applied.target)
    assert f"changed or new: {LLAMA}" in found


def test_check_without_a_checkout(applied):
    modify(applied.target)
    shutil.rmtree(applied.target / ".git")
    run = applied.run("check", code=1)
    assert "Traceback" not in run.err
    assert "error: " in run.err


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        ([], 2, "there is no checkout in .vpatch"),
        (["--lock", "none.lock"], 2, "none.lock: there is no lock"),
        (["--checkout", "none"], 2, "none/vpatch.lock: there is no lock"),
        (["--lock", "x", "--vllm", VERSION], 2, "--lock and --vllm both name a lock"),
    ],
)
def test_check_used_wrongly(project, args, code, message):
    assert message in project.run("check", *args, code=code).err
    (error,) = project.run("check", *args, "--json", code=code).json_errors
    assert error["hint"]


def test_a_lock_of_a_release_without_a_version(applied):
    lock = applied.target / "vpatch.lock"
    lock.write_text(lock.read_text().replace(f'"version": "{VERSION}"', '"version": null'))
    assert applied.run("check", code=1).codes == ("checkout.lock-without-version",)


def test_check_offline(applied):
    applied.index.add(VERSION, archive(files={"vllm/new.py": b""}))
    asked = len(applied.index.asked)
    assert differences(applied, "--offline", code=0) == []
    assert len(applied.index.asked) == asked


@pytest.mark.parametrize("outer", ["none", "empty"])
def test_a_repository_that_a_clone_can_contain_is_not_used(applied, outer):
    """git keeps no folder .git, so such a checkout has a repository's files beside the lock."""
    ran = applied.folder / "ran"
    for path in list((applied.target / ".git").iterdir()):
        shutil.move(path, applied.target / path.name)
    (applied.target / ".git").rmdir()
    if outer == "empty":
        (applied.target / ".git").mkdir()
    with (applied.target / "config").open("a") as config:
        config.write(f"""[core]
    bare = false
    worktree = {applied.target}
[filter "evil"]
    clean = touch {ran}
""")
    (applied.target / "info" / "attributes").write_text("* filter=evil\n")
    os.utime(applied.target / LLAMA, (1, 1))
    run = applied.run("check", code=1)
    assert "is not a git checkout" in run.err
    assert not ran.exists()


def test_a_filter_in_a_checkout_is_not_run(applied):
    ran = applied.folder / "ran"
    git(applied.target, "config", "filter.evil.clean", f"touch {ran}; cat")
    (applied.target / ".git" / "info" / "attributes").write_text("* filter=evil\n")
    os.utime(applied.target / LLAMA, (1, 1))
    applied.run("check")
    assert not ran.exists()


@pytest.mark.parametrize("command", ["check", "apply"])
def test_a_checkout_of_another_user_is_refused(applied, monkeypatch, command):
    monkeypatch.delenv("SUDO_UID", raising=False)
    uid = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    args = ("--vllm", VERSION) if command == "apply" else ()
    run = applied.run(command, *args, "--checkout", applied.target, code=2)
    assert "belongs to another user" in run.err
    assert "safe.directory" in run.err


VERSION_FILE = "vllm/_version.py"
BUILT = {
    ".gitignore": b"/vllm/_version.py\n*.egg-info/\n",
    VERSION_FILE: b"__version__ = version = '0.50.0'\n",
    "vllm.egg-info/requires.txt": b"torch\n",
    "vllm.egg-info/entry_points.txt": b"[console_scripts]\n",
}


@pytest.fixture
def built(project):
    """A checkout in which somebody ran a build: it writes files that a release's archive has."""
    project.index.add(VERSION, archive(files=BUILT))
    project.apply()
    (project.target / VERSION_FILE).write_text("__version__ = version = '0.1.dev7+g3f71d41a4'\n")
    (project.target / "vllm.egg-info" / "requires.txt").write_text("torch==2.11\n")
    return project


def test_what_a_build_writes_is_no_change(built):
    built.run("check")
    assert "already is exactly this" in built.apply().out
    built.patch("slow-mode", SLOW_MODE.replace('"slow"', '"slower"'))
    built.apply()
    built.run("check")


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (VERSION_FILE, "import os\n"),
        ("vllm.egg-info/entry_points.txt", "[vllm.general_plugins]\n"),
        (LLAMA, "__version__ = '1'\n"),
        ("vllm/__init__.py", "__version__ = '1'\n"),
    ],
)
def test_tampering_is_seen_after_a_build(built, path, text):
    (built.target / path).write_text(text)
    assert f"changed or new: {path}" in differences(built)
    assert path in built.apply(code=1).err


def test_a_version_file_that_git_is_to_track_is_no_build_output(project):
    project.index.add(VERSION, archive(files={VERSION_FILE: BUILT[VERSION_FILE]}))
    project.apply()
    (project.target / VERSION_FILE).write_text("__version__ = '1'\n")
    assert differences(project) == [f"changed or new: {VERSION_FILE}"]


def test_a_version_file_that_a_patch_changes_is_compared(project):
    project.index.add(VERSION, archive(files=BUILT))
    edit = f"- text: {{find: 0.50.0, replace: 0.50.1}}\n  files: {VERSION_FILE}"
    project.patch("slow-mode", edit, concerns="text: __version__")
    project.apply()
    (project.target / VERSION_FILE).write_text("__version__ = '1'\n")
    assert f"changed or new: {VERSION_FILE}" in differences(project)
