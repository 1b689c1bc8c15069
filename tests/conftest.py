from __future__ import annotations

import os

import pytest


@pytest.fixture
def isolated(monkeypatch, tmp_path):
    """Nothing of the user's own: no settings of pip or git, another home, another cache."""
    for name in list(os.environ):
        if name.startswith(("PIP_", "GIT_", "XDG_")) or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("VPATCH_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path
