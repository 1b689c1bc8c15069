"""What an engine says becomes an error with a code; the messages are those of Docker Engine 28."""

from __future__ import annotations

import io
import json
import tarfile
from contextlib import closing, contextmanager
from types import SimpleNamespace

import pytest
import requests
from docker.errors import APIError

from tests.helpers import fails
from tests.http_server import answering
from vpatch.docker import container
from vpatch.docker.build import Build
from vpatch.docker.buildkit import started
from vpatch.docker.container import Container
from vpatch.docker.engine import Docker
from vpatch.docker.errors import asking, no_image
from vpatch.errors import ExitCode

REGISTRY = 'Get "https://registry-1.docker.io/v2/": '
FULL = "write /var/lib/docker/tmp/GetImageBlob1: no space left on device"


@pytest.mark.parametrize(
    ("why", "code"),
    [
        ("manifest for a/b:1 not found: manifest unknown", "docker.no-such-image"),
        ("pull access denied for a/b, repository does not exist", "docker.no-such-image"),
        ("no matching manifest for linux/s390x in the manifest list", "docker.no-such-image"),
        (
            f"{REGISTRY}dial tcp: lookup registry-1.docker.io: no such host",
            "docker.registry-unreachable",
        ),
        (f"{REGISTRY}net/http: TLS handshake timeout", "docker.registry-unreachable"),
        (
            f"{REGISTRY}context deadline exceeded (Client.Timeout exceeded)",
            "docker.registry-unreachable",
        ),
        (
            "read tcp 10.0.0.2:1->10.0.0.3:443: connection reset by peer",
            "docker.registry-unreachable",
        ),
        ("toomanyrequests: You have reached your pull rate limit", "docker.registry-unreachable"),
        (FULL, "docker.disk-full"),
    ],
)
def test_an_image_that_cannot_be_pulled(why, code):
    error = no_image("a/b:1", f"{why}\n")
    assert (error.code, error.where) == (code, "a/b:1")
    assert error.what.endswith(why)
    is_missing = code == "docker.no-such-image"
    assert error.exit_code == (ExitCode.FINDINGS if is_missing else ExitCode.ENVIRONMENT)


@pytest.mark.parametrize(("said", "code"), [(FULL, "docker.disk-full"), ("EOF", "docker.failed")])
def test_an_engine_that_fails(said, code):
    with fails(code) as caught, asking("a/b:1"):
        raise APIError("500 Server Error", explanation=said)
    assert (caught.value.what, caught.value.exit_code) == (said, ExitCode.ENVIRONMENT)


@contextmanager
def engine(status, message):
    """Serve the API of an engine that answers each request but `version` with this status."""
    version = {"ApiVersion": "1.48", "Os": "linux", "Arch": "amd64"}

    def answer(path):
        if path.endswith("/version"):
            return 200, json.dumps(version).encode()
        return status, json.dumps({"message": message}).encode()

    with answering(answer) as port:
        yield f"tcp://127.0.0.1:{port}"


@pytest.mark.parametrize(
    ("status", "code", "exit_code"),
    [
        *((status, "docker.refused", ExitCode.FINDINGS) for status in (400, 401, 403, 405)),
        # A conflict may pass: another process works on the same container or image.
        *((status, "docker.failed", ExitCode.ENVIRONMENT) for status in (408, 409, 429, 500, 503)),
    ],
)
def test_an_engine_that_answers_with_a_status(monkeypatch, status, code, exit_code):
    for name in ("DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with engine(status, "invalid reference format") as where:
        monkeypatch.setenv("DOCKER_HOST", where)
        with closing(Docker()) as docker, fails(code) as caught:
            docker.image("Bad Name")
    error = caught.value
    assert (error.what, error.where) == ("invalid reference format", "Bad Name")
    assert error.exit_code == exit_code


def test_a_refusal_for_a_full_disk():
    answer = requests.Response()
    answer.status_code = 400
    with fails("docker.disk-full") as caught, asking("a/b:1"):
        raise APIError("400 Client Error", response=answer, explanation=FULL)
    assert caught.value.exit_code == ExitCode.ENVIRONMENT


@pytest.mark.parametrize(
    ("line", "code", "exit_code"),
    [
        ("ERROR: failed to solve: no space left on device", "docker.disk-full", 4),
        ("ERROR: BuildKit is enabled but the buildx component is missing", "docker.no-buildkit", 4),
        ("exec /bin/sh: exec format error", "docker.build-failed", 1),
        ("error: Could not find a version of torch", "docker.build-failed", 1),
    ],
)
def test_a_build_that_fails(tmp_path, line, code, exit_code):
    engine = SimpleNamespace(platform="linux/amd64", _data=lambda: "/var/lib/docker")
    with (tmp_path / "log").open("w+b") as log:
        log.write(f"Step 1/2 : RUN it\n{line}\n".encode())
        error = Docker.failed(engine, "docker build ended with 1", log)
    assert (error.code, error.exit_code) == (code, exit_code)
    assert line in error.what
    assert "Step 1/2" not in error.what


def test_buildkit_without_dockers_command_line(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    build = Build(tmp_path, tmp_path / "Dockerfile", secrets=("id=a",))
    with fails("docker.no-buildkit"), started(build, tmp_path / "id", "unix:///none"):
        pytest.fail("it starts")


def test_a_file_of_a_container_that_is_too_large(monkeypatch):
    monkeypatch.setattr(container, "_LARGEST", 100)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("lock"))
    api = SimpleNamespace(get_archive=lambda *_: ([packed.getvalue()], {}))
    with fails("docker.file-too-large"):
        Container(api, "c").read("/opt/vpatch/lock")
