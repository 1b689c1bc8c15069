"""What is decided fast is what the slow way decides, cell by cell and byte by byte.

`VPATCH_TEST_RELEASES=all` compares all known releases, and `0.23.0,0.24.0` these two.
`VPATCH_TEST_MUTANTS` is how many mutants are compared.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.planning.reference import decided, decided_slowly
from vpatch.planning.answers import Answers
from vpatch.planning.plan import plan
from vpatch.planning.state import State, overall_changes
from vpatch.source.memory import ChangedTree
from vpatch.source.spec import parse_tree, parse_vllm
from vpatch.workspace.context import Context

pytestmark = pytest.mark.slow
BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
ASKED = os.environ.get("VPATCH_TEST_RELEASES", "0.33.0")
MUTANTS = int(os.environ.get("VPATCH_TEST_MUTANTS", "12"))


@pytest.fixture(scope="module")
def context():
    with Context(trust_everything=True) as context:
        yield context


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """What is known of contents, kept and recalled between releases."""
    return tmp_path_factory.mktemp("answers") / "answers.db"


def patches_of(context):
    """All patches, but of the many backports every ninth, unless all releases are asked for."""
    found = context.library.load(sorted(context.library.patches))
    backports = [patch for patch in found if patch.declaration.resolves]
    left_out = [] if ASKED == "all" else [p for n, p in enumerate(backports) if n % 9]
    return [patch for patch in found if patch not in left_out]


def compare(patches, tree, file):
    slow = decided_slowly(patches, tree)
    found, recalled = Answers(file), Answers(file)
    assert decided(patches, tree, found) == slow
    assert decided(patches, tree, recalled) == slow
    for one in (found, recalled):
        one.close()


def releases():
    return Context().releases() if ASKED == "all" else ASKED.split(",")


@pytest.mark.parametrize("release", releases())
def test_a_release(context, answers, release):
    with context.tree(parse_vllm(release)) as tree:
        compare(patches_of(context), tree, answers)


@pytest.mark.parametrize("version", ["0.23.0", "0.30.0rc2"][: 2 if ASKED == "all" else 1])
def test_a_plugin(context, answers, version):
    with context.tree(parse_tree(f"vllm-ascend=={version}")) as tree:
        compare(patches_of(context), tree, answers)


def test_a_tree_that_has_patches_already(context, answers):
    patches = [
        context.library.patch(one) for one in ("mtp-proj-prefix", "cpu-spec-decode-fp64-gumbel")
    ]
    with context.tree(parse_vllm("0.23.0")) as tree:
        made = plan(patches, tree, findings_for="none")
        files = {path: change.after for path, change in overall_changes(made).items()}
        carried = frozenset(patch.id for patch in patches)
        patched = ChangedTree(tree, files, carried)
        compare(patches, patched, answers)
        assert {cell[1] for cell in decided(patches, patched)} == {State.APPLIED}
        # Without a lock, they count as upstream's.
        compare(patches, ChangedTree(tree, files, frozenset()), answers)


@pytest.fixture
def judge(monkeypatch):
    """The fuzzer's modules, which are no package of vpatch."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import mutants.bases
    import mutants.cases
    import mutants.judge

    yield mutants
    for name in [n for n in sys.modules if n.partition(".")[0] == "mutants"]:
        del sys.modules[name]


def test_mutants(judge, monkeypatch):
    made = []
    decide = judge.judge.decide
    monkeypatch.setattr(
        judge.judge,
        "decide",
        lambda patch, tree: (made.append((patch, tree)), decide(patch, tree))[1],
    )
    grounds = judge.bases.Grounds()
    with grounds.stack:
        pairs = [
            (case, release)
            for case in judge.cases.CASES
            for release in (*case.examples, "0.23.0")
            if release == "0.23.0" or case.examples
        ]
        for number in range(MUTANTS):
            case, release = pairs[number % len(pairs)]
            judge.judge.tried(grounds, case, release, 18, number)
    known = Answers()
    assert len(made) > MUTANTS * 2 / 3
    for patch, tree in made:
        slow = decided_slowly([patch], tree)
        assert decided([patch], tree, known) == slow
        assert decided([patch], tree, known) == slow
    assert len({cell[1] for patch, tree in made for cell in decided([patch], tree, known)}) > 2
