"""`vpatch test` judges what patches make of a release by the release's own hooks for style."""

from __future__ import annotations

import pytest

from tests.checkout.test_hooks import CONFIG, HOME
from tests.projects import ENGINE, FILES, LLAMA, SLOW_MODE, VERSION, archive, opened, write_tree
from vpatch.checkout.hooks import run_hooks
from vpatch.progress import Silent

HOOKS = """
repos:
- repo: https://github.com/astral-sh/ruff-pre-commit
  rev: v0.14.0
  hooks:
  - {id: ruff-check, args: [--output-format, concise, --fix]}
  - {id: ruff-format}
- repo: local
  hooks: [{id: own, name: Code of the release, entry: "false", language: system}]
"""
STYLED = {
    CONFIG: HOOKS.encode(),
    "pyproject.toml": b'[tool.ruff.lint]\nselect = ["E", "F", "I"]\nignore = ["F821"]\n',
}
UNUSED = f"{SLOW_MODE}\n- add-import: import os\n  beside: 'def start(...): ...'\n"
RECIPE = "why: w\nvllm: {{source: {}}}\npatches: [slow-mode]\n"


@pytest.fixture
def own(project):
    """A project with a recipe for one patch, which has an example."""
    example = project.patches / "slow-mode" / "examples" / "needed-fast"
    files = {path: FILES[path] for path in (ENGINE, LLAMA)}
    write_tree(example / "before", files)
    write_tree(example / "after", files | {ENGINE: FILES[ENGINE].replace(b"fast", b"slow")})
    (project.folder / "recipes").mkdir()
    (project.folder / "recipes" / "mine.yaml").write_text(RECIPE.format(VERSION))
    return project


@pytest.fixture
def styled(own, tmp_path):
    """The same with a release that has hooks, and with ruff installed for them."""
    with opened(tmp_path, FILES | STYLED) as tree:
        run_hooks(tree, CONFIG, {ENGINE: FILES[ENGINE]}, HOME, Silent())
    own.cache.mkdir(exist_ok=True)
    (own.cache / "pre-commit").symlink_to(HOME)
    own.index.add(VERSION, archive(files=STYLED))
    return own


def style(project, *args, code=0):
    """What `--json` says of the style of the patch."""
    return project.run("test", "slow-mode", "--json", *args, code=code).json["style"]


def not_judged(project, *args):
    """Why nothing is said of the style of the patch; it is no finding."""
    (judged,) = style(project, *args)
    assert judged["passed"] == judged["failed"] == []
    (reason,) = judged["not_judged"]
    return reason


@pytest.mark.slow
def test_what_passes_the_hooks_of_the_release(styled):
    (judged,) = style(styled)
    assert judged == {
        "patch": "slow-mode",
        "release": VERSION,
        "passed": ["ruff-check", "ruff-format"],
        "failed": [],
        "not_judged": [],
    }
    run = styled.run("test", "slow-mode", "--offline")
    assert run.out == (
        "holds  slow-mode  needed-fast\n"
        f"holds  slow-mode  upstream's style in vLLM {VERSION}: ruff-check, ruff-format\n"
        "1 of 1 example holds\n"
    )


@pytest.mark.slow
def test_what_the_hooks_of_the_release_refuse(styled):
    styled.patch("slow-mode", UNUSED)
    example = styled.patches / "slow-mode" / "examples" / "needed-fast" / "after" / ENGINE
    example.write_bytes(b"import os\n\n\n" + example.read_bytes())
    (judged,) = style(styled, code=1)
    assert judged["passed"] == ["ruff-format"]
    (failed,) = judged["failed"]
    assert failed["hook"] == "ruff-check"
    assert "-import os\n" in failed["details"]
    run = styled.run("test", "slow-mode", code=1)
    assert f"fails  slow-mode  upstream's style in vLLM {VERSION}: ruff-check\n" in run.out
    assert "       -import os\n" in run.out
    assert "1 of 1 example holds\n" in run.out
    assert styled.run("test", "slow-mode", "--no-style").out == (
        "holds  slow-mode  needed-fast\n1 of 1 example holds\n"
    )


