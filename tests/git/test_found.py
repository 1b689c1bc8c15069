"""What somebody prepared in a repository is not run, whatever it is."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.git.hostile import prepare
from tests.helpers import fails
from tests.projects import git
from vpatch.git import checkout, remote
from vpatch.git import command as vpatch_git
from vpatch.git.checkout import NewCommit
from vpatch.git.files import REGULAR, SourceFile
from vpatch.git.found import NoRepositoryError, StrangerError, opened_checkout, opened_source

FILES = [SourceFile("a.py", REGULAR, b"x = 1\n"), SourceFile("b.py", REGULAR, b"y = 1\n")]

pytestmark = pytest.mark.usefixtures("isolated")


@pytest.fixture
def repo(tmp_path):
    base = tmp_path / "base.git"
    commit = vpatch_git.create_base_repository(base, FILES, "vllm")
    folder = tmp_path / "repo"
    checkout.create_checkout(folder, base, commit, ["vpatch.lock"])
    checkout.add_commits(folder, commit, [NewCommit("One", {"a.py": b"x = 2\n"})])
    checkout.check_out(folder, "vpatch")
    return folder


def test_nothing_that_a_checkout_names_is_run(repo, script, tmp_path):
    prepare(repo / ".git", repo, script)
    # git looks into the contents of what may have changed: here the filter would run.
    (repo / "a.py").write_text("x = 3\n")
    (repo / "b.py").touch()
    with opened_checkout(repo) as found:
        assert checkout.changed_files(found) == [".gitattributes", "a.py"]
        assert checkout.current_branch(found) == "vpatch"
        assert checkout.refs(found).keys() == {"refs/heads/base", "refs/heads/vpatch"}
        assert checkout.lost_commits(found) == []
        assert checkout.hidden_files(found) == []
        assert checkout.ignored_files(found) == []
        checkout.clone(found, tmp_path / "clone", tag="v1")
    assert (tmp_path / "clone" / "a.py").read_text() == "x = 2\n"


def test_nothing_that_a_source_names_is_run(repo, script, tmp_path):
    prepare(repo / ".git", repo, script)
    (repo / "a.py").write_text("x = 3\n")
    assert remote.worktree_files(repo) == [".gitattributes", "a.py", "b.py"]
    ref = remote.resolve_ref(str(repo), "vpatch")
    remote.fetch_commit(str(repo), ref, tmp_path / "fetched.git")
    files = {file.path for file in vpatch_git.commit_files(tmp_path / "fetched.git", ref.commit)}
    assert files == {"a.py", "b.py"}


def test_an_object_that_is_missing_is_not_fetched(repo, script):
    """A partial clone asks the program that its remote names."""
    prepare(repo / ".git", repo, script)
    shutil.rmtree(repo / ".git" / "objects")
    (repo / ".git" / "objects").mkdir()
    with opened_checkout(repo) as found, pytest.raises(vpatch_git.GitError):
        checkout.changed_files(found)
    with pytest.raises(vpatch_git.VpatchError):
        remote.resolve_ref(str(repo), "vpatch")


def test_settings_of_a_submodule_are_not_used(repo, script):
    inner = repo / "inner"
    inner.mkdir()
    git(inner, "init", "-q")
    (inner / "c.py").write_text("z = 1\n")
    git(inner, "add", "c.py")
    git(inner, "commit", "-q", "-m", "inner")
    git(repo, "-c", "advice.addEmbeddedRepo=false", "add", "inner")
    prepare(inner / ".git", inner, script)
    (inner / "c.py").write_text("z = 2\n")
    with opened_checkout(repo) as found:
        assert checkout.changed_files(found) == []
        assert checkout.submodules(found) == ["inner"]


def test_a_folder_that_is_itself_a_repository_is_no_checkout(repo, script):
    """What a clone can contain: git takes no folder .git, and takes its contents."""
    for path in list((repo / ".git").iterdir()):
        path.rename(repo / path.name)
    (repo / ".git").rmdir()
    prepare(repo, repo, script)
    with pytest.raises(NoRepositoryError), opened_checkout(repo):
        pass
    (repo / ".git").mkdir()
    with pytest.raises(NoRepositoryError), opened_checkout(repo):
        pass


@pytest.mark.parametrize("kind", ["file", "link"])
def test_a_repository_elsewhere_is_no_checkouts(repo, tmp_path, kind):
    (repo / ".git").rename(tmp_path / "elsewhere")
    if kind == "file":
        (repo / ".git").write_text(f"gitdir: {tmp_path}/elsewhere\n")
    else:
        (repo / ".git").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(NoRepositoryError), opened_checkout(repo):
        pass


def test_a_source_may_be_a_further_worktree(repo, tmp_path):
    git(repo, "worktree", "add", "-q", "--detach", str(tmp_path / "further"), "base")
    (tmp_path / "further" / "new.py").write_text("")
    assert remote.worktree_files(tmp_path / "further") == ["a.py", "b.py", "new.py"]
    assert remote.resolve_ref(str(tmp_path / "further"), "HEAD").commit == (
        git(repo, "rev-parse", "base").strip()
    )


def test_a_source_below_the_top_of_its_repository(repo):
    (repo / "deep").mkdir()
    (repo / "deep" / "c.py").write_text("")
    assert remote.worktree_files(repo / "deep") == ["c.py"]


def test_a_folder_in_no_repository(tmp_path):
    with opened_source(tmp_path) as found:
        assert found is None


def test_a_pipe_in_place_of_an_index_is_not_waited_for(repo):
    (repo / ".git" / "index").unlink()
    os.mkfifo(repo / ".git" / "index")
    with opened_checkout(repo) as found:
        assert "a.py" in checkout.changed_files(found)


PIPES = [".git/refs/heads/x", ".git/objects/info/alternates", ".gitignore", "deep/.gitignore"]


@pytest.mark.parametrize("path", PIPES)
def test_a_pipe_in_a_checkout_is_not_waited_for(repo, path):
    (repo / path).parent.mkdir(exist_ok=True)
    os.mkfifo(repo / path)
    with fails("git.special-file"), opened_checkout(repo):
        pass


@pytest.mark.parametrize("path", PIPES)
def test_a_pipe_in_a_source_is_not_waited_for(repo, path):
    (repo / path).parent.mkdir(exist_ok=True)
    os.mkfifo(repo / path)
    with fails("git.special-file"):
        remote.worktree_files(repo / path.partition("/")[0] if path[0] != "." else repo)


@pytest.mark.parametrize("name", ["refs/heads/x", "logs"])
def test_a_repository_does_not_make_anybody_read_the_machine(repo, tmp_path, name):
    """A link leads out of it: to the whole file system, for instance."""
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "file").write_text("secret")
    link = repo / ".git" / name
    shutil.rmtree(link, ignore_errors=True)
    link.symlink_to(tmp_path / "secret")
    if name == "logs":
        with opened_checkout(repo) as found:
            assert not (found.git_dir / "logs").exists()
        return
    with fails("git.special-file"), opened_checkout(repo):
        pass


@pytest.mark.parametrize("named", ["gitdir: /none/such\n", "gitdir: a\0b\n"])
def test_a_repository_that_is_not_there(tmp_path, named):
    (tmp_path / ".git").write_text(named)
    with pytest.raises(NoRepositoryError, match="names a "):
        remote.worktree_files(tmp_path)


def test_a_common_folder_that_cannot_be(repo):
    (repo / ".git" / "commondir").write_text("a\0b\n")
    with fails("git.no-repository", "names a folder that cannot exist"):
        remote.worktree_files(repo)


@pytest.fixture
def stranger(monkeypatch):
    """Make this user another one than the owner of all that was made so far."""
    monkeypatch.delenv("SUDO_UID", raising=False)
    uid = os.getuid()
    monkeypatch.setattr(os, "geteuid", lambda: uid + 1)


@pytest.mark.usefixtures("stranger")
def test_a_checkout_of_another_user_is_refused(repo):
    with (
        fails("git.foreign-owner") as caught,
        opened_checkout(repo),
    ):
        pass
    assert f"git config --global --add safe.directory {repo}" in caught.value.hint


@pytest.mark.usefixtures("stranger")
@pytest.mark.parametrize(
    ("allowed", "opens"),
    [
        (["{repo}"], True),
        (["{parent}/*"], True),
        (["*"], True),
        (["*", ""], False),
        (["/elsewhere"], False),
    ],
)
def test_the_users_own_settings_allow_a_checkout(repo, allowed, opens):
    for value in allowed:
        text = value.format(repo=repo, parent=repo.parent)
        git(repo, "config", "--global", "--add", "safe.directory", text)
    if opens:
        with opened_checkout(repo) as found:
            assert checkout.changed_files(found) == []
    else:
        with pytest.raises(StrangerError), opened_checkout(repo):
            pass


@pytest.mark.usefixtures("stranger")
def test_a_checkouts_settings_do_not_allow_it(repo):
    git(repo, "config", "--add", "safe.directory", "*")
    with pytest.raises(StrangerError), opened_checkout(repo):
        pass


def test_what_sudo_was_called_by_may_own_a_checkout(repo, monkeypatch):
    real = Path.lstat
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("SUDO_UID", "4711")

    def lstat(path):
        found = list(real(path))
        found[4] = 4711
        return os.stat_result(found)

    monkeypatch.setattr(Path, "lstat", lstat)
    with opened_checkout(repo) as found:
        assert found.work_tree == repo
