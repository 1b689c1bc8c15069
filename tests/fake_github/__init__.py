"""GitHub on 127.0.0.1, for tests: ask for the fixture `github`."""

from tests.fake_github.faults import Fault
from tests.fake_github.state import GitHub

__all__ = ["Fault", "GitHub"]
