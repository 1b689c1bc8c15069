"""A small Hugging Face Hub on this machine, for the real client.

It answers as https://huggingface.co/docs/hub/api describes: what a repository has, its files by
ranges, and files of safetensors by a redirect to a second host, which must not get the token.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from pathlib import Path

COMMIT = "1234567890abcdef1234567890abcdef12345678"
TOKEN = "hf_secret_of_this_test"  # noqa: S105 - of no account
_MODEL = re.compile(r"/api/models/([^/]+/[^/]+)(?:/revision/(.+))?")
_FILE = re.compile(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)")
_TREE = re.compile(r"/api/models/([^/]+/[^/]+)/tree/([^/]+)")


@dataclass(frozen=True)
class Request:
    host: str
    method: str
    path: str
    authorization: str | None


@dataclass
class Hub:
    """`ends` are answers by path: (status, X-Error-Code), given so many times as are there."""

    repositories: dict[str, Path] = field(default_factory=dict)
    private: set[str] = field(default_factory=set)
    ends: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    ranges: bool = True
    cut: bool = False
    requests: list[Request] = field(default_factory=list)
    sent: int = 0
    url: str = ""
    elsewhere: str = ""

    def add(self, name, folder):
        self.repositories[name] = folder
        return name

    def of(self, host):
        return [one for one in self.requests if one.host == host]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub
    host: str

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        path = unquote(urlsplit(self.path).path)
        token = self.headers.get("authorization")
        self.hub.requests.append(Request(self.host, self.command, path, token))
        for start, ends in self.hub.ends.items():
            if path.startswith(start) and ends:
                status, code = ends.pop(0)
                return self._refuse(status, code)
        if self.host == "cdn":
            name, _, file = path.removeprefix("/").partition("//")
            return self._file(self.hub.repositories[name] / file)
        if match := _MODEL.fullmatch(path):
            return self._model(*match.groups())
        if match := _TREE.fullmatch(path):
            return self._tree(*match.groups())
        if match := _FILE.fullmatch(path):
            return self._resolve(*match.groups())
        return self._refuse(404, "")

    def _known(self, name, revision):
        hidden = name in self.hub.private and not self.headers.get("authorization")
        if name not in self.hub.repositories or hidden:
            self._refuse(401, "RepoNotFound")
        elif revision not in {None, "main", COMMIT}:
            self._refuse(404, "RevisionNotFound")
        else:
            return self.hub.repositories[name]
        return None

    def _model(self, name, revision):
        if folder := self._known(name, revision):
            files = [
                {"rfilename": path.name, "size": path.stat().st_size}
                for path in sorted(folder.iterdir())
            ]
            self._json({"id": name, "sha": COMMIT, "siblings": files})

    def _tree(self, name, revision):
        if folder := self._known(name, revision):
            self._json([
                {"type": "file", "path": one.name, "size": one.stat().st_size, "oid": _etag(one)}
                for one in sorted(folder.iterdir())
            ])  # fmt: skip

    def _resolve(self, name, revision, file):
        folder = self._known(name, revision)
        if folder is None:
            return
        path = folder / file
        if not path.is_file():
            self._refuse(404, "EntryNotFound")
            return
        about = {"X-Repo-Commit": COMMIT, "ETag": f'"{_etag(path)}"'}
        if path.suffix != ".safetensors":
            self._file(path, about)
            return
        self.send_response(302)
        about |= {"X-Linked-Size": str(path.stat().st_size), "X-Linked-Etag": f'"{_etag(path)}"'}
        about |= {"Location": f"{self.hub.elsewhere}/{name}//{file}", "Content-Length": "0"}
        self._end(about)

    def _file(self, path, about=None):
        size = path.stat().st_size
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("range") or "")
        first, last = 0, size - 1
        if asked and self.hub.ranges:
            first, last = int(asked[1]), min(int(asked[2]), size - 1)
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {first}-{last}/{size}")
        else:
            self.send_response(200)
        length = last - first + 1
        self._end({"Content-Length": str(length), **(about or {})})
        if self.command == "HEAD":
            return
        with path.open("rb") as file:
            file.seek(first)
            if self.hub.cut:
                length //= 2
                self.close_connection = True
            while length:
                piece = file.read(min(length, 1 << 16))
                try:
                    self.wfile.write(piece)
                except ConnectionError:
                    return
                self.hub.sent += len(piece)
                length -= len(piece)

    def _json(self, document):
        text = json.dumps(document).encode()
        self.send_response(200)
        self._end({"Content-Type": "application/json", "Content-Length": str(len(text))})
        self.wfile.write(text)
        self.hub.sent += len(text)

    def _refuse(self, status, code):
        self.send_response(status)
        self._end({"X-Error-Code": code, "Content-Length": "0"})

    def _end(self, headers):
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()


def _etag(path):
    return hashlib.sha256(path.name.encode()).hexdigest()


@contextmanager
def running():
    """Serve a Hub, and the second host that has its large files."""
    hub = Hub()
    servers = []
    for host in ("hub", "cdn"):
        handler = type("Handler", (_Handler,), {"hub": hub, "host": host})
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
    hub.url, hub.elsewhere = (f"http://127.0.0.1:{one.server_address[1]}" for one in servers)
    # Another name: a client sends a token to another port of one host, too.
    hub.elsewhere = hub.elsewhere.replace("127.0.0.1", "localhost")
    try:
        yield hub
    finally:
        for server in servers:
            server.shutdown()
            server.server_close()
