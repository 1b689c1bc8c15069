"""A package index on 127.0.0.1, and small source archives to put there."""

from __future__ import annotations

import gzip
import hashlib
import io
import ssl
import tarfile
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

FILES = {
    "PKG-INFO": b"Metadata-Version: 2.1\nName: vllm\nVersion: 0.23.0\n",
    "vllm/__init__.py": b"x = 1\n",
    "vllm/models/llama.py": b"y = 2\n" * 500,
    "vllm/data.json": b"{}\n" * 300,
    "tests/test_x.py": b"assert True\n",
    "tools/run.sh": b"#!/bin/sh\r\n",
}


def member(name, data=b"", **facts):
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for key, value in facts.items():
        setattr(info, key, value)
    return info, data


def archive_of(members):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for info, data in members:
            tar.addfile(info, io.BytesIO(data))
    return gzip.compress(buffer.getvalue(), mtime=0)


def renamed(name):
    """The files of a distribution of another name, such as a plugin."""
    package = name.replace("-", "_")
    return {
        path.replace("vllm/", f"{package}/"): data.replace(b"Name: vllm", f"Name: {name}".encode())
        for path, data in FILES.items()
    }


def sdist(version="0.23.0", files=None, name="vllm"):
    top = f"{name}-{version}"
    chosen = renamed(name) if files is None else files
    return archive_of(
        [member(top, type=tarfile.DIRTYPE, mode=0o777)]
        + [
            member(f"{top}/{path}", data, mode=0o775 if path.endswith(".sh") else 0o664)
            for path, data in chosen.items()
        ]
    )


@dataclass
class Index:
    """`answers` overrides what a path gets.

    A status, a delay, an event to wait for, a body, or "cut" for half of the body. `headers`
    are further ones that a path gets.
    """

    archives: dict[str, bytes] = field(default_factory=dict)
    digests: dict[str, str | None] = field(default_factory=dict)
    yanked: set[str] = field(default_factory=set)
    answers: dict[str, object] = field(default_factory=dict)
    headers: dict[str, dict[str, str]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    authorized: list[str | None] = field(default_factory=list)
    url: str = ""

    def add(self, version="0.23.0", data=None, name="vllm"):
        self.archives[f"{name}-{version}.tar.gz"] = (
            sdist(version, name=name) if data is None else data
        )

    def page(self, project):
        links = []
        for name, data in self.archives.items():
            # The name of a wheel goes on behind the version.
            named = name.split("-")[0] if name.endswith(".whl") else name.rpartition("-")[0]
            if named.replace("_", "-") == project:
                digest = self.digests.get(name, hashlib.sha256(data).hexdigest())
                mark = ' data-yanked="broken"' if name in self.yanked else ""
                part = f"#sha256={digest}" if digest else ""
                links.append(f'<a href="../../files/{name}{part}"{mark}>{name}</a>')
        return "\n".join(links).encode() or None

    def count(self, part):
        return sum(part in path for path in self.asked)


def _handler(index):
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            index.asked.append(self.path)
            index.authorized.append(self.headers.get("Authorization"))
            answer = next((a for part, a in index.answers.items() if part in self.path), None)
            if isinstance(answer, float):
                time.sleep(answer)
            if isinstance(answer, threading.Event):
                answer.wait(20)
            name = self.path.rstrip("/").rpartition("/")[2]
            body = answer if isinstance(answer, bytes) else None
            if body is None:
                body = index.page(name) if "/simple/" in self.path else index.archives.get(name)
            status = answer if isinstance(answer, int) else 200 if body is not None else 404
            body = body or b"no"
            self.send_response(status)
            headers = {"Content-Type": "text/html", "Content-Length": str(len(body))}
            headers |= next((h for part, h in index.headers.items() if part in self.path), {})
            for header, value in headers.items():
                self.send_header(header, value)
            self.end_headers()
            self.wfile.write(body[: len(body) // 2] if answer == "cut" else body)

        def log_message(self, *args):
            pass

        def handle(self):
            with suppress(OSError):  # the client had enough
                super().handle()

    return Handler


@contextmanager
def serve(index, authority=None):
    """Serve an index; with an authority of trustme's, by https."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(index))
    if authority is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("127.0.0.1").configure_cert(context)
        # The handshake belongs to the thread of a request, and not to the one that takes requests.
        server.socket = context.wrap_socket(
            server.socket, server_side=True, do_handshake_on_connect=False
        )
    index.url = f"http{'s' if authority else ''}://127.0.0.1:{server.server_port}/simple"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield index
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
