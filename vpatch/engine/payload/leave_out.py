"""A plugin of pytest with an option `--leave-out NAME`, for test functions of exactly that name.

pytest's own options take a part of a name, so `test_a` would leave out `test_ab` as well.
"""

from __future__ import annotations

from typing import Any

import pytest


def pytest_addoption(parser: Any) -> None:
    parser.addoption("--leave-out", action="append", default=[])


def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    named = set(config.getoption("leave_out"))
    functions = [item.name.partition("[")[0] for item in items]
    # Without any item the file cannot be imported, and pytest says why.
    if items and (unknown := named - set(functions)):
        pytest.exit(f"not-asked names {', '.join(sorted(unknown))}: no such test", returncode=4)
    left_out = [item for item, name in zip(items, functions, strict=True) if name in named]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]
