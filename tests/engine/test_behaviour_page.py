"""The page on behaviour tests, followed from nothing to green in a real vLLM."""

from __future__ import annotations

import pytest

from tests import documents

TRUST = "```bash\nvpatch trust"


@pytest.mark.usefixtures("cpu_engine")
def test_the_page_ends_in_a_test_that_holds(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    folder = tmp_path / "project"
    folder.mkdir()
    before, _, after = documents.page("how-to/write-a-behaviour-test.md").partition(TRUST)
    assert documents.followed(before, folder) == (2, 2)
    documents.run("vpatch trust patches/low-temperature", folder)
    assert documents.followed(after, folder) == (0, 1)
