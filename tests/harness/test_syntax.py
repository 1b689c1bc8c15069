"""A tree of one's own is compiled before an engine starts with it."""

from __future__ import annotations

from pathlib import Path

from tests.helpers import fails
from vpatch.harness.syntax import refuse_syntax_errors


def test_a_python_that_compiles_nothing():
    with fails("harness.python-failed"):
        refuse_syntax_errors(Path("/bin/false"), [])
