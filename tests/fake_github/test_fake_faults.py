"""The fake fails as it is told, and the published description is really asked."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import psutil
import pytest
import requests
from github import GithubException, RateLimitExceededException

from tests.fake_github import Fault, packages
from tests.fake_github.asking import UPSTREAM, create, post, queried
from tests.fake_github.contract import Contract
from tests.fake_github.rest import Rest
from tests.fake_github.servers import NUMBER, Front, Handler, served
from tests.waiting import until

# Faults


@pytest.mark.usefixtures("upstream")
def test_limits(github, client):
    github.faults = [
        Fault.rate_limited("GET", "/user$", 4102444800),
        Fault.secondary_limit("GET", "/user$", 60),
        Fault("GET", "/user$", 429, {"message": "Too many"}, {"retry-after": "1"}),
    ]
    told = []
    for _ in range(2):
        with pytest.raises(RateLimitExceededException) as limited:
            client.get_user().login  # noqa: B018
        told.append(limited.value.headers)
    assert (told[0]["x-ratelimit-remaining"], told[0]["x-ratelimit-reset"]) == ("0", "4102444800")
    assert told[1]["retry-after"] == "60"
    with pytest.raises(GithubException) as limited:
        client.get_user().login  # noqa: B018
    assert limited.value.status == 429
    assert client.get_user().login == "octocat"
    assert github.count("GET", "/user$") == 4


@pytest.mark.parametrize("status", [401, 403, 404, 500, 502, 503])
def test_a_status(github, connect, status):
    github.faults = [Fault("GET", "/user$", status)]
    with pytest.raises(GithubException) as failed:
        connect(github.plain_url).get_user().login  # noqa: B018
    assert failed.value.status == status
    assert connect(github.plain_url).get_user().login == "octocat"


def test_an_answer_that_is_no_json(github, connect):
    github.faults = [Fault("GET", "/user$", 502, "<html>Unicorn!</html>")]
    with pytest.raises(GithubException) as failed:
        connect(github.plain_url).get_user().login  # noqa: B018
    assert failed.value.status == 502
    assert "Unicorn" in str(failed.value.data)


def test_a_refusal_is_by_the_description(github, ours):
    github.faults = [Fault.invalid("POST", "/pulls$", "Drafts are not supported.")]
    with pytest.raises(GithubException) as refused:
        create(ours)
    assert refused.value.data["errors"][0]["message"] == "Drafts are not supported."


@pytest.mark.parametrize("where", ["url", "plain_url"])
@pytest.mark.parametrize("answer", ["drop", "hang"])
@pytest.mark.parametrize("after", [False, True])
def test_no_answer(github, upstream, where, answer, after):
    github.faults = [Fault("POST", "/pulls$", answer, after=after)]
    failure = requests.ReadTimeout if answer == "hang" else requests.ConnectionError
    asked = {"title": "Title", "head": "octocat:vpatch/x", "base": "main"}
    with pytest.raises(failure):
        # What is dropped may take its time; what hangs does so for any time.
        post(getattr(github, where), "/pulls", asked, timeout=0.3 if answer == "hang" else 60)
    until(lambda: (13 in upstream.threads) == after)


@pytest.mark.parametrize("where", ["url", "plain_url"])
@pytest.mark.usefixtures("upstream")
def test_no_answer_by_graphql(github, connect, where):
    client = connect(getattr(github, where))
    github.faults = [Fault("POST", "/graphql$", "drop"), Fault("POST", "/graphql$", 502)]
    with pytest.raises(requests.ConnectionError):
        queried(client)
    with pytest.raises(GithubException) as failed:
        queried(client)
    assert failed.value.status == 502
    assert queried(client)["repository"]["pullRequests"]["totalCount"] == 0


# The contract


def noticed(github):
    """What the fixture would fail with; taken from it, so that this test does not."""
    with pytest.raises(AssertionError) as failure:
        github.check()
    github.violations.clear()
    return str(failure.value)


@pytest.mark.usefixtures("upstream")
def test_a_wrong_request_is_noticed(github):
    answer = post(github.url, "/pulls", {"title": "Title", "base": "main"})
    assert answer.status_code == 422
    assert not github.requests
    assert "body: Request body must have required property 'head'" in noticed(github)


@pytest.mark.usefixtures("upstream")
def test_an_unknown_path_is_noticed(github):
    assert post(github.url, "/pullz", {}).status_code == 404
    assert f"POST /repos/{UPSTREAM}/pullz" in noticed(github)


def test_a_wrong_answer_is_noticed(github, ours, monkeypatch):
    def without_number(rest, repository, thread):
        shown = complete(rest, repository, thread)
        del shown["number"]
        return shown

    complete = Rest.shown_pull
    monkeypatch.setattr(Rest, "shown_pull", without_number)
    with pytest.raises(GithubException):
        ours.get_pull(12)
    assert "response.body: Response body must have required property 'number'" in noticed(github)


def test_a_failure_of_the_fake_is_noticed(github, ours, monkeypatch):
    monkeypatch.setattr(Rest, "shown_pull", None)
    with pytest.raises(requests.ConnectionError):
        ours.get_pull(12)
    assert "TypeError" in noticed(github)


# What is installed


NPM = """#!/bin/sh
mkdir -p "$3/node_modules"
exit {status}
"""


@pytest.fixture
def install(monkeypatch, tmp_path):
    """An install with a stand-in for npm, or with none, and the folder where it installs."""

    def install(status=None):
        if status is not None:
            npm = tmp_path / "bin/npm"
            npm.parent.mkdir()
            npm.write_text(NPM.format(status=status))
            npm.chmod(0o755)
        return packages.installed.__wrapped__()

    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(packages, "CACHE", tmp_path / "cache")
    return install


def test_what_is_installed_is_kept(install, tmp_path):
    folder = install(status=0)
    assert (folder / "node_modules").is_dir()
    assert list((tmp_path / "cache").iterdir()) == [folder]
    assert folder.name == "23.0.2-15.26.1-5.14.2-2.0.6"
    (tmp_path / "bin/npm").unlink()
    assert install() == folder


def test_an_install_that_fails_leaves_nothing(install, tmp_path):
    with pytest.raises(subprocess.CalledProcessError):
        install(status=1)
    assert not list((tmp_path / "cache").iterdir())


def test_without_npm(install, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    with pytest.raises(pytest.fail.Exception, match="no npm"):
        install()


# What is left behind

SESSION = """
import sys
from pathlib import Path
from tests.fake_github.contract import Contract

