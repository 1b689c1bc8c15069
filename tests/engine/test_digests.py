"""Digests of files as an import would find them."""

from __future__ import annotations

import importlib
import os
import runpy

import pytest

from tests.projects import ENGINE, FILES, LLAMA, write_tree
from vpatch.engine import PAYLOAD
from vpatch.util.digest import digest_of

INIT = "vllm/__init__.py"


def pipe(path):
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize(
    ("path", "change", "missing"),
    [
        (LLAMA, lambda _: None, None),
        ("vllm/engine.so", lambda path: path.write_bytes(b""), ENGINE),
        ("vllm/engine/__init__.py", lambda path: path.write_bytes(b""), ENGINE),
        ("vllm/__init__.so", lambda path: path.write_bytes(b""), INIT),
        (ENGINE, pipe, ENGINE),
        (ENGINE, lambda path: path.unlink(), ENGINE),
    ],
)
def test_what_hides_a_file_takes_its_digest(tmp_path, monkeypatch, path, change, missing):
    monkeypatch.syspath_prepend(write_tree(tmp_path / "site"))
    place = tmp_path / "site" / path
    place.parent.mkdir(exist_ok=True)
    change(place)
    importlib.invalidate_caches()
    digests_of = runpy.run_path(str(PAYLOAD / "digests.py"))["digests_of"]
    found = digests_of([INIT, ENGINE, LLAMA])
    wanted = {one: digest_of(FILES[one]) for one in (INIT, ENGINE, LLAMA)}
    assert found == {**wanted, **({missing: None} if missing else {})}
