"""What is new between two releases: the commits of a clone, and the page."""

from __future__ import annotations

import re

import pytest

from tests.commands.compat.plugins import CORE, VLLM, write_plugin
from tests.projects import archive, git

STEPS = {
    "Begin": VLLM[CORE],
    "[Doc] Note": VLLM[CORE].replace(b"return batch + 1", b"return batch + 1  # More."),
    "[Core] Other method": VLLM[CORE].replace(b"return 1", b"return 7"),
    "[Core] Add <two>": VLLM[CORE].replace(b"return batch + 1", b"return batch + 2"),
}


@pytest.fixture
def releases(project):
    project.index.add("0.50.0", archive("0.50.0", VLLM))
    project.index.add("0.51.0", archive("0.51.0", VLLM | {CORE: [*STEPS.values()][-1]}))
    write_plugin(project.folder)
    return project


@pytest.fixture
def clone(tmp_path):
    folder = tmp_path / "upstream"
    (folder / "vllm").mkdir(parents=True)
    git(folder, "init", "--quiet", "--initial-branch=main")
    for subject, text in STEPS.items():
        (folder / CORE).write_bytes(text)
        git(folder, "add", "--all")
        git(folder, "commit", "--quiet", "-m", subject)
        if subject == "Begin":
            git(folder, "tag", "v0.50.0")
    git(folder, "tag", "v0.51.0")
    return folder


RANGE = ("--from", "0.50.0", "--to", "0.51.0")


def test_a_clone_names_the_commits_that_changed_a_definition(releases, clone):
    run = releases.run("compat", "plugin", *RANGE, "--clone", clone, "--json")
    difference = next(
        one for one in run.json["differences"] if one["item"]["name"] == "my_plugin.MyWorker.run"
    )
    last = git(clone, "rev-parse", "HEAD").strip()
    assert difference["commits"] == [{"id": last, "subject": "[Core] Add <two>"}]
    line = f"commit {last[:12]} [Core] Add <two>"
    assert line in releases.run("compat", "plugin", *RANGE, "--clone", clone).out
    md = releases.run("compat", "plugin", *RANGE, "--clone", clone, "--format", "md").out
    assert f"  - commit {last[:12]}" in md
    html = releases.run("compat", "plugin", *RANGE, "--clone", clone, "--format", "html").out
    assert f"<li>commit {last[:12]} [Core] Add &lt;two&gt;</li>" in html


def test_github_names_them_as_a_clone_does(releases, clone, github):
    github.add_repository("vllm-project/vllm", git=clone)
    releases.env |= {"GITHUB_API_URL": github.url, "GH_TOKEN": "ghp_test", "NO_PROXY": "127.0.0.1"}
    asked = releases.run("compat", "plugin", *RANGE, "--github", "--json").json["differences"]
    of_clone = releases.run("compat", "plugin", *RANGE, "--clone", clone, "--json").json
    assert asked == of_clone["differences"]
    assert any(one["commits"] for one in asked)
    run = releases.run("compat", "plugin", *RANGE, "--github", "--offline", code=2)
    assert run.codes == ("cli.unused-option",)


def test_without_a_clone_nobody_is_asked_for_commits(releases):
    run = releases.run("compat", "plugin", *RANGE, "--json")
    assert {one["commits"] is None for one in run.json["differences"]} == {True}


def test_a_clone_without_a_release_is_refused(releases, clone):
    git(clone, "tag", "--delete", "v0.51.0")
    run = releases.run("compat", "plugin", *RANGE, "--clone", clone, "--json", code=2)
    assert run.json_errors[0]["code"] == "git.no-such-ref"


@pytest.mark.parametrize("args", [("--all",), ("--vllm", "0.51.0")])
def test_a_clone_has_no_effect_on_releases_by_themselves(releases, clone, args):
    for option in (("--clone", clone), ("--github",)):
        run = releases.run("compat", "plugin", *args, *option, "--json", code=2)
        assert run.json_errors[0]["code"] == "cli.unused-option"


def test_the_page_shows_each_item_with_its_state(releases):
    out = releases.run("compat", "plugin", "--all", "--format", "html").out
    assert out.startswith("<!doctype html>")
    assert 'class="verdict look-again">look again</span> override' in out
    assert re.search(r'<th scope="row">0.51.0</th>.*<td class="count">', out)
    # It takes nothing from elsewhere.
    assert not re.search(r"(?:src|href)=|url\(|@import", out)
    only = releases.run("compat", "plugin", "--all", "--format", "html", "--only-breaks").out
    assert 'look-again">look again</span> override' not in only


def test_the_page_shows_the_diff_of_a_definition(releases):
    out = releases.run("compat", "plugin", *RANGE, "--format", "html").out
    assert '<span class="removed">-        return batch + 1</span>' in out
    assert '<span class="added">+        return batch + 2</span>' in out


def test_texts_of_the_target_are_text_in_the_page(releases):
    file = releases.folder / "module.py"
    file.write_text(
        "import vllm.core\nif not hasattr(vllm.core, '<b>'):\n    import vllm.nowhere\n"
    )
    out = releases.run("compat", file, "--all", "--format", "html").out
    assert "&lt;b&gt;" in out
    assert "<b>" not in out
