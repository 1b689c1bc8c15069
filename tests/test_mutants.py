"""The fuzzer's oracles on releases and on what vpatch makes of them, and a short run of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

# benchmarks/RESULTS.md describes the fuzzer.
pytestmark = [pytest.mark.slow, pytest.mark.full]

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
# Releases in which a patch is needed, upstreamed and absent.
RELEASES = {
    "mtp-proj-prefix": (["0.20.0", "0.23.0"], ["0.24.0", "0.33.0"], []),
    "draft-hf-config-path": (["0.20.0", "0.23.0"], [], []),
    "o-proj-bf16-fallback": (["0.20.0", "0.22.1", "0.23.0", "0.29.0"], ["0.30.0", "0.33.0"], []),
    "cpu-spec-decode-expand-copy-back": (["0.20.0", "0.23.0", "0.33.0"], [], []),
    "cpu-spec-decode-fp64-gumbel": (["0.23.0", "0.24.0"], ["0.25.0", "0.33.0"], ["0.22.1"]),
    "cpu-spec-decode-synthetic-mode": (["0.20.0", "0.20.2"], ["0.21.0", "0.33.0"], []),
    "cpu-slot-mapping-block-size": (["0.32.0"], ["0.33.0"], ["0.31.0"]),
    "mamba-fewer-blocks": (["0.20.0", "0.22.1"], ["0.23.0", "0.33.0"], []),
    "mamba-state-shape-num-spec": (["0.20.0", "0.31.0"], ["0.32.0", "0.33.0"], []),
    "deepgemm-next-n-3": (["0.20.0", "0.23.0", "0.29.0", "0.33.0"], [], []),
    "deepgemm-next-n-3-kernel": (["0.20.0", "0.23.0", "0.24.0"], [], ["0.25.0", "0.33.0"]),
    "import-time-op-compat": (["0.20.0", "0.23.0", "0.33.0"], [], []),
    "optional-disable-inplace": (["needed-0.17", "needed-0.22", "needed-0.23"], [], ["0.22.1"]),
}
# Their files are long.
LONG = {"deepgemm-next-n-3", "import-time-op-compat"}
CASES = [
    (patch, release, answer)
    for patch, lists in RELEASES.items()
    for answer, releases in zip(["defect", "cured", "absent"], lists, strict=True)
    for release in releases
]


@pytest.fixture(scope="module")
def fuzzer():
    """The fuzzer's modules, which are no package of vpatch."""
    sys.path.insert(0, str(BENCHMARKS))
    import mutants.bases
    import mutants.cases
    import mutants.scene

    yield mutants
    sys.path.remove(str(BENCHMARKS))
    for name in [n for n in sys.modules if n.partition(".")[0] == "mutants"]:
        del sys.modules[name]


@pytest.fixture(scope="module")
def grounds(fuzzer):
    found = fuzzer.bases.Grounds()
    yield found
    found.stack.close()


@pytest.mark.parametrize(("patch", "release", "answer"), CASES)
def test_an_oracle_tells_releases_apart(fuzzer, grounds, patch, release, answer):
    case = fuzzer.cases.BY_PATCH[patch]
    found = grounds.of(case, release)
    pristine = found["pristine"]
    assert fuzzer.scene.judged(case.oracle, pristine.scene(pristine.files)) == answer
    if answer == "defect":
        patched = found["patched"]
        assert fuzzer.scene.judged(case.oracle, patched.scene(patched.files)) == "cured"


def test_no_decision_on_a_mutant_is_wrong_without_a_mark(tmp_path):
    report = tmp_path / "report.json"
    command = [sys.executable, BENCHMARKS / "mutate.py", "--count", "810", "--json", report]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1800)
    results = json.loads(report.read_text()) if report.exists() else []
    judged = [result for result in results if result["verdict"]]
    assert len(judged) >= 800, done.stdout + done.stderr
    assert {result["patch"] for result in judged} == set(RELEASES)
    wrong = {"crash", "silent", "wrong edit", "twice"}
    unmarked = [one for one in judged if one["verdict"] in wrong and not one["new_shape"]]
    assert unmarked == []
    assert not any(result["verdict"] == "crash" for result in judged)
    # In a tree that a lock names, somebody changed what the patch made.
    harmless = [r for r in judged if r["mark"] == "harmless" and r["kind"] != "patched"]
    needless = [result for result in harmless if result["verdict"] == "needless conflict"]
    assert len(needless) <= 0.04 * len(harmless)


@pytest.mark.parametrize("patch", sorted(set(RELEASES) - LONG - {"optional-disable-inplace"}))
def test_a_release_with_the_files_of_a_case_has_a_known_shape(fuzzer, grounds, patch):
    case = fuzzer.cases.BY_PATCH[patch]
    decision = fuzzer.bases.decide(grounds.patch(case), grounds.of(case, "0.23.0")["pristine"].tree)
    assert not decision.new_shape
