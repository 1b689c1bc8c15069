from __future__ import annotations

import re
from importlib.metadata import version

import pytest

from vpatch.util import own_code
from vpatch.util.own_code import code_digest


@pytest.fixture(autouse=True)
def _asked_anew():
    code_digest.cache_clear()
    yield
    code_digest.cache_clear()


def test_the_code_is_that_of_vpatch(tmp_path, monkeypatch):
    before = code_digest()
    code = tmp_path / "util" / "own_code.py"
    code.parent.mkdir()
    code.write_text("x = 1\n")
    monkeypatch.setattr(own_code, "__file__", str(code))
    code_digest.cache_clear()
    first = code_digest()
    code.write_text("x = 2\n")
    code_digest.cache_clear()
    assert len({before, first, code_digest()}) == 3


def test_every_file_of_the_code_counts_by_its_place(tmp_path, monkeypatch):
    package = tmp_path / "vpatch"
    for name in ("util/own_code.py", "a/b/c.py", "a/d.py", "data/e.py", "a/data/f.py", "a/g.txt"):
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(f"{name}\n")
    monkeypatch.setattr(own_code, "__file__", str(package / "util" / "own_code.py"))

    def digest():
        code_digest.cache_clear()
        return code_digest()

    digests = [digest()]
    (package / "a" / "b" / "c.py").write_text("changed\n")
    digests.append(digest())
    (package / "a" / "b" / "c.py").rename(package / "a" / "c.py")
    digests.append(digest())
    (package / "a" / "new").mkdir()
    (package / "a" / "new" / "h.py").touch()
    digests.append(digest())
    (package / "a" / "d.py").unlink()
    digests.append(digest())
    assert len({*digests}) == 5
    for name in ("data/e.py", "a/data/f.py", "a/g.txt"):
        (package / name).unlink()
    assert digest() == digests[-1]


def test_the_libraries_are_those_that_are_imported():
    assert own_code._versions() == {name: version(name) for name in own_code._USED}


@pytest.mark.parametrize("kind", ["dist-info", "egg-info", "py3.11.egg-info"])
@pytest.mark.parametrize("library", own_code._USED)
def test_another_version_of_a_library_is_other_code(tmp_path, monkeypatch, library, kind):
    before = code_digest()
    name = library.replace("_yaml", ".yaml") if kind == "dist-info" else library
    (tmp_path / f"{name}-0.1{'-' if kind[0] == 'p' else '.'}{kind}").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    code_digest.cache_clear()
    assert own_code._versions()[library] == "0.1"
    assert code_digest() != before


def test_what_has_no_such_folder_is_looked_up(monkeypatch):
    expected = own_code._versions()
    monkeypatch.setattr(own_code, "_INSTALLED", re.compile("nothing"))
    assert own_code._versions() == expected


def test_another_python_is_other_code(monkeypatch):
    digests = {code_digest()}
    for name, value in (("version", "4.0"), ("flags", type("", (), {"optimize": 2}))):
        monkeypatch.setattr(own_code.sys, name, value)
        code_digest.cache_clear()
        digests.add(code_digest())
    assert len(digests) == 3
