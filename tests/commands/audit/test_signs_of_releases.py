"""What advisories say of the code of releases is so: each line was looked for in each release."""

from __future__ import annotations

from dataclasses import replace

import pytest
from packaging.version import Version

from vpatch.commands.audit.judge import Status
from vpatch.commands.audit.signs import read_signs, recorded_signs
from vpatch.commands.audit.usecase import AuditRequest, audit
from vpatch.library.advisories import shipped_advisories
from vpatch.source.memory import ChangedTree
from vpatch.source.spec import parse_vllm
from vpatch.source.tree import Pin
from vpatch.workspace.context import Context

ADVISORIES = shipped_advisories().all
SIGNS = {one.id: one.sign for one in ADVISORIES if one.sign}


@pytest.fixture(scope="module")
def readings():
    """For each release on record, what the code says."""
    with Context() as context:
        versions = [one for one in context.releases() if Version(one) <= Version("0.33.0")]
        patches = [patch for patch in context.library.load_all() if patch.cures]
        found = {}
        for version in versions:
            with context.tree(parse_vllm(version)) as tree:
                signs = read_signs(shipped_advisories().all, tree, patches)
                recorded = recorded_signs(shipped_advisories().all, tree.pin, patches)
                assert recorded is not None
                assert {one: kind_of(recorded[one]) for one in recorded} == {
                    one: kind_of(signs[one]) for one in signs
                }
                found[version] = (signs, _elsewhere(tree))
        yield found


def _elsewhere(tree):
    """The ids of the advisories whose line is in any file of the same kind."""
    folders = {name: sign.files[0].partition("/")[0] for name, sign in SIGNS.items()}
    suffixes = (".py", ".cu", ".cuh", ".rs")
    paths = [one for one in tree.paths() if one.endswith(suffixes)]
    found = set()
    for name, sign in SIGNS.items():
        if sign.defect is None:
            continue
        text = sign.defect.encode()
        if folders[name] == "vllm":
            files = tree.containing(text)
        else:
            inside = [one for one in paths if one.startswith(f"{folders[name]}/")]
            files = {one for one in inside if text in tree.read(one)}
        if files:
            found.add(name)
    return found


@pytest.mark.parametrize("name", [name for name, sign in SIGNS.items() if sign.defect])
def test_a_sign_is_in_exactly_the_releases_that_it_names(name, readings):
    sign = SIGNS[name]
    defective = [
        version
        for version, (signs, _) in readings.items()
        if signs[name].defect and not signs[name].fix
    ]
    assert (defective[0], defective[-1]) == (sign.first, sign.last)
    assert all(sign.is_defective(version) for version in defective)
    assert [one for one in readings if sign.is_defective(one)] == defective
    later = [one for one in readings if Version(one) > Version(sign.last)]
    assert (later[0] if later else None) == sign.fixed


@pytest.mark.parametrize("name", [name for name, sign in SIGNS.items() if sign.defect])
def test_code_that_is_called_absent_is_nowhere(name, readings):
    """A line that moved to another file is no reason to say that it is not there."""
    absent = [
        v for v, (signs, _) in readings.items() if not (signs[name].defect or signs[name].fix)
    ]
    assert [version for version in absent if name in readings[version][1]] == []


def test_the_rust_front_end_is_in_no_release_before_it_came(readings):
    absent = [v for v, (signs, _) in readings.items() if "PYSEC-2026-4350" in signs]
    assert absent == ["0.20.0", "0.20.1", "0.20.2", "0.21.0"]


def test_what_is_recorded_is_what_is_read(readings):
    """A table of releases fetches nothing: the fixture compares both for each release."""
    for version, (signs, _) in readings.items():
        assert all(one.is_release for one in signs.values()), version


def test_another_archive_with_this_version_is_not_on_record():
    pin = Pin("vllm", "pypi", "0.23.0", f"sha256:{'0' * 64}", "vllm-0.23.0.tar.gz")
    with Context() as context:
        patches = [patch for patch in context.library.load_all() if patch.cures]
    assert recorded_signs(shipped_advisories().all, pin, patches) is None


def kind_of(reading):
    return "fix" if reading.fix else "defect" if reading.defect else "absent"


def test_a_release_that_known_patches_alone_changed_is_known():
    with Context() as context:
        patches = [patch for patch in context.library.load_all() if patch.cures]
        others = context.library.load(["draft-hf-config-path"])
        with context.tree(parse_vllm("0.23.0")) as tree:
            carried = frozenset(patch.id for patch in others)
            files = {"vllm/other.py": b"x = 1\n"}
            changed = ChangedTree(tree, files, carried, made_of=tree.pin)
            unknown = ChangedTree(tree, files, carried)
            more = replace(changed, carried=carried | {"my-own"})
            known = [
                {one.is_release for one in read_signs(ADVISORIES, each, known).values()}
                for each, known in [
                    (changed, [*patches, *others]),
                    # Nobody hands in the patch, the base is not known, or somebody else changed it.
                    (changed, patches),
                    (unknown, [*patches, *others]),
                    (more, [*patches, *others]),
                ]
            ]
    assert known == [{True}, {False}, {False}, {False}]


def test_patches_of_a_recipe_do_not_hide_what_its_release_does_not_have():
    with Context() as context:
        result = audit(context, AuditRequest(recipe="vllm-0.23"))
    findings = {one.advisory.id: one for one in result.trees[0].findings}
    for name in ("CVE-2026-90553", "CVE-2026-94624", "CVE-2026-100649"):
        assert findings[name].status is Status.NOT_AFFECTED, findings[name].reason
    patches = {one.patch.id for finding in findings.values() for one in finding.decisions}
    assert "draft-hf-config-path" not in patches
