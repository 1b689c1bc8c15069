"""Addresses of clusters, and what comes of wrong ones."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.helpers import fails
from vpatch.cluster import connection
from vpatch.cluster.connection import address_of, connected
from vpatch.cluster.errors import ClusterError
from vpatch.errors import UsageError


@pytest.mark.parametrize(
    ("typed", "address"),
    [
        ("auto", "auto"),
        ("local", "local"),
        ("ray://head", "ray://head:10001"),
        ("ray://10.0.0.1:9", "ray://10.0.0.1:9"),
        ("ray://[fd00::1]", "ray://[fd00::1]:10001"),
        ("head:6379", "head:6379"),
    ],
)
def test_an_address_as_ray_takes_it(typed, address):
    assert address_of(typed) == address


@pytest.mark.parametrize(
    "typed", ["", "head", "http://head", "ray://", "head:port", "ray://u@head"]
)
def test_what_is_no_address(typed):
    with pytest.raises(UsageError) as error:
        address_of(typed)
    assert error.value.code == "cluster.bad-address"


@pytest.mark.parametrize(
    "typed",
    [
        "ray://user:word@head",
        "user:word@head:1",
        "word@head:1",
        "http://user:word@head/",
        "ray://head?token=word",
    ],
)
def test_a_password_in_an_address_is_not_shown(typed):
    with pytest.raises(UsageError) as error:
        address_of(typed)
    assert "word" not in str(error.value)


@pytest.mark.parametrize("host", ["a" * 64, "a..b"])
def test_a_name_that_no_host_has(host):
    with pytest.raises(ClusterError) as error, connected(f"ray://{host}"):
        pass
    assert error.value.code == "cluster.not-found"


def test_the_workers_of_ray_import_nothing_from_the_folder_of_the_project(tmp_path, monkeypatch):
    """Ray puts the current folder at the start of the path of each worker."""
    folders = []
    monkeypatch.setattr("ray.init", lambda *_args, **_settings: folders.append(Path.cwd()))
    monkeypatch.chdir(tmp_path)
    connection._open("auto", {})
    assert (folders, Path.cwd()) == ([Path("/")], tmp_path)


def test_auto_takes_no_cluster_of_another_user(tmp_path, monkeypatch):
    """Anyone can write to /tmp, or start a process that looks like Ray's."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    monkeypatch.setattr("ray.init", lambda *_args, **_settings: pytest.fail("it connects"))
    monkeypatch.setattr(connection, "_trusted_users", lambda: {-1})
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray/ray_current_cluster").write_text("evil:1")
    with fails("cluster.of-another-user"), connected("auto"):
        pass


@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_nobody_listens_there(scheme):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"{scheme}127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ClusterError) as error, connected(address):
            pass
    assert error.value.code == "cluster.not-found"
    assert "no Ray cluster answers" in error.value.what
    assert error.value.exit_code == 4


def test_this_machine_is_no_node(monkeypatch):
    def init(*_args, **_settings):
        raise ConnectionError("Could not find any running Ray instance.\nPlease start one.")

    monkeypatch.setattr("ray.init", init)
    with pytest.raises(ClusterError) as error, connected("auto"):
        pass
    assert error.value.code == "cluster.not-found"
    assert error.value.what.endswith("Could not find any running Ray instance.")


def test_rays_handler_of_sigterm_does_not_stay(monkeypatch):
    import signal

    ours = signal.getsignal(signal.SIGTERM)

    def init(*_args, **_settings):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)

    monkeypatch.setattr("ray.init", init)
    connection._open("auto", {})
    assert signal.getsignal(signal.SIGTERM) == ours


@pytest.mark.parametrize(("failures", "tries"), [(0, 1), (2, 3), (3, 3)])
def test_a_client_asks_again_for_a_server_that_died(monkeypatch, failures, tries):
    """Ray starts a server for each client; on a busy machine it may die as it starts."""
    asked = []

    def init(*_args, **_settings):
        asked.append(1)
        if len(asked) <= failures:
            raise ConnectionAbortedError("Initialization failure from server:\nPID is a zombie")

    monkeypatch.setattr("ray.init", init)
    if failures < tries:
        connection._open("ray://head:1", {})
    else:
        with fails("cluster.not-found", "PID is a zombie"):
            connection._open("ray://head:1", {})
    assert len(asked) == tries


def test_another_failure_is_told_at_once(monkeypatch):
    asked = []

    def init(*_args, **_settings):
        asked.append(1)
        raise ConnectionAbortedError("the server is shutting down")

    monkeypatch.setattr("ray.init", init)
    with fails("cluster.not-found", "shutting down"):
        connection._open("ray://head:1", {})
    assert asked == [1]
