"""What a Python says of its vLLM, where code of its environment runs at each start."""

from __future__ import annotations

import json
import os
import zipfile

import pytest

from tests.environments import bare_environment, environment_with_vllm
from tests.helpers import fails
from tests.projects import write_tree
from vpatch.engine import import_path
from vpatch.engine.environment import existing_engine
from vpatch.engine.hidden import hidden_code
from vpatch.engine.import_path import ask_import_path
from vpatch.engine.installed import find_installed


@pytest.fixture
def made(tmp_path, monkeypatch):
    monkeypatch.delenv("PYTHONPATH", raising=False)
    return environment_with_vllm(tmp_path / "env")


def asked(made, **options):
    return ask_import_path(made.python, str(made.python), **options)


FINDER = """
import sys
from importlib.util import spec_from_file_location


class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == {name!r}:
            return spec_from_file_location(name, {file!r})


sys.meta_path.insert(0, Finder)
"""
LOADER = """
from importlib.machinery import SourceFileLoader


def get_data(self, path, before=SourceFileLoader.get_data):
    return before(self, path).replace(b"fast", b"slow")


SourceFileLoader.get_data = get_data
"""
HOOK = """
import sys


def hook(path):
    from importlib.machinery import FileFinder, SourceFileLoader

    class Loader(SourceFileLoader):
        pass

    return FileFinder(path, (Loader, [".py"]))


sys.path_hooks.insert(0, hook)
sys.path_importer_cache.clear()
"""
PACKAGE = """
import sys, types

sys.modules["vllm"] = types.ModuleType("vllm")
sys.modules["vllm"].__path__ = ["/x"]
"""
LOADED = "import sys, types; sys.modules['vllm.engine'] = types.ModuleType('vllm.engine')"
CUSTOMS = [
    (FINDER.format(name="vllm.engine", file="/x.py"), "custom.Finder has a part in the import"),
    (FINDER.format(name="vllm", file="/x.py"), "makes it take vllm from /x.py"),
    (FINDER.format(name="vllm.models.llama", file="/x.py"), "in the import of 1 modules"),
    (LOADER, "importlib._bootstrap_external.SourceFileLoader.get_data has a part"),
    (HOOK, "has a part in the import"),
    ("import builtins; builtins.compile = lambda *a, **k: 0", "another compile has a part"),
    (LOADED, "vllm.engine is imported when Python starts"),
    (PACKAGE, "makes it take vllm from elsewhere"),
    ("import sys; sys.path.insert(0, '/front')", "makes it take vllm from /front/vllm"),
]


def test_code_that_runs_at_each_start(made, tmp_path):
    """One environment: each case is another module that a .pth file imports."""
    front = write_tree(tmp_path / "front", {"vllm/__init__.py": b""})
    (made.site / "x.pth").write_text("import custom\n")
    for code, what in CUSTOMS:
        (made.site / "custom.py").write_text(code.replace("/front", str(front)))
        found = asked(made)
        assert what.replace("/front", str(front)) in "; ".join(found.importers), code
        assert found.starting == (str(made.site / "x.pth"),)
        problems = hidden_code(found, made.site / "vllm").problems
        assert list(problems) == ["vllm"]
    (made.site / "custom.py").write_text("import json, re, email, pathlib, distutils, site\n")
    assert not asked(made).importers


@pytest.mark.parametrize(
    ("code", "is_refused"),
    [
        ("import sys; sys.stdout.write('vpatch:{answer}\\n')", False),
        ("import atexit; atexit.register(print, 'vpatch:{answer}')", False),
        ("import os, sys; sys.stdout.write(os.environ['VPATCH_MARK'] + '{answer}\\n')", True),
    ],
)
def test_what_code_prints_is_no_answer(made, tmp_path, code, is_refused):
    other = environment_with_vllm(tmp_path / "other")
    answer = {"package": f"{other.site}/vllm", "infos": [], "version": "0.50.0"}
    answer |= {"executable": "/x", "path": [str(other.site)], "installed": []}
    answer |= {"origin": f"{other.site}/vllm/__init__.py", "places": [f"{other.site}/vllm"]}
    answer |= {"starting": [], "suffixes": [], "loaded": [], "importers": {}}
    (made.site / "x.pth").write_text(code.replace("{answer}", json.dumps(answer)) + "\n")
    if is_refused:
        with fails("engine.no-python"):
            find_installed(str(made.python))
    else:
        assert find_installed(str(made.python)).package == made.site / "vllm"


@pytest.mark.parametrize("code", ["import os; os._exit(0)", "import sys; sys.exit(3)"])
def test_code_that_ends_python_is_named(made, code):
    (made.site / "x.pth").write_text(f"{code}\n")
    with fails("engine.no-python", f"ends it: {made.site / 'x.pth'}"):
        asked(made)


