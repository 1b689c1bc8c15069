"""What the tests of git share."""

from __future__ import annotations

import pytest


@pytest.fixture
def script(tmp_path):
    """A program that leaves a mark when it runs."""
    folder = tmp_path / "programs"
    folder.mkdir()
    file = folder / "evil"
    file.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\nexit 1\n")
    file.chmod(0o755)
    yield file
    assert not (tmp_path / "ran").exists()
