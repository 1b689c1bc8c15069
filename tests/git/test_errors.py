"""What git, curl and ssh print decides whether a retry may help."""

from __future__ import annotations

import os

import pytest

from tests.helpers import fails
from tests.http_server import answering
from vpatch.errors import ExitCode
from vpatch.git import remote
from vpatch.git.errors import failure

URL = "https://example.org/my_ssl_gnutls_early EOF.git"
UNABLE = f"fatal: unable to access '{URL}/': "


@pytest.mark.parametrize(
    "stderr",
    [
        f"fatal: repository '{URL}/' not found",
        "fatal: repository 'https://h/it's_ssl_.git/' not found",
        "error: cannot read https://h/my_ssl_fork.git/info/refs",
        "fatal: 'my_ssl_fork.git' does not appear to be a git repository",
        *(f"{UNABLE}The requested URL returned error: {n}" for n in (400, 401, 403, 404, 410)),
        "error: RPC failed; HTTP 403\nfatal: the remote end hung up unexpectedly",
        f"{UNABLE}Received HTTP code 407 from proxy after CONNECT",
        f"{UNABLE}CONNECT tunnel failed, response 403",
    ],
)
def test_what_a_retry_does_not_cure(stderr):
    error = failure("git ls-remote", 128, stderr, remote=True)
    assert (error.code, error.exit_code) == ("git.failed", ExitCode.FINDINGS)


@pytest.mark.parametrize(
    "stderr",
    [
        *(f"{UNABLE}The requested URL returned error: {n}" for n in (408, 429, 500, 503)),
        f"{UNABLE}OpenSSL SSL_read: SSL_ERROR_SYSCALL, errno 104",
        f"{UNABLE}gnutls_handshake() failed: Error in the pull function.",
        f"{UNABLE}Failed to connect to h port 443 after 1 ms: Couldn't connect to server",
        f"{UNABLE}Could not resolve host: 'h'",
        "ssh: connect to host h port 22: Connection refused\nfatal: Could not read from remote.",
        "error: RPC failed; curl 92 HTTP/2 stream 5 was not closed cleanly\nfatal: early EOF",
    ],
)
def test_what_a_retry_may_cure(stderr):
    error = failure("git ls-remote", 128, stderr, remote=True)
    assert (error.code, error.exit_code) == ("git.remote-unreachable", ExitCode.ENVIRONMENT)


@pytest.mark.parametrize(
    ("status", "code"),
    [
        *((403, "git.failed"), (404, "git.failed")),
        *((429, "git.remote-unreachable"), (503, "git.remote-unreachable")),
    ],
)
def test_a_server_that_answers_with_a_status(status, code, monkeypatch):
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    with answering(lambda _path: (status, b"")) as port, fails(code):
        remote.resolve_ref(f"http://127.0.0.1:{port}/my_ssl_fork.git", "main")


def test_a_full_disk_is_an_error_of_the_machine_but_not_if_it_is_that_of_a_remote():
    stderr = "fatal: unable to write loose object file: No space left on device"
    error = failure("git add", 128, stderr, remote=False)
    assert (error.code, error.exit_code) == ("git.disk", 4)
    assert failure("git push", 1, f"remote: {stderr}", remote=True).code == "git.failed"