@pytest.mark.slow
def test_a_file_that_the_release_itself_has_in_another_style(styled):
    files = STYLED | {ENGINE: b"import os\n" + FILES[ENGINE]}
    styled.index.add(VERSION, archive(files=files))
    (judged,) = style(styled)
    assert (judged["passed"], judged["failed"]) == ([], [])
    assert judged["not_judged"] == [
        "ruff-check: it refuses these files without the patch, too",
        "ruff-format: it refuses these files without the patch, too",
    ]


def test_a_hook_that_is_not_installed_offline(own):
    own.index.add(VERSION, archive(files=STYLED))
    own.apply()
    (judged,) = style(own, "--offline")
    reason = "offline, and it is not installed yet"
    assert judged["not_judged"] == [f"ruff-check: {reason}", f"ruff-format: {reason}"]


def test_a_release_without_hooks(own):
    assert not_judged(own) == f"{CONFIG}: the file is not in upstream's tree"
    run = own.run("test", "slow-mode")
    assert f"not judged  slow-mode  upstream's style in vLLM {VERSION}: " in run.out
    assert "1 of 1 example holds\n" in run.out


@pytest.mark.slow
def test_files_that_no_hook_looks_at(styled):
    files = STYLED | {
        CONFIG: HOOKS.replace("id: ruff-check,", "id: ruff-check, files: none,")
        .replace("{id: ruff-format}", "{id: ruff-format, files: none}")
        .encode()
    }
    styled.index.add(VERSION, archive(files=files))
    assert "no hook that can run here looks at" in not_judged(styled)
    assert "not judged  slow-mode  upstream's style" in styled.run("test", "slow-mode").out


def test_a_patch_for_another_tree(own):
    file = own.patches / "slow-mode" / "patch.yaml"
    file.write_text(file.read_text().replace('{vllm: ">=0.50"}', '{vllm-tiny: ">=1"}'))
    assert not_judged(own) == "it is not for vllm"


def test_a_release_that_does_not_need_the_patch(own):
    own.index.add("0.51.0", archive("0.51.0", {LLAMA: b""}))
    assert not_judged(own, "--vllm", "0.51") == "the patch is absent there"
    assert [one["release"] for one in style(own, "--vllm", "0.50,0.51")] == [VERSION, "0.51.0"]


def test_no_release_is_known(own):
    (own.folder / "recipes" / "mine.yaml").write_text(RECIPE.format("../vllm"))
    assert "give one, such as --vllm" in not_judged(own)
    run = own.run("test", "slow-mode")
    assert "not judged  slow-mode: no recipe pins a release for it" in run.out
    (own.folder / "recipes" / "mine.yaml").write_text(RECIPE.format("latest"))
    assert "give one, such as --vllm" in not_judged(own)


def test_the_newest_release_on_record(own):
    (own.folder / "recipes" / "mine.yaml").unlink()
    own.run("test", "slow-mode", "--record", "--vllm", "0.50,0.51")
    (judged,) = style(own)
    assert judged["release"] == "0.51.0"


def test_a_release_that_cannot_be_had(own):
    (own.folder / "recipes" / "mine.yaml").write_text(RECIPE.format("0.90.0"))
    assert "0.90.0" in not_judged(own)
    own.run("test", "slow-mode", "--vllm", "0.90.0", code=2)


def test_packages_of_the_extra_are_missing(own, monkeypatch):
    monkeypatch.setattr("vpatch.util.extras._is_installed", lambda name: name != "pre_commit")
    assert "pip install 'vpatch[upstream]'" in not_judged(own)


def test_a_patch_that_came_with_vpatch(own, monkeypatch):
    monkeypatch.setattr("vpatch.commands.proofs.style.is_installed", lambda _: True)
    assert style(own) == []
    assert len(style(own, "--vllm", VERSION)) == 1


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (["--no-style", "--vllm", "0.50"], "--vllm would have no effect with --no-style"),
        (["--no-style", "--engine", "cpu"], "--no-style would have no effect here"),
        (["--no-style", "--record"], "--no-style would have no effect here"),
    ],
)
def test_options_without_effect(own, args, why):
    assert why in own.run("test", "slow-mode", *args, code=2).err
