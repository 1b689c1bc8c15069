"""The remote of a project's repository: its address counts, and none of its settings."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from tests.git.hostile import prepare
from tests.helpers import fails
from tests.projects import git, own_repository
from vpatch.errors import VpatchError
from vpatch.git.origin import (
    current_branch,
    hosted_name,
    identity,
    push_new,
    remote_url,
    tip_there,
)

URL = "https://github.com/me/mine.git"

pytestmark = pytest.mark.usefixtures("isolated")


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("https://github.com/me/mine.git", ("github.com", "me/mine")),
        ("https://github.com/me/mine", ("github.com", "me/mine")),
        ("https://user:secret@GitHub.com/me/mine.git/", ("github.com", "me/mine")),
        ("http://127.0.0.1:8080/me/mine.git", ("127.0.0.1:8080", "me/mine")),
        ("git@github.com:me/mine.git", ("github.com", "me/mine")),
        ("ghe.example.com:me/mine", ("ghe.example.com", "me/mine")),
        ("ssh://git@github.com:22/me/my.tool.git", ("github.com", "me/my.tool")),
        ("https://gitlab.com/group/part/mine.git", None),
        ("/srv/git/mine.git", None),
        ("../mine.git", None),
        ("file:///srv/mine.git", None),
        ("", None),
    ],
)
def test_the_name_in_an_address(url, found):
    assert hosted_name(url) == found


@pytest.fixture
def cloned(tmp_path):
    """A repository with a branch to push, and its bare origin, as the user's settings find it."""
    folder, bare = tmp_path / "mine", tmp_path / "origin.git"
    folder.mkdir()
    own_repository(folder)
    git(folder, "init", "--quiet", "--bare", str(bare))
    git(folder, "commit", "--quiet", "--allow-empty", "-m", "x")
    git(folder, "remote", "add", "origin", URL)
    git(folder, "config", "--global", f"url.{bare}.insteadOf", URL)
    git(folder, "branch", "new")
    return folder, bare


def test_a_branch_is_pushed_by_the_settings_of_the_user(cloned):
    folder, bare = cloned
    assert remote_url(folder) == URL
    assert tip_there(folder, "new") is None
    push_new(folder, "new")
    assert tip_there(folder, "new") == git(folder, "rev-parse", "new").strip()
    assert git(bare, "for-each-ref", "--format=%(refname)") == "refs/heads/new\n"


def test_a_branch_is_pushed_to_the_address_that_is_for_pushes(cloned):
    folder, bare = cloned
    git(folder, "remote", "set-url", "origin", "https://github.com/them/mine.git")
    git(folder, "remote", "set-url", "--push", "origin", URL)
    push_new(folder, "new")
    assert tip_there(folder, "new")
    assert "refs/heads/new" in git(bare, "for-each-ref")


def test_what_others_pushed_meanwhile_stays(cloned):
    folder, bare = cloned
    push_new(folder, "new")
    before = git(bare, "for-each-ref")
    git(folder, "commit", "--quiet", "--allow-empty", "-m", "y")
    git(folder, "branch", "--force", "new")
    with fails("git.failed", "stale info|rejected"):
        push_new(folder, "new")
    assert git(bare, "for-each-ref") == before


def test_no_remote_and_no_branch(cloned, tmp_path):
    folder, _ = cloned
    assert current_branch(folder) == "main"
    git(folder, "switch", "--quiet", "--detach")
    assert current_branch(folder) is None
    git(folder, "remote", "remove", "origin")
    assert remote_url(folder) is None
    with fails("git.no-repository", "there is no remote origin"):
        push_new(folder, "new")
    assert (remote_url(tmp_path), current_branch(tmp_path), identity(tmp_path)) == (None,) * 3


MORE_SETTINGS = """
[remote "origin"]
    receivepack = {script}
    uploadpack = {script}
    vcs = evil
    proxy = http://127.0.0.1:9
    mirror = true
[url "ext::{script} "]
    insteadOf = https://
    pushInsteadOf = https://
[push]
    gpgSign = true
    recurseSubmodules = on-demand
[http]
    proxy = http://127.0.0.1:9
    sslCAInfo = {script}
[ssh]
    variant = simple
[includeIf "onbranch:**"]
    path = {pipe}
[include]
    path = {pipe}
"""


