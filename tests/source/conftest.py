from __future__ import annotations

import os

import pytest

from tests.index_server import Index, serve
from tests.waiting import LIMIT
from vpatch.source.cache import Cache
from vpatch.source.pip_settings import PipSettings
from vpatch.source.resolve import open_tree
from vpatch.source.spec import parse_vllm

from .helpers import Notes


@pytest.fixture(autouse=True)
def _no_outside(monkeypatch, tmp_path):
    for name in list(os.environ):
        if name.startswith(("PIP_", "GIT_", "XDG_")) or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("VPATCH_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def index():
    with serve(Index()) as served:
        served.add("0.23.0")
        yield served


@pytest.fixture
def cache(tmp_path):
    return Cache(tmp_path / "cache")


@pytest.fixture
def notes():
    return Notes()


@pytest.fixture
def settings(index):
    return PipSettings(index_url=index.url, timeout=LIMIT, retries=0)


@pytest.fixture
def opening(cache, settings, notes):
    """Open a tree with the fixtures' index and cache."""

    def opened(spec="0.23.0", *, offline=False, settings=settings, expected_digest=None):
        return open_tree(
            parse_vllm(spec) if isinstance(spec, str) else spec,
            cache=cache,
            settings=settings,
            offline=offline,
            progress=notes,
            expected_digest=expected_digest,
        )

    return opened
