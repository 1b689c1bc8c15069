from __future__ import annotations

import json

import pytest

from tests.commands.audit.cases import advisory, write_backport
from tests.commands.audit.mixed import mixed_tree


@pytest.fixture(scope="session")
def mixed(tmp_path_factory):
    return mixed_tree(tmp_path_factory.mktemp("mixed"))


@pytest.fixture
def holed(empty):
    """A project with a backport for the small vLLM, and a file with its advisory."""
    write_backport(empty.patches)
    row = advisory(fixed="0.60.0").model_dump(mode="json")
    (empty.folder / "new.json").write_text(json.dumps(row))
    return empty
