"""Where a server is told to listen."""

from __future__ import annotations

import socket
from pathlib import Path

from vpatch.smoke import launch
from vpatch.smoke.launch import free_port


def test_a_port_that_is_given_to_nobody_who_asks_for_any():
    """A server binds seconds after it was told where: until then, the kernel must not give it."""
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert all(free_port(None) < lowest for _ in range(50))


def test_two_that_choose_at_once_do_not_choose_the_same():
    assert len({free_port(None) for _ in range(10)}) > 5


def test_a_port_that_is_in_use_is_not_chosen(monkeypatch):
    port = free_port(None)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        monkeypatch.setattr(launch, "_PORTS", range(port, port + 2))
        assert {free_port(None) for _ in range(10)} == {port + 1}
        assert free_port(port) is None
