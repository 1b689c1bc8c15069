"""Where a token comes from, and to whom it is not sent."""

from __future__ import annotations

import stat

import pytest

from tests.helpers import fails
from vpatch.github.tokens import find_token, host_named, is_named, web_host

PUBLIC = "https://api.github.com"
GHES = "https://git.example.com/api/v3"
VALUE = "ghp_secret"
pytestmark = pytest.mark.usefixtures("nobody")


@pytest.fixture
def nobody(tmp_path, monkeypatch):
    """A user with neither gh nor credentials."""
    home = tmp_path / "home"
    (home / "bin").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("PATH", f"{home / 'bin'}:/usr/bin:/bin")
    for name in ("GH_TOKEN", "GITHUB_TOKEN", "GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    return home


def script(path, text):
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_nobody_has_one():
    assert find_token(PUBLIC, {}) is None


@pytest.mark.parametrize(
    ("api", "environment", "source"),
    [
        (PUBLIC, {"GH_TOKEN": VALUE, "GITHUB_TOKEN": "other"}, "GH_TOKEN"),
        (PUBLIC, {"GH_TOKEN": "", "GITHUB_TOKEN": VALUE}, "GITHUB_TOKEN"),
        ("https://api.corp.ghe.com", {"GH_TOKEN": VALUE}, "GH_TOKEN"),
        (GHES, {"GH_ENTERPRISE_TOKEN": VALUE}, "GH_ENTERPRISE_TOKEN"),
        (GHES, {"GITHUB_ENTERPRISE_TOKEN": VALUE}, "GITHUB_ENTERPRISE_TOKEN"),
        # On a runner of GitHub Enterprise.
        (GHES, {"GITHUB_TOKEN": VALUE, "GITHUB_API_URL": GHES}, "GITHUB_TOKEN"),
    ],
)
def test_of_the_environment(api, environment, source):
    found = find_token(api, environment, [web_host(api)])
    assert (found.value, found.source) == (VALUE, source)
    assert VALUE not in repr(found)


@pytest.mark.parametrize(
    ("api", "environment"),
    [
        (GHES, {"GH_TOKEN": VALUE, "GITHUB_TOKEN": VALUE}),
        (PUBLIC, {"GH_ENTERPRISE_TOKEN": VALUE}),
        ("https://api.github.com.evil.example", {"GH_TOKEN": VALUE}),
        ("https://notgithub.com", {"GH_TOKEN": VALUE}),
    ],
)
def test_of_another_host(api, environment):
    assert find_token(api, environment, [web_host(api)]) is None


@pytest.mark.parametrize(
    "api", [GHES, "https://api.corp.ghe.com", "https://evil.example", "http://127.0.0.1:1"]
)
def test_a_host_that_only_a_project_names_gets_no_token(api, nobody):
    """Neither the variables', nor that of a helper which asks no questions."""
    names = ("GH_TOKEN", "GITHUB_TOKEN", "GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN")
    (nobody / ".gitconfig").write_text(
        f"[credential]\n\thelper = \"!printf 'username=x\\npassword={VALUE}\\n'\"\n"
    )
    environment = dict.fromkeys(names, VALUE) | {"GITHUB_API_URL": PUBLIC, "GH_HOST": "git.other"}
    assert find_token(api, environment) is None
    assert find_token(api, environment, ["git.example.com.evil", "example"]) is None
    assert not is_named(api, environment)
    # The helper is there, and would answer.
    assert find_token(PUBLIC, {}).value == VALUE


@pytest.mark.parametrize(
    ("environment", "hosts"),
    [
        ({"GH_HOST": "git.example.com"}, []),
        ({"GH_HOST": "GIT.example.com"}, []),
        ({"GITHUB_API_URL": f"{GHES}/"}, []),
        ({}, ["git.example.com"]),
    ],
)
def test_a_host_that_the_user_names_gets_one(environment, hosts):
    tokens = {"GH_ENTERPRISE_TOKEN": VALUE, "GITHUB_TOKEN": VALUE}
    assert is_named(GHES, environment, hosts)
    assert find_token(GHES, tokens | environment, hosts).value == VALUE


def test_a_login_of_gh_names_a_host(nobody, monkeypatch):
    script(
        nobody / "bin" / "gh",
        f'[ "$*" = "auth token --hostname git.example.com" ] && echo "$GH_ENTERPRISE_TOKEN"{VALUE}',
    )
    # gh would answer with the variable for any host.
    monkeypatch.setenv("GH_ENTERPRISE_TOKEN", "other")
    found = find_token(GHES)
    assert (found.value, found.source) == (VALUE, "gh")


@pytest.mark.parametrize(
    ("typed", "host"),
    [
        ("git.example.com", "git.example.com"),
        ("https://Git.Example.com/api/v3", "git.example.com"),
        ("https://api.corp.ghe.com", "corp.ghe.com"),
        ("127.0.0.1:81", "127.0.0.1:81"),
    ],
)
def test_a_host_as_a_user_types_it(typed, host):
    assert host_named(typed) == host


@pytest.mark.parametrize("typed", ["", "*", "a b", "me@git.example.com", "https://", "https://[x"])
def test_what_is_no_host(typed):
    with fails("github.wrong-host"):
        host_named(typed)


def test_of_gh_for_that_host(nobody):
    script(nobody / "bin" / "gh", f'[ "$*" = "auth token --hostname github.com" ] && echo {VALUE}')
    found = find_token(PUBLIC, {})
    assert (found.value, found.source) == (VALUE, "gh")
    assert find_token(GHES, {}) is None


def test_gh_that_fails_is_passed_over(nobody):
    script(nobody / "bin" / "gh", "echo not logged in; exit 1")
    assert find_token(PUBLIC, {}) is None


def test_of_gits_helper_for_that_host(nobody):
    helper = script(
        nobody / "bin" / "git-credential-mine",
        f'grep -q host=github.com && printf "username=x\\npassword={VALUE}\\n"',
    )
    (nobody / ".gitconfig").write_text(f"[credential]\n\thelper = {helper}\n")
    found = find_token(PUBLIC, {})
    assert (found.value, found.source) == (VALUE, "git's credential helper")
    assert find_token(GHES, {}) is None


def test_nobody_is_asked_at_a_terminal(nobody):
    asked = nobody / "asked"
    ask = script(nobody / "bin" / "ask", f"touch {asked}; echo typed")
    (nobody / ".gitconfig").write_text(f"[core]\n\taskPass = {ask}\n")
    assert find_token(PUBLIC, {}) is None
    assert not asked.exists()


def test_never_in_the_clear():
    api = "http://git.example.com/api/v3"
    with fails("github.insecure-address") as caught:
        find_token(api, {"GH_ENTERPRISE_TOKEN": VALUE}, ["git.example.com"])
    assert VALUE not in str(caught.value)
    local = find_token("http://127.0.0.1:1", {"GH_ENTERPRISE_TOKEN": VALUE}, ["127.0.0.1:1"])
    assert local.value == VALUE


def test_the_host_that_people_know():
    assert web_host(PUBLIC) == "github.com"
    assert web_host(GHES) == "git.example.com"
    assert web_host("http://127.0.0.1:81") == "127.0.0.1:81"