with Contract().running(Path(sys.argv[1])):
    pass
"""


def started(session):
    """The prism that a session has started, which does not listen yet."""

    def node():
        children = psutil.Process(session.pid).children()
        return next((process for process in children if process.name() == "node"), None)

    return until(node, process=session)


def gone(process):
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.mark.usefixtures("github")  # only where it is installed
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_prism_ends_with_the_session(tmp_path, how):
    session = subprocess.Popen(
        [sys.executable, "-c", SESSION, str(tmp_path)],
        cwd=Path(__file__).parents[2],
        stderr=subprocess.DEVNULL,
    )
    with session:
        prism = started(session)
        session.send_signal(how)
    until(lambda: gone(prism))


@pytest.mark.parametrize(("reaches", "tries"), [(False, 2), (True, 1)])
def test_a_request_that_prism_loses_is_sent_again(reaches, tries):
    class Losing(Handler):
        """Gives no answer the first time, whether or not the fake has the request by then."""

        def answer(self):
            asked.append(self.headers[NUMBER])
            if len(asked) == 1:
                contract.reached.update(asked if reaches else [])
                self.drop()
            else:
                self.send(200, {}, b"{}")

    asked = []
    contract = Contract()
    with (
        served(Losing, contract) as contract.prism_port,
        served(Front, contract) as port,
        pytest.raises(requests.ConnectionError) if reaches else nullcontext(),
    ):
        assert requests.get(f"http://127.0.0.1:{port}/user", timeout=60).json() == {}
    assert len(asked) == tries
