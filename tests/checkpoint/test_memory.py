"""A checkpoint as large as real ones are, made of holes: only its headers take space."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.checkpoint import builders as b

MEASURED = f"""
{b.PEAK}
import sys
from vpatch.checkpoint.findings import findings_of
from vpatch.checkpoint.tokenizer import Tokenizer
from vpatch.checkpoint.files import FolderFiles
from vpatch.checkpoint.inspection import inspect
from pathlib import Path
found = inspect(FolderFiles(Path(sys.argv[1])))
size = sum(amount.size for amount in found.by_dtype.values())
kinds = [one.kind for one in findings_of(found, Tokenizer(None), None) if one.fault]
print(peak(), size, *kinds)
"""


@pytest.fixture
def checkpoint(tmp_path):
    folder = b.large_v4(tmp_path / "large")
    assert sum(p.stat().st_blocks for p in folder.iterdir()) * 512 < 100e6
    yield folder
    # A copy of it by somebody else would not be made of holes.
    for path in folder.iterdir():
        path.unlink()


@pytest.mark.slow
def test_it_is_looked_at_in_little_memory(checkpoint):
    command = [sys.executable, "-c", MEASURED, str(checkpoint)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    memory, size, *kinds = done.stdout.split()
    assert int(size) > 70e9
    assert sorted(kinds) == ["ignore-names", "mtp-format"]
    assert int(memory) < 300e6
