"""The backports in patches/security: what each is in all releases, and how close it is to upstream.

A backport may differ from upstream's cure where the older code does. Then its NOTES.md names the
definition and says why.
"""

from __future__ import annotations

import ast
import os
from collections import Counter

import pytest
from packaging.version import Version

from vpatch.commands.audit.judge import Status
from vpatch.commands.audit.usecase import AuditRequest, audit
from vpatch.commands.proofs.behaviour_records import digest_of_test, recorded
from vpatch.library.advisories import shipped_advisories
from vpatch.planning.plan import plan
from vpatch.planning.state import State
from vpatch.source.spec import parse_vllm
from vpatch.workspace.context import Context
from vpatch.workspace.plan_pool import plans_for
from vpatch.workspace.selection import Selection, with_required

KNOWN = {State.NEEDED, State.UPSTREAMED, State.ABSENT}


@pytest.fixture(scope="module")
def context():
    with Context(()) as opened:
        yield opened


@pytest.fixture(scope="module")
def backports(context):
    return [context.library.patch(name) for name in sorted(context.library.security)]


def test_each_backport_says_what_it_cures(backports):
    known = {name for one in shipped_advisories().all for name in one.names}
    for patch in backports:
        assert patch.declaration.resolves, patch.id
        assert {one.id for one in patch.declaration.resolves} <= known, patch.id


def test_each_backport_has_an_attack_that_was_run(context, backports):
    """In an engine the attack succeeds on the pristine release, and fails on the patched one."""
    for patch in backports:
        assert patch.declaration.proof, patch.id
        for proof in patch.declaration.proof:
            releases = {r for found in patch.shapes.behaviour.values() for r in found}
            outcomes = {outcome_of(context, patch, proof, release) for release in releases}
            assert "holds" in outcomes, f"{patch.id}: {proof.test}"
            assert outcomes <= {"holds", "not asked", None}, f"{patch.id}: {proof.test}"


def test_what_is_recorded_of_recipes_is_of_these_tests(context, backports):
    """A result for another edition of a patch or a test counts for nothing, so it must go."""
    stale = []
    for patch in backports:
        for release, results in patch.shapes.in_recipes.get("vllm", {}).items():
            tests = {proof.test: proof for proof in patch.declaration.proof}
            for one in results:
                digest = one.test and digest_of_test(context, patch, tests[one.test], release)
                if (one.patch_digest, one.test_digest) != (patch.digest, digest):
                    stale.append(f"{patch.id} {release} {one.test}")
                assert one.outcome == ("holds" if one.test else "not asked"), patch.id
    assert stale == []


@pytest.mark.slow
def test_all_backports_together_cure_0_23(context):
    """Some change one function. What they make together was attacked, too."""
    (tree,) = audit(context, AuditRequest(recipe="security-0.23.0")).trees
    read = {one.advisory.id: one.status for one in tree.findings if one.decisions}
    cured = {Status.FIXED, Status.NOT_AFFECTED}
    assert {name: status for name, status in read.items() if status not in cured} == {}
    assert Counter(read.values())[Status.FIXED] >= 29


def test_an_advisory_has_a_backport_or_a_reason(backports):
    cured = {one.id for patch in backports for one in patch.declaration.resolves}
    for advisory in shipped_advisories().all:
        assert (advisory.not_carried is None) == (not advisory.names.isdisjoint(cured)), advisory.id


@pytest.mark.slow
def test_each_backport_is_known_on_every_release(context, backports):
    """Decided anew in the first release of every second shape on record.

    `VPATCH_TEST_RELEASES=all` decides every release. `vpatch test --record` does so, too.
    """
    versions = sorted(context.releases(), key=Version)
    asked = {version: list(backports) for version in versions}
    if os.environ.get("VPATCH_TEST_RELEASES") != "all":
        asked = {version: [] for version in versions}
        for patch in backports:
            for shape in patch.shapes.shapes["vllm"][::2]:
                asked[min(shape.releases, key=Version)].append(patch)
    jobs = [
        Selection(
            parse_vllm(version), tuple(with_required([p.id for p in patches], context.library))
        )
        for version, patches in asked.items()
        if patches
    ]
    for made in plans_for(context, jobs, findings_for="none", each_alone=True):
        for decision in made.decisions:
            where = f"{decision.patch.id} in {made.pin.label}: {decision.reason}"
            assert decision.state in KNOWN, where
            assert decision.disagreement is None, where
            assert not decision.new_shape, where


@pytest.mark.slow
def test_each_backport_makes_what_upstream_made(context, backports):
    """Compared definition by definition with the first release that has the cure."""
    missing = {}
    for patch in backports:
        states = {
            release: shape.state
            for shape in patch.shapes.shapes["vllm"]
            for release in shape.releases
        }
        cured = sorted((r for r, s in states.items() if s == State.UPSTREAMED), key=Version)
        older = sorted((r for r, s in states.items() if s == State.NEEDED), key=Version)
        older = [r for r in older if cured and Version(r) < Version(cured[0])]
        if not older:
            continue
        patches = with_required([patch.id], context.library)
        with context.tree(parse_vllm(older[-1])) as tree:
            made = plan(patches, tree, findings_for="none", shapes=False, answers=context.answers)
        (decision,) = [one for one in made.decisions if one.patch.id == patch.id]
        with context.tree(parse_vllm(cured[0])) as tree:
            differing = [
                name
                for path, change in decision.changes.items()
                if path.endswith(".py") and change.before is not None and path in tree.package_files
                for name in unlike(change, tree.package_files[path])
            ]
        file = patch.folder / "NOTES.md"
        notes = file.read_text() if file.is_file() else ""
        unsaid = [name for name in differing if name.rpartition(".")[2] not in notes]
        if unsaid:
            missing[f"{patch.id}, {older[-1]} against {cured[0]}"] = unsaid
    assert missing == {}


def outcome_of(context, patch, proof, release):
    """What is recorded of a test, if neither it nor the patch has changed since."""
    digest = digest_of_test(context, patch, proof, release)
    found = recorded(patch, proof, release, digest)
    return found and found[1].outcome


def unlike(change, upstream):
    """The definitions that a patch changes, and that upstream's release has otherwise."""
    before, after, theirs = (definitions(code) for code in (change.before, change.after, upstream))
    changed = [name for name, code in after.items() if before.get(name) != code]
    return [name for name in changed if name in theirs and theirs[name] != after[name]]


def definitions(code):
    """Functions and methods by their qualified names, without what is defined in them."""
    found = {}

    def visit(node, above):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                found[".".join([*above, child.name])] = ast.dump(child)
            elif isinstance(child, ast.ClassDef):
                visit(child, [*above, child.name])
            elif isinstance(child, ast.If | ast.Try):
                visit(child, above)

    visit(ast.parse(code), [])
    return found
