"""What takes tests of vLLM from the tree of another release."""

from __future__ import annotations

import sys
from textwrap import dedent

import pytest

from vpatch.engine import PAYLOAD

sys.path.insert(0, str(PAYLOAD))  # as an engine finds it
from upstream_tests import taken_from

FILE = """
    import json
    from json import NotThere
    from old_place import loads
    from .beside import helper
    from gone import gone

    LIMIT = 3
    BROKEN = gone()

    @pytest_fixture_of_the_newer_release
    def unused(): ...

    def limit() -> NotThere:
        return LIMIT

    def test_uses_a_constant(limit: NotThere) -> None:
        assert json.loads("3") == LIMIT

    def test_uses_what_is_missing():
        NotThere.of()

    def test_uses_what_has_moved():
        assert loads("3") == 3

    class TestClass:
        def test_one(self): ...
        def test_two(self): ...
        def help(self): ...
"""


@pytest.fixture
def upstream(tmp_path, monkeypatch):
    folder = tmp_path / "tests" / "below"
    folder.mkdir(parents=True)
    (folder / "test_file.py").write_text(dedent(FILE))
    monkeypatch.setenv("UPSTREAM", str(tmp_path))
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("tests.below.test_file",):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return "below/test_file.py"


def test_a_test_comes_with_what_it_uses_and_nothing_else(upstream):
    found = taken_from(upstream, "test_uses_a_constant")
    assert sorted(found) == ["limit", "test_uses_a_constant"]
    found["test_uses_a_constant"](found["limit"]())


def test_a_missing_import_fails_where_it_is_used(upstream):
    test = taken_from(upstream, "test_uses_what_is_missing")["test_uses_what_is_missing"]
    with pytest.raises(ImportError, match="NotThere"):
        test()


def test_a_module_may_have_another_name(upstream):
    name = "test_uses_what_has_moved"
    taken_from(upstream, name, moved={"old_place": "json"})[name]()


def test_the_other_tests_of_a_class_are_left_out(upstream):
    found = taken_from(upstream, "TestClass.test_two")["TestClass"]
    assert not hasattr(found, "test_one")
    assert hasattr(found, "test_two")
    assert hasattr(found, "help")


@pytest.mark.parametrize(
    "name", ["test_none", "TestNone.test_one", "TestClass.test_none", "LIMIT.test_one"]
)
def test_a_name_that_is_not_there_is_an_error(upstream, name):
    with pytest.raises(ValueError, match="correct the name"):
        taken_from(upstream, name)
