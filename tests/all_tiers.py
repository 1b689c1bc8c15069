"""A plugin of pytest that prints as JSON which tests a run of each tier takes.

All tests are collected once, so each tier is chosen by the same recorded durations.
"""

from __future__ import annotations

import json

import pytest

taken = {}


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    # pytest can rewrite the assertions only of what it imports itself, later than this module.
    from tests.test_tiers import TIERS, selected

    for tier in TIERS:
        taken[tier] = [item.nodeid for item in selected(items, tier)]


def pytest_terminal_summary(terminalreporter):
    terminalreporter.write_line(json.dumps(taken))
