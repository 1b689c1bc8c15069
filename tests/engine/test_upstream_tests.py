"""What takes tests of vLLM from the tree of another release."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, version
from textwrap import dedent

import pytest

from vpatch.engine import PAYLOAD

sys.path.insert(0, str(PAYLOAD))  # as an engine finds it
from upstream_tests import taken_from

FILE = """
    import json
    from json import NotThere
    from old_place import loads
    from .beside import VALUE
    from tests.below.further import VALUE as OTHER
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

    class Annotation: ...

    def test_has_annotations(one: Annotation = 1) -> Annotation:
        return one

    def test_uses_a_helper():
        return VALUE

    def test_uses_another():
        return OTHER

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
    # An engine has no package of this name.
    for name in [name for name in sys.modules if name.partition(".")[0] == "tests"]:
        monkeypatch.delitem(sys.modules, name)
    return "below/test_file.py"


def test_a_test_comes_with_what_it_uses_and_nothing_else(upstream):
    found = taken_from(upstream, "test_uses_a_constant")
    assert sorted(found) == ["limit", "test_uses_a_constant"]
    found["test_uses_a_constant"](found["limit"]())
    assert "gone" not in vars(sys.modules["tests.below.test_file"])


def test_what_only_annotations_name_is_left_out(upstream):
    found = taken_from(upstream, "test_has_annotations")
    assert list(found) == ["test_has_annotations"]
    assert found["test_has_annotations"]() == 1


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


def release(folder, values):
    """A release with helpers of its own, and with metadata as that of an installed package."""
    (folder / "tests" / "below").mkdir(parents=True, exist_ok=True)
    for name, value in values.items():
        (folder / "tests" / "below" / f"{name}.py").write_text(f"VALUE = {value!r}\n")
    info = folder / "upstream_tests_here.egg-info"
    info.mkdir()
    (info / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: upstream-tests-here\nVersion: 9\n")
    return folder


def test_helpers_come_from_the_release_of_the_test(upstream, tmp_path):
    release(tmp_path, {"beside": "new"})
    found = taken_from(upstream, "test_uses_a_helper")["test_uses_a_helper"]
    assert found() == "new"


def test_helpers_may_come_from_another_release(upstream, tmp_path, monkeypatch):
    release(tmp_path, {"beside": "new", "further": "new"})
    monkeypatch.setenv("OWN", str(release(tmp_path / "own", {"beside": "own"})))
    found = taken_from(upstream, "test_uses_a_helper", "test_uses_another", helpers="OWN")
    assert found["test_uses_a_helper"]() == "own"
    # What it does not have comes from the release of the test.
    assert found["test_uses_another"]() == "new"


def test_a_release_is_not_taken_for_what_is_installed(upstream, tmp_path):
    """Else vLLM reads its platform from the metadata of the other release, and finds none."""
    release(tmp_path, {"beside": "new"})
    before = list(sys.path)
    taken_from(upstream, "test_uses_a_helper")
    assert sys.path == before
    with pytest.raises(PackageNotFoundError):
        version("upstream-tests-here")


@pytest.mark.parametrize(
    "name", ["test_none", "TestNone.test_one", "TestClass.test_none", "LIMIT.test_one"]
)
def test_a_name_that_is_not_there_is_an_error(upstream, name):
    with pytest.raises(ValueError, match="correct the name"):
        taken_from(upstream, name)
