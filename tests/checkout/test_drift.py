from __future__ import annotations

from contextlib import ExitStack

import pytest

from tests.projects import (
    ENGINE,
    LLAMA,
    NAME_PROJ,
    NO_SUCH,
    SLOW_MODE,
    git,
    opened,
    plan_of,
    write_patch,
)
from vpatch.checkout.apply import ApplyRequest, apply
from vpatch.checkout.drift import damage, drift
from vpatch.checkout.transaction import CheckoutTransaction
from vpatch.progress import Silent
from vpatch.util.digest import digest_of

pytestmark = pytest.mark.usefixtures("isolated")


@pytest.fixture
def tree(tmp_path):
    with opened(tmp_path) as tree:
        yield tree


@pytest.fixture
def patches(tmp_path):
    folder = tmp_path / "patches"
    return [
        write_patch(folder, "name-proj", NAME_PROJ),
        write_patch(folder, "slow-mode", SLOW_MODE),
    ]


@pytest.fixture
def target(tmp_path):
    return tmp_path / "out" / "vllm"


@pytest.fixture
def lock(tree, patches, target):
    with ExitStack() as stack:
        place = stack.enter_context(CheckoutTransaction(target, tree, Silent()))
        order = ApplyRequest(plan_of(tree, *patches), None, place)
        return apply([order], force=False, progress=Silent())[0].lock


def redeclare(folder, edits):
    write_patch(folder.parent, folder.name, edits)


def test_no_drift(tree, patches, lock):
    assert list(drift(lock, plan_of(tree, *patches))) == []


def test_drift_of_the_words_of_a_patch(tree, patches, lock):
    file = patches[0] / "patch.yaml"
    file.write_text(file.read_text().replace("never", "one day"))
    found = list(drift(lock, plan_of(tree, *patches)))
    assert found == ["name-proj was edited since it was locked"]


def test_drift_of_what_a_patch_makes(tree, patches, lock):
    redeclare(patches[1], SLOW_MODE.replace('"slow"', '"slower"'))
    made = plan_of(tree, *patches)
    now = digest_of(made.decisions[1].changes[ENGINE].after)
    assert list(drift(lock, made)) == [
        "slow-mode was edited since it was locked",
        f"{ENGINE}: the patches now make {now}, the lock has {lock.files[0].after}",
    ]


def test_drift_of_a_patch_that_does_not_fit(tree, patches, lock):
    redeclare(patches[1], NO_SUCH)
    found = list(drift(lock, plan_of(tree, *patches)))
    assert found[1].startswith("slow-mode is conflict, but the lock has it applied: ")
    assert found[2] == f"{ENGINE}: no patch changes it any more"
    assert len(found) == 3


def test_drift_to_another_file(tree, patches, lock):
    redeclare(patches[1], NAME_PROJ.replace("proj", "head"))
    made = plan_of(tree, *patches)
    now = digest_of(made.decisions[1].changes[LLAMA].after)
    assert list(drift(lock, made))[1:] == [
        f"{ENGINE}: no patch changes it any more",
        f"{LLAMA}: the patches now make {now}, the lock has {lock.files[1].after}",
    ]


def test_drift_of_a_file_that_the_lock_does_not_know(tree, patches, lock):
    short = lock.model_copy(update={"files": lock.files[1:]})
    assert list(drift(short, plan_of(tree, *patches))) == [
        f"{ENGINE}: a patch changes it, and the lock does not know"
    ]


@pytest.mark.usefixtures("lock")
def test_no_damage(lock, target):
    assert list(damage(lock, target)) == []


def test_damage_of_a_file(lock, target):
    (target / LLAMA).write_text("mine\n")
    (target / ENGINE).unlink()
    assert list(damage(lock, target)) == [
        f"{ENGINE}: is missing in the checkout",
        f"{LLAMA}: has other contents in the checkout than in the lock",
        f"changed or new: {ENGINE}",
        f"changed or new: {LLAMA}",
    ]


def test_damage_by_a_commit(lock, target):
    (target / LLAMA).write_text("mine\n")
    git(target, "commit", "-qam", "mine")
    head = git(target, "rev-parse", "--short=12", "HEAD").strip()
    assert list(damage(lock, target)) == [
        f"{LLAMA}: has other contents in the checkout than in the lock",
        f"commits of yours: refs/heads/vpatch is at {head}, not at {lock.head[:12]}",
    ]