@pytest.fixture
def evil(cloned, script, tmp_path, monkeypatch):
    """The same with every setting and hook that names a program, and programs of those names."""
    folder, bare = cloned
    prepare(folder / ".git", folder, script)
    git(folder, "config", "--replace-all", "remote.origin.url", URL)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)  # a git that reads it waits for ever
    for name in ("pre-push", "push-to-checkout", "proc-receive", "sendemail-validate"):
        shutil.copy(script, folder / ".git" / "hooks" / name)
    for name in ("git-remote-evil", "git-remote-ext"):
        shutil.copy(script, script.parent / name)
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}:{script.parent}")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "nowhere"))
    monkeypatch.setenv("GIT_CONFIG", str(pipe))
    with (folder / ".git" / "config").open("a") as config:
        config.write(MORE_SETTINGS.format(script=script, pipe=pipe))
    return folder, bare


def test_nothing_that_the_repository_names_is_run(evil):
    folder, bare = evil
    assert remote_url(folder) == URL
    assert current_branch(folder) == "main"
    assert identity(folder) == ("Somebody", "s@example")
    assert tip_there(folder, "new") is None
    push_new(folder, "new")
    assert tip_there(folder, "new") == (bare / "refs/heads/new").read_text().strip()


@pytest.mark.parametrize(
    "url",
    [
        "ext::{script} %S",
        "fd::17",
        "evil::x",
        "evil://host/x",
        "transport+evil://host/x",
        "--upload-pack={script}",
        "--receive-pack={script}",
        "-oProxyCommand={script}:x",
        "ssh://-oProxyCommand={script}/x",
        "git@-oProxyCommand={script}:x",
    ],
)
def test_an_address_that_names_a_program_is_refused(cloned, script, url):
    folder, _ = cloned
    git(folder, "config", "--global", "protocol.allow", "always")
    git(folder, "config", "remote.origin.url", url.format(script=script))
    for act in (tip_there, push_new):
        with pytest.raises(VpatchError) as caught:
            act(folder, "new")
        assert caught.value.code in {"git.refused-address", "git.option-like-name"}
        assert caught.value.hint


@pytest.mark.parametrize("form", ["{}", "file://{}", "./evil.git", "./evil", "file:///.{}"])
def test_hooks_and_settings_of_a_repository_on_this_machine_do_not_count(cloned, script, form):
    """A project can have a whole repository among its files, and name that one as its origin."""
    folder, bare = cloned
    evil = folder / "evil.git"
    bare.rename(evil)
    prepare(evil, folder, script)
    for name in ("pre-receive", "update", "post-receive", "post-update"):
        shutil.copy(script, evil / "hooks" / name)
    git(folder, "config", "remote.origin.url", form.format(evil))
    assert tip_there(folder, "new") is None
    push_new(folder, "new")
    assert tip_there(folder, "new") == (evil / "refs/heads/new").read_text().strip()


def test_a_repository_on_this_machine_that_is_not_there(cloned):
    folder, _ = cloned
    git(folder, "config", "remote.origin.url", "../none.git")
    with fails("git.no-repository", "is not a git repository"):
        push_new(folder, "new")


def test_settings_of_the_user_for_some_repositories_count(cloned, tmp_path):
    """The user names another key or another email for the repositories of a folder."""
    folder, bare = cloned
    more = tmp_path / "more.config"
    more.write_text(f'[user]\n\temail = work@example\n[url "{bare}"]\n\tinsteadOf = work:x\n')
    git(folder, "config", "--global", f"includeIf.gitdir:{tmp_path}/.path", str(more))
    git(folder, "config", "--global", "user.name", "Me")
    git(folder, "config", "--unset", "user.email")
    git(folder, "config", "--unset", "user.name")
    git(folder, "config", "remote.origin.url", "work:x")
    assert identity(folder) == ("Me", "work@example")
    push_new(folder, "new")
    assert tip_there(folder, "new")


