"""A server that sends what a test says, byte for byte: real servers send no broken answers."""

from __future__ import annotations

import itertools
import socket
import socketserver
import threading
from contextlib import contextmanager, suppress


@contextmanager
def sending(pieces):
    """Serve on this machine, and give the port.

    `pieces(path)` returns the pieces of an answer, with its head. A float is a pause in seconds.
    """
    over = threading.Event()

    class Handler(socketserver.StreamRequestHandler):
        def handle(self):
            path = self.rfile.readline().split()[1].decode()
            while self.rfile.readline().strip():
                pass
            with suppress(OSError):
                for piece in pieces(path):
                    if over.is_set():
                        return
                    if isinstance(piece, float):
                        over.wait(piece)
                    else:
                        self.request.sendall(piece)
                self.request.shutdown(socket.SHUT_WR)

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        allow_reuse_address = True

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            over.set()
            server.shutdown()
            thread.join()


def head(status="200 OK", **headers):
    lines = [f"HTTP/1.1 {status}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "Connection: close", "", ""]).encode()


def for_ever(*pieces):
    """The pieces again and again; a limit keeps a broken guard from filling the memory."""
    return itertools.islice(itertools.cycle(pieces), 20_000)


def dripping(text, pause=0.02):
    """A byte now and then: each comes in time, and all of them take minutes."""
    return (one for byte in text for one in (bytes([byte]), pause))
