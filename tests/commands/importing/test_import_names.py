"""`vpatch import` of code whose imports have no use: a note. A name without a definition: none."""

from __future__ import annotations

import pytest

from tests.projects import ENGINE, FILES, archive, write_tree

BEFORE = b"""from vllm.config import Config
from vllm.tools import helper


def start(config: Config):
    return helper(config)
"""
PROBE = """
try:
    from vllm.tools import fast
except ImportError:
    HAS_FAST = False
else:
    HAS_FAST = True
"""


@pytest.fixture
def imported(empty):
    empty.index.add("0.51.0", archive("0.51.0", {ENGINE: BEFORE}))

    def run(after, *, code=0):
        write_tree(empty.folder / "mine", FILES | {ENGINE: after})
        args = ("--from-tree", "mine", "--id", "fix", "--vllm", "0.51.0", "--releases", "none")
        return empty.run("import", *args, code=code)

    return run


@pytest.mark.parametrize(
    ("after", "name"),
    [
        (BEFORE + PROBE.encode(), "vllm.tools.fast"),
        (BEFORE.replace(b"helper(config)", b"config"), "vllm.tools.helper"),
        # As a monkey patch without annotations leaves it.
        (BEFORE.replace(b"config: Config", b"config"), "vllm.config.Config"),
        (
            BEFORE.replace(b"config: Config):", b"config):\n    # type: (Config) -> str"),
            "vllm.config.Config",
        ),
        (b"from vllm.tools import more as more\n" + BEFORE, "vllm.tools.more"),
        (
            b"from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    import os\n" + BEFORE,
            "os",
        ),
    ],
)
def test_an_import_without_a_use_is_a_note(empty, imported, after, name):
    run = imported(after)
    assert f"nothing in the file uses the import of {name} any more" in run.out
    empty.run("apply", "--vllm", "0.51.0", "--patch", "fix")
    status = ("status", "--vllm", "0.51.0", "--why", "fix")
    assert f"nothing uses the import of {name} after the patch" in empty.run(*status).out


def test_names_that_all_exports_have_a_use(imported):
    run = imported(b'__all__ = ["os", "start"]\n\nimport os\n' + BEFORE)
    assert "nothing in the file uses" not in run.out


@pytest.mark.parametrize(
    "after",
    [
        BEFORE.replace(b"helper(config)", b"helpr(config)"),
        BEFORE.replace(b"config: Config", b"config: Confg"),
        b'__all__ = ["stop"]\n' + BEFORE,
    ],
)
def test_a_name_without_a_definition_is_an_error(imported, after):
    assert imported(after, code=1).codes == ("importing.not-provable",)
