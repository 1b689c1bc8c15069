from __future__ import annotations

import pytest

from tests.commands.compat.plugins import mutated, write_plugin
from tests.projects import archive


@pytest.fixture
def judged(project):
    """Judge the plugin in a release and in the next one, which changes something."""

    def judge(changes, of_both=()):
        project.index.add("0.50.0", archive("0.50.0", mutated(of_both)))
        files = mutated([*of_both, *changes])
        next_files = {path: files.get(path, b"") for path in files}
        project.index.add("0.51.0", archive("0.51.0", next_files))
        plugin = write_plugin(project.folder)
        run = project.run("compat", plugin, "--vllm", "0.50.0,0.51.0", "--json")
        assert run.json["base"] == "0.50.0"
        return run.json

    return judge
