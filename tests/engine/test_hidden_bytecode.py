"""Bytecode that an import takes, and that is not what its source compiles to."""

from __future__ import annotations

import importlib.util
import os
import py_compile
import subprocess
import sys
from pathlib import Path

import pytest

from tests.environments import environment_with_vllm
from tests.helpers import fails
from vpatch.engine.hidden import hidden_code
from vpatch.engine.import_path import ask_import_path

MODES = py_compile.PycInvalidationMode
TEXT = b"def f():\n    'words'\n    assert True\n    return 1\n"
OTHER = b"def f():\n    'words'\n    assert True\n    return 2\n"


def compiled(source, text, mode, *, level=0, prefix=None):
    """Write bytecode of `text` as if it were that of `source`."""
    beside = source.with_suffix(".other")
    beside.write_bytes(text)
    os.utime(beside, ns=(source.stat().st_mtime_ns,) * 2)
    before, sys.pycache_prefix = sys.pycache_prefix, prefix
    try:
        path = importlib.util.cache_from_source(str(source), optimization=level or "")
        if level == 3:  # of python -OOO
            level = 2
        py_compile.compile(
            str(beside), path, str(source), optimize=level, invalidation_mode=mode, doraise=True
        )
    finally:
        sys.pycache_prefix = before
        beside.unlink()
    return path


def hashed_as_source(source, text):
    """Bytecode of other code with the hash of the source."""
    path = compiled(source, text, MODES.CHECKED_HASH)
    with Path(path).open("r+b") as file:
        file.seek(8)
        file.write(importlib.util.source_hash(source.read_bytes()))


def cut(source, _):
    path = compiled(source, source.read_bytes(), MODES.UNCHECKED_HASH)
    os.truncate(path, 20)


def of_another_python(source, text):
    path = compiled(source, text, MODES.UNCHECKED_HASH)
    Path(path).rename(path.replace(sys.implementation.cache_tag, "cpython-399"))


def with_another_magic(source, text):
    path = compiled(source, text, MODES.UNCHECKED_HASH)
    with Path(path).open("r+b") as file:
        file.write(b"old\n")


def older(source, text):
    compiled(source, text, MODES.TIMESTAMP)
    os.utime(source, (1, 1))


def bytes_at(content):
    def write(source, _):
        path = Path(importlib.util.cache_from_source(str(source)))
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)

    return write


def deep(source, _):
    """Bytecode that takes the stack of a Python."""
    header = importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little") + bytes(8)
    bytes_at(header + b"(\x01\x00\x00\x00" * 5_000_000)(source, _)


CASES = {
    "unchecked": (lambda s, t: compiled(s, t, MODES.UNCHECKED_HASH), "hides it"),
    "timestamp": (lambda s, t: compiled(s, t, MODES.TIMESTAMP), "hides it"),
    "checked": (hashed_as_source, "hides it"),
    "optimised1": (lambda s, t: compiled(s, t, MODES.TIMESTAMP, level=1), "hides it"),
    "optimised2": (lambda s, t: compiled(s, t, MODES.UNCHECKED_HASH, level=2), "hides it"),
    "optimised3": (lambda s, t: compiled(s, t, MODES.TIMESTAMP, level=3), "hides it"),
    "cut": (cut, "damaged bytecode"),
    "deep": (deep, "damaged bytecode"),
    "own": (lambda s, _: compiled(s, TEXT, MODES.TIMESTAMP), None),
    "own1": (lambda s, _: compiled(s, TEXT, MODES.UNCHECKED_HASH, level=1), None),
    "own2": (lambda s, _: compiled(s, TEXT, MODES.CHECKED_HASH, level=2), None),
    "own3": (lambda s, _: compiled(s, TEXT, MODES.CHECKED_HASH, level=3), None),
    "stale": (older, None),
    "stale_hash": (lambda s, t: compiled(s, t, MODES.CHECKED_HASH), None),
    "python": (of_another_python, None),
    "magic": (with_another_magic, None),
    "empty": (bytes_at(b""), None),
}


@pytest.fixture
def made(tmp_path, monkeypatch):
    monkeypatch.delenv("PYTHONPATH", raising=False)
    return environment_with_vllm(tmp_path / "env")


def problems(made, **options):
    asked = ask_import_path(made.python, str(made.python), **options)
    return dict(hidden_code(asked, made.site / "vllm").problems)


def test_all_kinds_at_once(made):
    """One Python looks at all cases; then an import shows that the table is right."""
    package = made.site / "vllm"
    for name, (write, _) in CASES.items():
        source = package / f"{name}.py"
        source.write_bytes(TEXT)
        write(source, OTHER)
    found = problems(made)
    for name, (_, what) in CASES.items():
        assert what is None or what in found.pop(f"vllm/{name}.py"), name
    assert not found
    code = "import vllm.{0}; print(vllm.{0}.f())"
    for flags, name, value in (
        ("-B", "unchecked", 2),
        ("-B", "stale", 1),
        ("-BO", "optimised1", 2),
    ):
        command = [made.python, flags, "-c", code.format(name)]
        run = subprocess.run(command, capture_output=True, text=True, check=True)
        assert run.stdout == f"{value}\n", name


def test_bytecode_in_a_folder_of_its_own(made, tmp_path):
    source = made.site / "vllm" / "engine.py"
    source.write_bytes(TEXT)
    path = compiled(source, OTHER, MODES.UNCHECKED_HASH, prefix=str(tmp_path / "cache"))
    environment = {"PYTHONPYCACHEPREFIX": str(tmp_path / "cache")}
    found = problems(made, environment=environment, isolated=False)
    assert found == {"vllm/engine.py": f"has bytecode that hides it: {path}"}
    assert not problems(made)


def test_a_pipe_in_place_of_bytecode(made):
    source = made.site / "vllm" / "engine.py"
    path = Path(importlib.util.cache_from_source(str(source)))
    path.parent.mkdir()
    os.mkfifo(path)
    name = os.path.relpath(path, made.site)
    assert problems(made)[name] == "is a pipe, and not a file"


def test_a_source_that_cannot_be_compiled(made):
    source = made.site / "vllm" / "engine.py"
    compiled(source, OTHER, MODES.UNCHECKED_HASH)
    source.write_text("def (\n")
    assert "cannot be compiled, and has bytecode" in problems(made)["vllm/engine.py"]


def test_bytecode_that_ends_python_is_named(made, monkeypatch, tmp_path):
    source = made.site / "vllm" / "engine.py"
    path = compiled(source, OTHER, MODES.UNCHECKED_HASH)
    script = tmp_path / "script.py"
    script.write_text(f"import json\nprint(json.dumps([{str(source)!r}, {path!r}, None]))\n")
    monkeypatch.setattr("vpatch.engine.hidden._SCRIPT", script)
    assert "has bytecode that ends Python" in problems(made)["vllm/engine.py"]
    script.write_text("raise SystemExit('no')\n")
    with fails("engine.hidden-code", "the bytecode cannot be compared"):
        problems(made)
