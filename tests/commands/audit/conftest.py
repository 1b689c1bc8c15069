from __future__ import annotations

import pytest

from tests.commands.audit.mixed import mixed_tree


@pytest.fixture(scope="session")
def mixed(tmp_path_factory):
    return mixed_tree(tmp_path_factory.mktemp("mixed"))