@pytest.mark.parametrize("name", ["sitecustomize.py", "usercustomize.py", "sitecustomize.so"])
def test_modules_that_python_imports_by_itself_are_listed(made, name):
    (made.site / name).write_text("")
    (made.site / "plain.pth").write_text("/nowhere\n# comment\n")
    assert asked(made).starting == (str(made.site / name),)


def test_a_pipe_that_python_waits_for_is_named(made):
    os.mkfifo(made.site / "x.pth")
    with fails("engine.no-python", "x.pth is not a file, and Python waits for it"):
        asked(made)


def test_output_that_does_not_end(made, monkeypatch):
    monkeypatch.setattr("vpatch.engine.import_path._LARGEST", 10_000)
    (made.site / "x.pth").write_text(
        "import sys; [sys.stdout.write('x' * 999) for _ in iter(int, 1)]\n"
    )
    with fails("engine.no-python", "x.pth"):
        asked(made)


@pytest.mark.parametrize("answer", ["5", "[]", "{}", "{", '{"importers": []}', "[" * 100_000])
def test_answers_of_another_shape(made, tmp_path, answer):
    (tmp_path / "answer").write_text(answer)
    made.python.unlink()
    line = f'printf "%s" "$VPATCH_MARK"; cat {tmp_path / "answer"}; echo'
    made.python.write_text(f"#!/bin/sh\n{line}\n{line}\n")
    made.python.chmod(0o755)
    with fails("engine.no-python", "it is not a Python that works"):
        asked(made)


def test_a_folder_that_a_pth_file_names_is_part_of_the_path(made, tmp_path):
    (made.site / "plain.pth").write_text(f"{write_tree(tmp_path / 'more')}\n")
    found = asked(made)
    assert found.path[-1] == str(tmp_path / "more")
    assert found.package == made.site / "vllm"


FRONTS = {
    "vllm/__init__.py": "vllm",
    "vllm.py": None,
    "vllm.pyc": None,
    "vllm/__init__.pyc": "vllm",
}


@pytest.mark.parametrize("path", FRONTS)
def test_another_vllm_comes_first(made, tmp_path, path):
    front = write_tree(tmp_path / "front", {path: b""})
    environment = dict(os.environ) | {"PYTHONPATH": str(front)}
    found = asked(made, environment=environment, isolated=False)
    assert found.package == (front / FRONTS[path] if FRONTS[path] else None)
    assert found.origin == str(front / path)
    assert asked(made, environment=environment).package == made.site / "vllm"


def test_one_in_an_archive_and_one_without_init(made, tmp_path):
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("vllm/__init__.py", "")
    environment = {"PYTHONPATH": str(tmp_path / "x.zip")}
    found = asked(made, environment=environment, isolated=False)
    assert found.package == tmp_path / "x.zip" / "vllm"
    # A folder without __init__ comes last, wherever it is.
    portion = write_tree(tmp_path / "portion", {"vllm/extra.py": b""})
    found = asked(made, environment={"PYTHONPATH": str(portion)}, isolated=False)
    assert found.package == made.site / "vllm"


def test_a_relative_path_counts_from_the_current_folder(made, tmp_path, monkeypatch):
    write_tree(tmp_path / "front", {"vllm/__init__.py": b"", "json.py": b"raise SystemExit(9)"})
    monkeypatch.chdir(tmp_path / "front")
    for path in (".", "", f"{os.pathsep}/nowhere"):
        found = asked(made, environment={"PYTHONPATH": path}, isolated=False)
        assert found.package == (tmp_path / "front" if path else made.site) / "vllm"


def test_no_vllm(tmp_path):
    bare = bare_environment(tmp_path / "bare")
    found = asked(bare)
    assert (found.package, found.origin, found.is_package) == (None, None, False)


def test_nothing_of_vllm_runs_and_nothing_is_written(made):
    (made.site / "vllm" / "__init__.py").write_text("raise SystemExit('it ran')\n")
    before = made.state()
    assert asked(made).package == made.site / "vllm"
    assert made.state() == before


def test_a_line_that_looks_like_an_answer_is_none(tmp_path):
    """What a .pth file prints must not lead to another environment."""
    python = tmp_path / "python"
    answer = '{"package": "/x", "kind": "cpu", "pytest": true}'
    python.write_text(f"#!/bin/sh\necho 'vpatch:{answer}'\n")
    python.chmod(0o755)
    with fails("engine.vllm-does-not-start", "its vLLM does not start"):
        existing_engine(str(python))


def test_a_count_that_is_no_number_is_no_answer():
    """A Python of somebody else's answers: its text must not reach the terminal as it is."""
    plain = {"places": [], "origin": None, "executable": "/python", "path": [], "loaded": []}
    with pytest.raises(ValueError, match="invalid literal"):
        import_path._import_path(plain, plain | {"importers": {"hook": "5\x1b[31m"}})
