"""All that a GitHub knows during one test, and what it answers by that."""

from __future__ import annotations

import re
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.fake_github.messages import Refused, Reply, Request
from tests.fake_github.packages import SCHEMA, installed
from tests.fake_github.repository import Repository
from tests.fake_github.routes import routed

if TYPE_CHECKING:
    from tests.fake_github.faults import Fault


@dataclass
class GitHub:
    """`violations` are those of the published description, and failures of this fake itself."""

    url: str = ""
    plain_url: str = ""
    login: str = "octocat"
    tokens: set[str] = field(default_factory=lambda: {"ghp_test"})
    repositories: dict[str, Repository] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    rate_limit: int = 5000
    rate_remaining: int = 4990
    rate_reset: int = field(default_factory=lambda: int(time.time()) + 3600)
    ended: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add_repository(self, full_name, **facts):
        repository = Repository(full_name, **facts)
        if not repository.clone_url:
            repository.clone_url = f"https://github.com/{full_name}.git"
        self.repositories[full_name] = repository
        return repository

    def find(self, full_name):
        wanted = full_name.casefold()
        found = (one for name, one in self.repositories.items() if name.casefold() == wanted)
        return next(found, None)

    def count(self, method, path):
        """How many requests there were, by an expression that is found in their paths."""
        return sum(
            one.method == method and re.search(path, one.path) is not None for one in self.requests
        )

    def check(self):
        """To be asked at the end of each test: everything was as it is published."""
        assert not self.violations, "\n".join(self.violations)

    def fault(self, request):
        for fault in self.faults:
            if (
                fault.times > 0
                and fault.method == request.method
                and re.search(fault.path, request.path)
            ):
                fault.times -= 1
                return fault
        return None

    def answer(self, request, base):
        """A reply, or "hang" or "drop"."""
        with self.lock:
            self.requests.append(request)
            fault = self.fault(request)
            reply = None if fault and not fault.after else self.effect(request, base)
        if fault is not None:
            reply = fault.reply() if isinstance(fault.answer, int) else fault.answer
        if isinstance(reply, Reply):
            reply.headers = self.rate_headers() | reply.headers
        return reply

    def effect(self, request, base):
        try:
            self.authorize(request)
            if (request.method, request.path) == ("POST", "/graphql"):
                # Here and not above: it takes long to import, and few tests ask by it.
                from tests.fake_github.graphql import execute

                return Reply(200, execute(installed() / SCHEMA, self, request.body))
            return routed(self, request, base)
        except Refused as refused:
            return refused.reply

    def authorize(self, request):
        if request.token and request.token not in self.tokens:
            raise Refused(401)
        if not request.token and (request.method != "GET" or request.path == "/user"):
            raise Refused(401, message="Requires authentication")

    def rate_headers(self):
        return {
            "x-ratelimit-limit": str(self.rate_limit),
            "x-ratelimit-remaining": str(self.rate_remaining),
            "x-ratelimit-used": str(self.rate_limit - self.rate_remaining),
            "x-ratelimit-reset": str(self.rate_reset),
        }
