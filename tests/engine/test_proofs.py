"""The library's behaviour tests, inside a real vLLM.

They make the cpu engine of vLLM 0.23.0 in the cache where it is missing: 6 GB.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pytest

from tests.engine.conftest import RELEASE, vpatch
from vpatch.checkout.hooks import run_hooks
from vpatch.commands.proofs.behaviour_records import digest_of_test, recorded
from vpatch.git.command import BASE_BRANCH
from vpatch.library.loading import load_patch
from vpatch.planning.footprint import digest_of_changes
from vpatch.planning.plan import plan
from vpatch.planning.state import State
from vpatch.progress import Silent
from vpatch.source.spec import parse_vllm
from vpatch.trust.decision import EVERYTHING
from vpatch.workspace.context import Context

pytestmark = pytest.mark.slow

PATCHES = Path(__file__).parents[2] / "patches"
DECLARATIONS = {path.parent.name: path for path in sorted(PATCHES.glob("*/patch.yaml"))}
# Patches are not loaded when this is imported. The last test compares both with what is loaded.
WITH_CPU_TEST = list(DECLARATIONS)
WITH_CUDA_TEST = [
    name
    for name, path in DECLARATIONS.items()
    if re.search(r"^[ -]*engine: cuda$", path.read_text(encoding="utf-8"), re.MULTILINE)
]


@pytest.fixture(scope="module")
def evidence(tmp_path_factory):
    """The folder that the behaviour tests here leave their evidence in."""
    return tmp_path_factory.mktemp("evidence")


# What runs anyway: it guards the way, and not the patch alone. `PROPOSED` has to leave evidence.
ALWAYS = ("mtp-proj-prefix", "cpu-spec-decode-expand-copy-back", "cve-2026-93592")


def skip_what_is_on_record(patch_id):
    """Skip tests whose result is kept beside the patch, as `vpatch test --record` does.

    A result counts only for these bytes of patch and test, and if the patch makes the same of the
    release as it did then. `VPATCH_TEST_RELEASES=all` runs all.
    """
    if os.environ.get("VPATCH_TEST_RELEASES") == "all" or patch_id in ALWAYS:
        return
    with Context(trust_everything=True) as context, context.tree(parse_vllm(RELEASE)) as tree:
        (patch,) = context.library.load([patch_id])
        (decision,) = plan([patch], tree, findings_for="none").decisions
        if decision.state in {State.ABSENT, State.UPSTREAMED}:
            pytest.skip(f"the patch is {decision.state} in {RELEASE}: nothing fails there")
        change = digest_of_changes(decision.changes)
        tests = [proof for proof in patch.declaration.proof if proof.engine == "cpu"]
        digests = [digest_of_test(context, patch, proof, RELEASE) for proof in tests]
        found = [
            recorded(patch, proof, RELEASE, digest)
            for proof, digest in zip(tests, digests, strict=True)
        ]
    if all(one and (one[1].outcome, one[1].change_digest) == ("holds", change) for one in found):
        pytest.skip("this patch and its tests are on record as they are")


def run_proofs(patch_id, evidence):
    return vpatch(
        "test", patch_id, "--engine", "cpu", "--vllm", RELEASE, "--evidence-dir", evidence, "--json"
    )


@pytest.mark.usefixtures("cpu_engine")
@pytest.mark.parametrize("patch_id", WITH_CPU_TEST)
def test_fails_before_and_passes_after(patch_id, evidence):
    skip_what_is_on_record(patch_id)
    run = run_proofs(patch_id, evidence)
    assert run.returncode == 0, run.stdout + run.stderr
    declared = load_patch(PATCHES / patch_id, EVERYTHING).declaration.proof
    documents = json.loads(run.stdout)["result"]["behaviour_tests"]
    assert len(documents) == sum(proof.engine == "cpu" for proof in declared)
    for document in documents:
        assert any(test["outcome"] == "failed" for test in document["pristine"]["tests"])
        assert all(test["outcome"] == "passed" for test in document["patched"]["tests"])


# All backports would take a quarter of an hour. tests/commands/audit/test_backports.py checks that
# the attack of each was run, and that neither it nor the patch has changed since.
ATTACKS = ("cve-2026-54235", "cve-2026-93592", "ghsa-rhcx-5729-88vg")


@pytest.mark.usefixtures("cpu_engine")
@pytest.mark.parametrize("patch_id", ATTACKS)
def test_an_attack_succeeds_before_and_fails_after(patch_id, evidence):
    skip_what_is_on_record(patch_id)
    run = run_proofs(patch_id, evidence)
    assert run.returncode == 0, run.stdout + run.stderr


# Of those that need no network.
GREEN = {
    "needed upstream",
    "stands alone",
    "evidence",
    "test for upstream",
    "title",
    "size",
    "sign-off",
    "upstream's hooks",
}
PROPOSED = "cpu-spec-decode-expand-copy-back"


@pytest.fixture(scope="module")
def upstream(tmp_path_factory):
    """A git repository made from the newest release, and a person who commits."""
    folder = tmp_path_factory.mktemp("upstream")
    repository = folder / "vllm.git"
    session = Context()
    with session.tree(parse_vllm("latest")) as tree:
        shutil.copytree(tree.base_repository(Silent())[0], repository)
        # What the hooks need is installed now: with --offline they have no network.
        hooks = session.target("vllm").hooks
        run_hooks(tree, hooks, {"README.md": b"\n"}, session.cache.answers("pre-commit"), Silent())
    person = folder / "gitconfig"
    person.write_text("[user]\n\tname = Pat Person\n\temail = pat@example.com\n")
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": str(person)}

    def dry_run(patch_id, *args):
        where = ["--onto", f"{repository}@{BASE_BRANCH}", "--offline", "--json"]
        run = vpatch("upstream-pr", patch_id, *where, *args, env=environment)
        document = json.loads(run.stdout)["result"]
        return document, {gate["name"]: gate for gate in document["gates"]}, run.returncode

    return dry_run


@pytest.mark.usefixtures("cpu_engine")
def test_a_patch_that_is_needed_on_the_newest_release(upstream, evidence):
    """All that needs no network is in order; that others propose it stops it all the same."""
    if not list(evidence.glob(f"{PROPOSED}-*")):  # this test was run alone
        assert run_proofs(PROPOSED, evidence).returncode == 0
    document, gates, code = upstream(PROPOSED, "--evidence-dir", evidence)
    assert {name for name, gate in gates.items() if gate["verdict"] == "pass"} == GREEN, gates
    failed = [gate for gate in gates.values() if gate["verdict"] == "fail"]
    assert [gate["said"] for gate in failed] == [
        "open already: vllm-project/vllm#55006 (same change)"
    ]
    assert code == 1
    assert document["files"] == [
        "tests/v1/sample/test_rejection_sampler.py",
        "vllm/utils/cpu_triton_utils.py",
    ]
    assert "bug" in document["labels"]
    for said in (
        "## Overview",
        "Related: #55005, #55006, #42638",
        'pytest tests/v1/sample/test_rejection_sampler.py -v -k "test_cpu_expand_kernel',
        "| `test_cpu_expand_kernel_writes_callers_dtype[float32]` | failed | passed |",
        "| `test_an_engine_samples_as_its_requests_ask` | failed | passed |",
        "AssertionError: Tensor-likes are not equal!",
        "**Limits**",
        f"**Results**, of vLLM {RELEASE} as it is installed",
        "- [x] AI assistance was used",
    ):
        assert said in document["body"]


@pytest.mark.parametrize(
    ("patch_id", "ref", "release"),
    [
        ("mtp-proj-prefix", "vllm-project/vllm#44821", "0.24.0"),
        ("cpu-spec-decode-fp64-gumbel", "vllm-project/vllm#46069", "0.25.0"),
    ],
)
def test_a_patch_that_upstream_has(upstream, patch_id, ref, release):
    document, gates, code = upstream(patch_id)
    gate = gates["needed upstream"]
    assert (gate["verdict"], code) == ("fail", 1)
    assert gate["said"].startswith("upstream has it: ")
    assert f"{ref} (pull request, same change, merged, released in {release})" in gate["said"]
    assert document["diff"] == document["body"] == ""


@pytest.mark.cuda
@pytest.mark.skipif(not Path("/dev/nvidiactl").exists(), reason="no NVIDIA GPU here")
@pytest.mark.parametrize("patch_id", WITH_CUDA_TEST)
def test_fails_before_and_passes_after_on_a_gpu(patch_id):
    run = vpatch("test", patch_id, "--engine", "cuda", "--vllm", RELEASE)
    assert run.returncode == 0, run.stdout + run.stderr


def test_every_patch_has_a_behaviour_test():
    engines = {
        name: {proof.engine for proof in load_patch(path.parent, EVERYTHING).declaration.proof}
        for name, path in DECLARATIONS.items()
    }
    assert [name for name, kinds in engines.items() if "cpu" in kinds] == WITH_CPU_TEST
    assert [name for name, kinds in engines.items() if "cuda" in kinds] == WITH_CUDA_TEST
