"""Test modules do no work when they are imported: each process of a test run imports all of them.

What reads the library, parses code or starts a process there ends the collection with an error.
"""

from __future__ import annotations

import ast
import subprocess
import sys
import sysconfig
from contextlib import ExitStack, contextmanager
from unittest import mock

import pytest

from vpatch.library import loading

# Python itself and what is installed. pytest parses each test module, for one.
OTHERS = (sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"))
# Where each is looked up when it is called; what the call is to a reader of the error.
FORBIDDEN = (
    (ast, "parse", "parses Python code"),
    (subprocess.Popen, "__init__", "starts a process"),
    # What every function that loads a patch calls first.
    (loading, "read_yaml", "loads a patch of the library"),
)
ALLOWED_TO_OTHERS = {"parse"}


@contextmanager
def no_work():
    """Refuse the calls of `FORBIDDEN` as long as this lasts."""

    def guarded(owner, name, what):
        allowed = getattr(owner, name)

        def refuse_or_call(*args, **options):
            caller = sys._getframe(1).f_code.co_filename
            if name in ALLOWED_TO_OTHERS and caller.startswith(OTHERS):
                return allowed(*args, **options)
            pytest.fail(f"{what} when it is imported: use a fixture, or parametrise by name")

        return mock.patch.object(owner, name, refuse_or_call)

    with ExitStack() as stack:
        for forbidden in FORBIDDEN:
            stack.enter_context(guarded(*forbidden))
        yield


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    if not isinstance(collector, pytest.Module):
        return (yield)
    with no_work():
        return (yield)
