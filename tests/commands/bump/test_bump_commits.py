"""vpatch bump: the upstream commits that changed the code of a patch."""

from __future__ import annotations

import pytest

from tests.commands.upstream.proposals import UPSTREAM
from tests.projects import FILES, LLAMA, archive, git, write_tree
from vpatch.util.extras import EXTRAS

CHANGED = FILES[LLAMA].replace(
    b"        self.head", b"        self.norm = Norm(4)\n        self.head"
)
SUBJECTS = ("[Model] Normalise <b> (#12)", "[Model] Normalise again (#13)")
NOT_ASKED = "upstream's commits: not asked for, see --clone and --github"


@pytest.fixture
def bumped(project):
    """A project with a recipe on 0.50.0, whose first patch meets other code in 0.51.0."""
    project.index.add("0.51.0", archive("0.51.0", {LLAMA: CHANGED}))
    recipe = project.folder / "recipes" / "small.yaml"
    recipe.parent.mkdir()
    recipe.write_text("vllm: 0.50.0\npatches: [name-proj, slow-mode]\n")
    return project


@pytest.fixture
def clone(tmp_path):
    """Upstream's repository: two commits change the code, and one only adds a comment."""
    folder = tmp_path / "upstream"
    file = folder / LLAMA
    file.parent.mkdir(parents=True)
    git(folder, "init", "--quiet", "--initial-branch=main")
    noted = FILES[LLAMA] + b"# The end.\n"
    editions = {
        "Begin": FILES[LLAMA],
        "[Doc] Note": noted,
        SUBJECTS[0]: CHANGED.replace(b"Norm(4)", b"Norm(8)"),
        SUBJECTS[1]: CHANGED,
    }
    for subject, text in editions.items():
        file.write_bytes(text)
        git(folder, "add", "--all")
        git(folder, "commit", "--quiet", "-m", subject)
        if subject == "Begin":
            git(folder, "tag", "v0.50.0")
    git(folder, "tag", "v0.51.0")
    return folder


def shown(clone):
    """The lines of the commits, the oldest first."""
    ids = git(clone, "log", "--reverse", "-2", "--format=%H").split()
    return [f"{one[:12]} {subject}" for one, subject in zip(ids, SUBJECTS, strict=True)]


def test_out_of_a_clone(bumped, clone):
    out = bumped.run("bump", "small", "--to", "0.51", "--clone", clone, code=1).out
    first, second = shown(clone)
    code = f"      edits  Llama.__init__: changed, +1 -0, {LLAMA}:2\n"
    assert f"{code}        {first}\n        {second}\n" in out
    assert "[Doc] Note" not in out
    # The path may be so long that the line is wrapped.
    assert f"upstream's commits: {clone}, v0.50.0..v0.51.0" in " ".join(out.split())


def test_in_each_form_of_the_report(bumped, clone):
    asked = ("bump", "small", "--to", "0.51", "--clone", clone)
    commits = shown(clone)
    bumped.run(*asked, "--output", "report.md", code=1)
    text = (bumped.folder / "report.md").read_text()
    assert f"  - {commits[0][:12]} \\[Model\\] Normalise \\<b\\> (\\#12)\n" in text
    assert f"Upstream's commits: {clone}, v0.50.0..v0.51.0." in text.replace("\\", "")
    bumped.run(*asked, "--output", "report.html", code=1)
    text = (bumped.folder / "report.html").read_text()
    assert f"<li>{commits[1]}</li>" in text
    assert f"<li>{commits[0][:12]} [Model] Normalise &lt;b&gt; (#12)</li>" in text
    assert f"<p>Upstream&#39;s commits: {clone}, v0.50.0..v0.51.0.</p>" in text
    (recipe,) = bumped.run(*asked, "--json", code=1).json["recipes"]
    (code,) = recipe["patches"][0]["changed"]
    assert [f"{one['id'][:12]} {one['subject']}" for one in code["commits"]] == commits
    assert recipe["commits_from"] == f"{clone}, v0.50.0..v0.51.0"


