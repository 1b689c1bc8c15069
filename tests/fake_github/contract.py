"""GitHub on 127.0.0.1: its state, its two APIs, and its published description in front of them.

A client of `url` speaks to `Front`, and REST goes from there through prism to `Fake`: prism holds
every request and every answer against GitHub's OpenAPI description. `plain_url` is `Fake` itself.
"""

from __future__ import annotations

from contextlib import contextmanager
from itertools import count

from tests.fake_github.prism import prism
from tests.fake_github.servers import Fake, Front, served
from tests.fake_github.state import GitHub


class Contract:
    """The servers of a session; `github` is the state of the test that runs.

    The front numbers its requests, and `reached` are those that came to the fake.
    """

    def __init__(self):
        self.github = GitHub()
        self.numbers = count()
        self.reached = set()
        self.fake_port = self.front_port = self.prism_port = 0

    @contextmanager
    def running(self, folder):
        with (
            served(Fake, self) as self.fake_port,
            prism(self.fake_port, folder / "prism.log") as self.prism_port,
            served(Front, self) as self.front_port,
        ):
            yield self

    @contextmanager
    def fresh(self):
        """A state of its own for one test."""
        github = self.github = GitHub(
            url=f"http://127.0.0.1:{self.front_port}",
            plain_url=f"http://127.0.0.1:{self.fake_port}",
        )
        try:
            yield github
        finally:
            github.ended.set()