@pytest.mark.parametrize("key", ["GH_TOKEN", "GITHUB_TOKEN", "HF_TOKEN", "AWS_SECRET_ACCESS_KEY"])
def test_git_gets_no_token(cloned, tmp_path, monkeypatch, key):
    """Not even a helper of the user's own gets one, as any program of git's would."""
    folder, bare = cloned
    seen = tmp_path / "seen"
    helper = tmp_path / "receive"
    helper.write_text(f'#!/bin/sh\nenv >> {seen}\nexec git-receive-pack "$1"\n')
    helper.chmod(0o755)
    git(folder, "config", "--global", "remote.origin.receivepack", str(helper))
    monkeypatch.setenv(key, "s3cret-value")
    monkeypatch.setenv("COPY", "ghp_" + "s3cret" * 6)
    monkeypatch.setenv("DATABASE_URL", "https://me:s3cret@host/x")
    monkeypatch.setenv("SSH_AUTH_SOCK", "/run/agent")
    push_new(folder, "new")
    assert (bare / "refs/heads/new").exists()
    got = seen.read_text()
    assert "SSH_AUTH_SOCK=/run/agent" in got
    assert "s3cret" not in got


def test_a_repository_of_another_user_is_refused(cloned, monkeypatch):
    folder, _ = cloned
    uid = os.getuid()
    monkeypatch.delenv("SUDO_UID", raising=False)
    monkeypatch.setattr(os, "geteuid", lambda: uid + 1)
    for act in (tip_there, push_new):
        with fails("git.foreign-owner"):
            act(folder, "new")


@pytest.mark.parametrize("kind", ["alternates", "link", "link inside"])
def test_objects_of_another_repository_are_not_sent(cloned, tmp_path, kind):
    """Whoever made the repository may have named a private one, and a commit there."""
    folder, bare = cloned
    private, objects = tmp_path / "private", folder / ".git" / "objects"
    private.mkdir()
    own_repository(private)
    git(private, "commit", "--quiet", "--allow-empty", "-m", "secret")
    secret = git(private, "rev-parse", "HEAD").strip()
    theirs = private / ".git" / "objects"
    if kind == "link":
        shutil.rmtree(objects)
        objects.symlink_to(theirs)
    elif kind == "link inside":
        (objects / secret[:2]).symlink_to(theirs / secret[:2])
    else:
        (objects / "info").mkdir(exist_ok=True)
        (objects / "info" / "alternates").write_text(f"{theirs}\n")
    (folder / ".git/refs/heads/new").write_text(f"{secret}\n")
    with fails("git.borrowed-objects"):
        push_new(folder, "new")
    assert git(bare, "for-each-ref") == ""


def test_a_password_in_the_address_is_no_argument(cloned, monkeypatch):
    """Every user of the machine sees the arguments of a process."""
    folder, bare = cloned
    url = "https://me:hunter2@github.com/me/mine.git"
    git(folder, "config", "remote.origin.url", url)
    git(folder, "config", "--global", f"url.{bare}.insteadOf", url)
    commands = []
    run = subprocess.run

    def logged(command, **options):
        commands.append((command, options))
        return run(command, **options)

    monkeypatch.setattr(subprocess, "run", logged)
    push_new(folder, "new")
    assert (bare / "refs/heads/new").exists()
    assert "hunter2" not in str(commands)


def test_git_does_not_run_in_the_folder_of_the_project(cloned, tmp_path):
    """A credential helper of the user's may import what lies there."""
    folder, _ = cloned
    seen = tmp_path / "seen"
    helper = tmp_path / "receive"
    helper.write_text(f'#!/bin/sh\npwd >> {seen}\nexec git-receive-pack "$1"\n')
    helper.chmod(0o755)
    git(folder, "config", "--global", "remote.origin.receivepack", str(helper))
    push_new(folder, "new")
    assert str(folder) not in seen.read_text()