def test_nobody_was_asked(bumped):
    asked = ("bump", "small", "--to", "0.51")
    assert NOT_ASKED in bumped.run(*asked, code=1).out
    for name, apostrophe in (("report.md", "'"), ("report.html", "&#39;")):
        bumped.run(*asked, "--output", name, code=1)
        said = NOT_ASKED.replace("upstream's", f"Upstream{apostrophe}s")
        assert said in (bumped.folder / name).read_text()
    (recipe,) = bumped.run(*asked, "--json", code=1).json["recipes"]
    assert recipe["commits_from"] is None
    assert recipe["patches"][0]["changed"][0]["commits"] is None


def test_where_nothing_changed_there_is_nothing_to_ask(bumped):
    (bumped.folder / "recipes" / "small.yaml").write_text("vllm: 0.50.0\npatches: [slow-mode]\n")
    assert "commits" not in bumped.run("bump", "small", "--to", "0.51").out


def test_a_clone_that_lacks_the_commits(bumped, clone):
    """The tags are there, but upstream's history is not what was released."""
    git(clone, "tag", "--force", "v0.51.0", "v0.50.0")
    out = bumped.run("bump", "small", "--to", "0.51", "--clone", clone, code=1).out
    assert "        no commit between the two releases changed it\n" in out


def test_a_clone_without_the_release(bumped, clone):
    git(clone, "tag", "--delete", "v0.51.0")
    run = bumped.run("bump", "small", "--to", "0.51", "--clone", clone, code=2)
    assert run.codes == ("git.no-such-ref",)
    assert "the clone has no v0.51.0" in run.err


def test_no_clone(bumped, tmp_path):
    folder = tmp_path / "nothing"
    folder.mkdir()
    run = bumped.run("bump", "small", "--to", "0.51", "--clone", folder, code=2)
    assert run.codes == ("bump.no-clone",)


def test_a_folder_has_no_commits(bumped, clone):
    folder = write_tree(bumped.folder / "source")
    run = bumped.run("bump", "small", "--to", folder, "--clone", clone, code=2)
    assert run.codes == ("bump.no-commits",)


@pytest.mark.parametrize(
    "options", [("--github", "--clone", "."), ("--github", "--offline")], ids=" ".join
)
def test_options_that_contradict_each_other(bumped, options):
    run = bumped.run("bump", "small", "--to", "0.51", *options, code=2)
    assert run.codes == ("cli.unused-option",)


def test_github_needs_its_extra(bumped, monkeypatch):
    monkeypatch.setitem(EXTRAS, "upstream", ("no_such_module",))
    run = bumped.run("bump", "small", "--to", "0.51", "--github", code=4)
    assert run.codes == ("util.missing-extra",)


def test_github_tells_nothing_without_a_token(bumped):
    bumped.env |= {"GH_TOKEN": "", "GITHUB_TOKEN": "", "PATH": "/usr/bin:/bin"}
    run = bumped.run("bump", "small", "--to", "0.51", "--github", code=2)
    assert run.codes == ("bump.no-token",)


def test_as_github_knows_them(bumped, clone, github):
    github.add_repository(UPSTREAM, git=clone)
    bumped.env |= {"GITHUB_API_URL": github.url, "GH_TOKEN": "ghp_test", "NO_PROXY": "127.0.0.1"}
    # Two recipes: one after the other asks.
    other = bumped.folder / "recipes" / "other.yaml"
    other.write_text((bumped.folder / "recipes" / "small.yaml").read_text())
    out = bumped.run("bump", "small", "other", "--to", "0.51", "--github", code=1).out
    for line in shown(clone):
        assert out.count(f"        {line}\n") == 2
    assert f"upstream's commits: {UPSTREAM} on 127.0.0.1" in out
