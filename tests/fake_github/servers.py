"""The servers: the fake's own, and the one in front that clients speak to."""

from __future__ import annotations

import json
import select
import socket
import sys
import threading
import traceback
from contextlib import closing, contextmanager, suppress
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, unquote

from tests.fake_github.messages import Reply, Request


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # What is asked by many small requests is not to wait for the network's buffers.
    disable_nagle_algorithm = True

    def do_GET(self):
        self.answer()

    def do_POST(self):
        self.answer()

    def do_PATCH(self):
        self.answer()

    def do_PUT(self):
        self.answer()

    def do_DELETE(self):
        self.answer()

    def body(self):
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def send(self, status, headers, content):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def drop(self):
        self.close_connection = True
        with suppress(OSError):  # the client was quicker
            self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, *args):
        pass


# The number that the front gives to a request, so that it knows whether the fake got it.
NUMBER = "X-Front-Number"
# prism may lose a connection of its own before it asks the fake.
MOST_TRIES = 3


class Fake(Handler):
    def answer(self):
        self.server.contract.reached.add(self.headers.get(NUMBER))
        github = self.server.contract.github
        path, _, query = self.path.partition("?")
        content = self.body()
        request = Request(
            self.command,
            unquote(path),
            dict(parse_qsl(query, keep_blank_values=True)),
            {name.lower(): value for name, value in self.headers.items()},
            json.loads(content) if content else None,
        )
        # Links lead to where the client asked, which prism does not tell.
        host = self.headers.get("X-Forwarded-Host", self.headers["Host"])
        reply = github.answer(request, f"http://{host}")
        if reply == "hang":
            self.wait_for_end(github)
        if not isinstance(reply, Reply):
            self.drop()
            return
        text = isinstance(reply.body, str)
        kind = "text/html" if text else "application/json"
        headers = {"Content-Type": f"{kind}; charset=utf-8"} | reply.headers
        body = reply.body if text else json.dumps(reply.body)
        self.send(reply.status, headers, body.encode())

    def wait_for_end(self, github):
        while not github.ended.wait(0.02):
            if select.select([self.connection], [], [], 0)[0]:
                return  # the client has closed its side


class Front(Handler):
    """Hands requests on: REST to prism, GraphQL to the fake, since no description has it."""

    def answer(self):
        contract = self.server.contract
        github = contract.github
        body = self.body() or None
        for _ in range(MOST_TRIES):
            number = str(next(contract.numbers))
            reply = self.ask(contract, body, number)
            if reply is not None or number in contract.reached:
                break
        if reply is None:
            self.drop()
            return
        status, headers, content = reply
        if headers.get("Content-Type") == "application/problem+json":
            told = json.loads(content)
            if "stoplight.io/prism/errors" in told["type"]:
                github.violations.append(violation(self.command, self.path, told))
        kept = {
            name: value
            for name, value in headers.items()
            if name.lower() not in {"content-length", "connection", "keep-alive", "date"}
        }
        self.send(status, kept, content)

    def ask(self, contract, body, number):
        """The status, headers and content of the reply; None if none came."""
        port = contract.fake_port if self.path == "/graphql" else contract.prism_port
        headers = {name: value for name, value in self.headers.items() if name.lower() != "host"}
        headers |= {"X-Forwarded-Host": self.headers["Host"], "Connection": "close"}
        with closing(HTTPConnection("127.0.0.1", port)) as connection:
            connection.request(self.command, self.path, body, headers | {NUMBER: number})
            try:
                response = connection.getresponse()
            except ConnectionError:
                return None
            content = response.read()
        kind = response.getheader("Content-Type")
        if kind == "application/problem+json" and json.loads(content)["type"] == "FetchError":
            return None  # prism got no answer
        return response.status, response.headers, content


def violation(method, path, told):
    places = [
        f"{'.'.join(map(str, one['location']))}: {one['message']}"
        for one in told.get("validation", [])
    ]
    return "\n  ".join([f"{method} {path}: {told['title']}", *(places or [told["detail"]])])


class Server(ThreadingHTTPServer):
    def __init__(self, handler, contract):
        super().__init__(("127.0.0.1", 0), handler)
        self.contract = contract

    def handle_error(self, _request, _client):
        # With these, a client had enough.
        if not isinstance(sys.exception(), BrokenPipeError | ConnectionResetError):
            self.contract.github.violations.append(traceback.format_exc())


@contextmanager
def served(handler, contract):
    server = Server(handler, contract)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
