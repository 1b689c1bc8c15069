"""Where a server is told to listen."""

from __future__ import annotations

import socket
import subprocess
import sys

from tests.helpers import fails
from vpatch.harness import launch
from vpatch.harness.launch import free_port

# The first, unless the machine was told otherwise (ip(7), ip_local_port_range).
LINUX_GIVES = 32768


def test_a_port_that_is_given_to_nobody_who_asks_for_any():
    """A server binds seconds after it was told where: until then, the kernel must not give it."""
    assert all(free_port(None) < LINUX_GIVES for _ in range(50))


def test_two_that_choose_at_once_do_not_choose_the_same():
    code = "from vpatch.harness.launch import free_port; print([free_port(None) for _ in range(3)])"
    command = [sys.executable, "-c", code]
    one, other = (
        subprocess.run(command, check=True, capture_output=True, text=True).stdout for _ in "ab"
    )
    assert len(one) > 10
    assert one != other


def test_a_port_that_a_server_has_bound_and_is_not_listening_on_yet(monkeypatch):
    """As vLLM does while it loads; a second one would share it, and get half of the requests."""
    port = free_port(None)
    with socket.socket() as loading:
        loading.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        loading.bind(("127.0.0.1", port))
        monkeypatch.setattr(launch, "_PORTS", range(port, port + 1))
        with fails("harness.no-free-port", f"no port from {port} to {port}") as caught:
            free_port(None)
    assert caught.value.hint == "give --port"


def test_a_port_that_is_in_use_is_not_chosen(monkeypatch):
    port = free_port(None)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        monkeypatch.setattr(launch, "_PORTS", range(port, port + 2))
        assert {free_port(None) for _ in range(10)} == {port + 1}
        assert free_port(port) is None
