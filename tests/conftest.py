from __future__ import annotations

import os
import signal
import string
import sys
import tempfile

import hypothesis
import pytest

from tests.docker_engine import engine_for_tests
from tests.fake_github.fixtures import fixture_github, fixture_published_github  # noqa: F401

pytest_plugins = ("tests.import_guard", "tests.tiers")

# The trees of tests are a few lines long and use names that nothing defines. pyflakes reads here
# what counts as defined; tests of undefined names use other names.
os.environ["PYFLAKES_BUILTINS"] = ",".join([*string.ascii_letters, "new"])

# Some tests run what the docs show with this machine's caches. What they trust is forgotten.
_DATA = tempfile.TemporaryDirectory(prefix="vpatch-tests-data-")
os.environ["XDG_DATA_HOME"] = _DATA.name

# A busy machine makes a single example slow.
hypothesis.settings.register_profile("vpatch", deadline=None)
hypothesis.settings.load_profile("vpatch")

# Without bytecode, each process compiles all that it imports, and each run rewrites all assertions.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# A shell's job in the background ignores Ctrl-C, and one of nohup ignores SIGHUP. What tests start
# must not inherit that: vpatch leaves an ignored signal ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# What a test needs beyond Python, git and a few megabytes, by the fixture that gives it.
NEEDS = {
    "cpu_engine": "engine",
    "docker_engine": "docker",
    "open_page": "browser",
    "published_github": "github",
}


# The marks must be there before pytest selects by them.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    for item in items:
        marks = {NEEDS[name] for name in item.fixturenames if name in NEEDS}
        if marks:
            marks.add("slow")
        # What CI has no GPU for.
        if item.get_closest_marker("cuda"):
            marks |= {"slow", "full"}
        for mark in marks:
            item.add_marker(mark)


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
    # No test asks the real Hub: nothing answers here.
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    return tmp_path


@pytest.fixture(scope="session")
def docker_engine():
    with engine_for_tests() as engine:
        yield engine


@pytest.fixture
def docker(docker_engine, monkeypatch):
    """The engine as vpatch finds it; no container is left in it, whatever the test does."""
    monkeypatch.setenv("DOCKER_HOST", docker_engine.where)
    before = docker_engine.containers()
    yield docker_engine
    assert docker_engine.containers() == before
