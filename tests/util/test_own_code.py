from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import vpatch
from vpatch.util import own_code
from vpatch.util.own_code import DECIDING, code_digest, content_digest, decider_digest

DIGESTS = (code_digest, content_digest, decider_digest)
# What decides imports these, and nothing of them decides: they read files, and tell of errors.
NOT_DECIDING = {
    *("__init__", "errors", "library/shapes", "source/lazy_files"),
    *("trust/decision", "trust/store"),
    *("util/digest", "util/directories", "util/files", "util/home", "util/plain_records"),
    *("util/scratch", "util/uninterrupted", "util/untrusted", "util/validation"),
}


@pytest.fixture(autouse=True)
def _asked_anew():
    clear()
    yield
    clear()


def clear():
    for digest in DIGESTS:
        digest.cache_clear()


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


def test_only_an_edit_of_what_decides_changes_what_is_known_of_contents(tmp_path, monkeypatch):
    package = tmp_path / "vpatch"
    names = ("planning/decider.py", "codemods/match.py", "commands/status/command.py")
    for name in ("util/own_code.py", *names):
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text("x = 1\n")
    monkeypatch.setattr(own_code, "__file__", str(package / "util" / "own_code.py"))
    digests = [(content_digest(), decider_digest())]
    for name in reversed(names):
        clear()
        (package / name).write_text("x = 2\n")
        digests.append((content_digest(), decider_digest()))
    assert digests[0] == digests[1]
    assert len(set(digests)) == 3


def test_the_libraries_count_for_contents_and_not_for_records(monkeypatch):
    before = content_digest(), decider_digest()
    clear()
    monkeypatch.setattr(own_code, "_versions", lambda: {"libcst": "9"})
    assert content_digest() != before[0]
    assert decider_digest() == before[1]


def test_all_that_decides_is_in_the_digest():
    """What a decision imports decides, or is known not to."""
    code = (
        "import sys, vpatch.planning.plan, vpatch.planning.lint, vpatch.library.loading\n"
        "print(*(m.__file__ for n, m in sys.modules.items() if n.split('.')[0] == 'vpatch'))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    package = Path(vpatch.__file__).parent
    imported = {Path(file).relative_to(package).as_posix() for file in run.stdout.split()}
    others = {name.removesuffix(".py") for name in imported if not name.startswith(DECIDING)}
    assert {name for name in others if not name.endswith("__init__")} | {"__init__"} == NOT_DECIDING
    assert all((package / name).exists() for name in DECIDING)
