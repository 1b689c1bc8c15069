"""patches/decisions.json: it is of this code, and says what is decided anew."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest

from vpatch.library import catalog
from vpatch.library.catalog import installed
from vpatch.library.decisions import read_decisions
from vpatch.planning.answers import Answers
from vpatch.planning.footprint import digest_of_changes
from vpatch.planning.plan import plan
from vpatch.planning.recorded_plan import recorded_plan
from vpatch.source.spec import parse_vllm
from vpatch.source.tree import Pin
from vpatch.util.own_code import decider_digest
from vpatch.workspace.context import Context
from vpatch.workspace.selection import with_required

ROOT = installed("patches")
ANEW = "run python -m tests.record_decisions, and commit patches/decisions.json"


@pytest.fixture(scope="module")
def context():
    with Context() as opened:
        yield opened


@pytest.fixture(scope="module")
def table():
    return read_decisions(ROOT, decider_digest()).get("vllm")


def test_it_is_of_this_code_and_of_these_patches(context, table):
    assert table is not None, ANEW
    patches = {patch.id: patch for patch in context.library.load_all()}
    for patch_id, patch in patches.items():
        assert table.patches[patch_id].digest == patch.digest, ANEW
        recorded = {r for row in table.patches[patch_id].decisions for r in row.releases}
        assert recorded == set(patch.shapes.archives["vllm"]), ANEW
        assert set(patch.shapes.archives["vllm"].items()) <= set(table.archives.items()), ANEW
    usual = with_required(context.library.usual, context.library)
    in_series = [patch for patch in usual if patch.relations.on_request is None]
    assert dict(table.series["usual"]) == {patch.id: patch.digest for patch in in_series}, ANEW
    for patch in in_series:
        rows = table.patches[patch.id].decisions
        assert {r for row in rows for r in row.in_series.get("usual", ())} == set(table.archives), (
            ANEW
        )


def test_it_counts_wherever_the_library_lies(table, tmp_path, monkeypatch):
    """A wheel has the library elsewhere, and so has another checkout."""
    copy = tmp_path / "patches"
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(catalog, "installed", lambda kind: tmp_path / kind)
    for kind in ("recipes", "targets"):
        (tmp_path / kind).mkdir()
    (tmp_path / "elsewhere").mkdir()
    with Context(folder=tmp_path / "elsewhere", trust_everything=True) as elsewhere:
        patches = elsewhere.library.load_all()
        assert {root for root, _ in elsewhere.recorded_decisions} == {copy}
    ids = {patch.id for patch in patches}
    for release, digest in table.archives.items():
        pin = Pin("vllm", "pypi", release, digest, f"vllm-{release}.tar.gz")
        plan_of_release = recorded_plan(patches, pin, [(copy, table)], alone=ids)
        assert plan_of_release is not None, release


def releases():
    """All releases on record; a shard of CI takes two of them, which differ with each table."""
    recorded = read_decisions(ROOT, decider_digest()).get("vllm")
    names = list(recorded.archives) if recorded else []
    number = int(decider_digest(), 16) % max(len(names), 1)
    shown = {*names[-1:], *names[number : number + 1]}
    return [name if name in shown else pytest.param(name, marks=pytest.mark.full) for name in names]


@pytest.mark.slow
@pytest.mark.parametrize("release", releases())
def test_what_is_recorded_is_decided_anew(context, table, release):
    patches = context.library.load_all()
    usual = with_required(context.library.usual, context.library)
    on_request = {patch.id for patch in usual if patch.relations.on_request is not None}
    answers = Answers()
    with context.tree(parse_vllm(release)) as tree:
        series = [(patches, {one.id for one in patches}), (usual, on_request)]
        for path in context.library.recipes.values():
            listed = context.library.recipe_selection(path).patches
            series += [(context.library.load(listed), frozenset())] if listed else []
        for asked, alone in series:
            anew = plan(asked, tree, findings_for="none", alone=alone, answers=answers).decisions
            recorded = recorded_plan(asked, tree.pin, [(ROOT, table)], alone=alone)
            shown = [replace(one, changes={}, findings=()) for one in anew]
            assert list(recorded.decisions) == shown
            for one in anew if asked is patches else ():
                digests = [
                    row.changes.get(release)
                    for row in table.patches[one.patch.id].decisions
                    if release in row.releases
                ]
                assert digests == [digest_of_changes(one.changes) if one.changes else None]
