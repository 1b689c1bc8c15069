from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from tests.commands.audit.cases import ID, advisory
from tests.commands.audit.openvex_model import Document
from tests.helpers import tree_of
from vpatch.commands.audit.judge import Status, judge
from vpatch.commands.audit.openvex import openvex
from vpatch.commands.audit.result import AuditedTree, AuditResult
from vpatch.commands.audit.signs import read_signs
from vpatch.library.advisories import Advisories
from vpatch.planning.plan import plan

AT = datetime(2026, 11, 23, tzinfo=UTC)
PATH = "vllm/server.py"
SIGN = {
    "files": [PATH, "vllm/moved.py"],
    "defect": "allow(key)",
    "fix": "allow(key, strict=True)",
    "first": "0.22.0",
    "last": "0.23.0",
    "fixed": "0.24.0",
    "read": "0.25.0",
}
HOLE = "def check(key):\n    return allow(key)\n"
# Another line of the fixed code has the text of the defect still.
FIXED = "def check(key):\n    # Was: allow(key)\n    return allow(key, strict=True)\n"
GONE = "def serve():\n    return 1\n"


def finding(code, version="0.23.0", *, kind="pypi", path=PATH, **sign):
    own = {"not_carried": "It is new.", "sign": SIGN | sign}
    one = advisory(database_specific={"severity": "HIGH", "vpatch": own})
    tree = tree_of({path: code}, version=version)
    is_release = kind == "pypi"
    readings = {
        name: replace(reading, is_release=is_release)
        for name, reading in read_signs([one], tree).items()
    }
    planned = plan([], tree, findings_for="all", alone=[])
    (found,) = judge([one], planned, readings=readings)
    return found, AuditedTree("it", planned, (found,))


@pytest.mark.parametrize(
    ("code", "version", "kind", "status", "reason", "stated"),
    [
        (HOLE, "0.23.0", "pypi", "affected", "use 0.24.0 or later", True),
        (HOLE, "0.23.0", "folder", "affected", "use 0.24.0 or later", True),
        (FIXED, "0.24.0", "pypi", "fixed", f"{PATH}:3 has upstream's fix; vLLM 0.24.0", True),
        (GONE, "0.20.0", "pypi", "not_affected", "the code that it is about is not there", True),
        # A comment is no code.
        ("# See allow(key).\n", "0.24.0", "folder", "not_affected", "is not there", False),
        (HOLE + "# allow(key, strict=True)\n", "0.23.0", "folder", "affected", "use 0.24", True),
        # Nobody read this code: the line alone proves nothing.
        (FIXED, "0.23.0", "folder", "under_investigation", "nobody has checked", True),
        (GONE, "0.23.0", "folder", "under_investigation", "nobody has checked", True),
        (GONE, "0.20.0", "folder", "under_investigation", "nobody has checked", True),
        (FIXED, "0.24.0", "folder", "not_affected", "its range does not have this", False),
        # A release that somebody patched by hand, or that an index of one's own has.
        (FIXED, "0.23.0", "pypi", "under_investigation", "nobody has checked", True),
        (GONE, "0.23.0", "pypi", "under_investigation", "nobody has checked", True),
        # A release after the last one that was read. The range says it, and the code agrees.
        (FIXED, "0.26.0", "pypi", "not_affected", "its range does not have this version", False),
        (GONE, "0.26.0", "pypi", "not_affected", "its range does not have this version", False),
        (HOLE, "0.26.0", "pypi", "affected", "no patch cures it", True),
        # To tell somebody to use 0.24.0 or later would help nobody there.
        (HOLE, "0.26.0", "pypi", "affected", "the defect was gone in 0.24.0", True),
        (HOLE, "0.24.0", "folder", "affected", "the defect was gone in 0.24.0", True),
        (HOLE, "0.24.0.dev1", "folder", "affected", "use 0.24.0 or later", True),
        (FIXED, "0.23.0+cpu", "pypi", "under_investigation", "nobody has checked", True),
    ],
)
def test_what_a_line_says(code, version, kind, status, reason, stated):
    found, tree = finding(code, version, kind=kind)
    assert (found.status, reason in found.reason) == (Status(status), True), found.reason
    assert bool(tree.stated) == stated


def test_the_place_of_the_defect_is_shown():
    found, _ = finding(HOLE)
    (place,) = found.places
    assert (place.where, place.what) == (f"{PATH}:2", "return allow(key)")
    assert (found.claimed, found.remark) == (True, None)


def test_the_code_decides_and_not_the_range():
    found, _ = finding(HOLE, "0.26.0")
    assert found.remark == "the advisory's range does not have this version; the code does"
    found, _ = finding(GONE, "0.20.0")
    assert found.remark == "the advisory's range has this version; the code does not"


def test_a_file_that_moved_is_read_too():
    assert finding(HOLE, path="vllm/moved.py")[0].status is Status.AFFECTED


@pytest.mark.parametrize(
    ("files", "status"),
    [
        # An installed package has no sources of what was compiled: it cannot tell.
        ({PATH: HOLE}, Status.UNKNOWN),
        ({PATH: HOLE, "pyproject.toml": ""}, Status.NOT_AFFECTED),
        ({PATH: HOLE, "pyproject.toml": "", "rust/Cargo.toml": ""}, Status.UNKNOWN),
    ],
)
def test_a_compiled_part_that_is_not_there(files, status):
    sign = {"files": ["rust/Cargo.toml"], "first": "0.22.0", "read": "0.25.0"}
    one = advisory(database_specific={"vpatch": {"not_carried": "It is compiled.", "sign": sign}})
    tree = tree_of(files, version="0.21.0")
    planned = plan([], tree, findings_for="all", alone=[])
    readings = {
        name: replace(reading, is_release=True) for name, reading in read_signs([one], tree).items()
    }
    (found,) = judge([one], planned, readings=readings)
    assert (found.advisory.id, found.status) == (ID, status)


def test_what_scanners_are_told_to_do():
    found, tree = finding(HOLE)
    document = json.loads(openvex(AuditResult(Advisories((), AT), (tree,)), AT))
    Document.model_validate_json(json.dumps(document))
    (statement,) = document["statements"]
    assert statement["action_statement"] == "No patch cures it; use 0.24.0 or later."
    assert found.severity == "high"
