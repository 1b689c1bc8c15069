"""The fixtures `github` and `published_github`, which tests/conftest.py has for all tests.

Under other names than tests ask for them by, so that a test's argument hides no import.
"""

from __future__ import annotations

import pytest

from tests.fake_github.contract import Contract


@pytest.fixture(scope="session", name="published_github")
def fixture_published_github(tmp_path_factory):
    with Contract().running(tmp_path_factory.mktemp("github")) as contract:
        yield contract


@pytest.fixture(name="github")
def fixture_github(published_github, monkeypatch):
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "127.0.0.1")
    with published_github.fresh() as github:
        yield github
        github.check()
