"""The library that benchmarks/made_library.py makes: each patch is needed where it was made."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from tests.helpers import tree_of
from vpatch.library.loading import load_patch
from vpatch.planning.plan import plan
from vpatch.planning.state import State
from vpatch.trust.decision import EVERYTHING

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "made_library.py"
MODULE = """\
import os

LIMIT_{0} = {0}


def first_{0}(a, b=None):
    return sorted(a, key=b)


class C:
    def first(self):
        return os.getcwd()


def second_{0}(x):
    if x:
        return min(x)
    raise ValueError(x)
"""
FILES = {f"vllm/m{number}.py": MODULE.format(number).encode() for number in range(12)}


@pytest.fixture
def made_library():
    spec = importlib.util.spec_from_file_location("made_library", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def test_each_patch_is_needed_where_it_was_made(made_library, tmp_path):
    ids = made_library.write_library(tmp_path, FILES, 10)
    kinds = {"add-keyword", "insert", "rewrite", "replace-body", "set-value"}
    assert {one.split("-", 2)[2] for one in ids} == kinds
    patches = [load_patch(tmp_path / one, EVERYTHING) for one in ids]
    made = plan(patches, tree_of(FILES))
    assert {d.patch.id: d.state for d in made.decisions} == dict.fromkeys(ids, State.NEEDED)
    assert len({path for d in made.decisions for path in d.changes}) == len(ids)


def test_the_same_files_make_the_same_library(made_library, tmp_path):
    first = made_library.write_library(tmp_path / "a", FILES, 7)
    assert made_library.write_library(tmp_path / "b", FILES, 7) == first
    for one in first:
        texts = [(tmp_path / side / one / "patch.yaml").read_text() for side in "ab"]
        assert texts[0] == texts[1]


def test_no_import_is_left_for_nothing(made_library, tmp_path):
    """Another body must not be made where an import is for the old one alone."""
    body = "import json\n\n\ndef third(x):\n    return json.dumps(x)\n"
    files = FILES | {f"vllm/n{number}.py": body.encode() for number in range(12)}
    for seed in range(3):
        ids = made_library.write_library(tmp_path / str(seed), files, 10, seed)
        patches = [load_patch(tmp_path / str(seed) / one, EVERYTHING) for one in ids]
        made = plan(patches, tree_of(files))
        assert {d.patch.id: d.state for d in made.decisions} == dict.fromkeys(ids, State.NEEDED)


def test_what_is_no_patch_is_not_listed(made_library, tmp_path):
    (tmp_path / "ruff.toml").touch()
    assert len(made_library.write_library(tmp_path, FILES, 5)) == 5
