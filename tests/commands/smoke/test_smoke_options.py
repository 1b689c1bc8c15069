"""Options of a smoke run that have no effect together."""

from __future__ import annotations

import pytest

from vpatch.commands.smoke.usecase import SmokeOptions
from vpatch.errors import UsageError


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        ({"resume": True}, "cli.unused-option", "--resume would have no effect without --on"),
        ({"attempts": 2}, "cli.unused-option", "--attempts would have no effect without --on"),
        ({"on": "auto", "python": "p"}, "cli.conflicting-options", "--python and --on exclude"),
        ({"on": "auto", "port": 8000}, "cli.conflicting-options", "--port and --on exclude"),
    ],
)
def test_options_that_exclude_each_other(options, code, said):
    with pytest.raises(UsageError) as error:
        SmokeOptions(**options).refuse_conflicts()
    assert error.value.code == code
    assert said in error.value.what


@pytest.mark.parametrize(
    "options", [{}, {"port": 8000}, {"on": "auto", "resume": True, "image": "a:b"}]
)
def test_options_that_go_together(options):
    SmokeOptions(**options).refuse_conflicts()
