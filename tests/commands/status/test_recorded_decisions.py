"""decisions.json: on a fresh machine, what is recorded is not decided again, nor is it fetched."""

from __future__ import annotations

import json

import pytest

from tests.projects import FILES, LLAMA, NO_SUCH, VERSION, archive
from vpatch.commands.status.usecase import status
from vpatch.library import catalog
from vpatch.library.decisions import DECISIONS, RecordedDecisions, write_decisions
from vpatch.workspace import context
from vpatch.workspace.context import Context
from vpatch.workspace.selection import Request

STATUS = ("status", "--vllm", VERSION)


@pytest.fixture
def recorded(project, monkeypatch, tmp_path):
    """A project whose patches are on record for one release. There are no others."""
    empty = tmp_path / "library"
    for kind in ("patches", "recipes", "targets"):
        (empty / kind).mkdir(parents=True)
    for user in (catalog, context):
        monkeypatch.setattr(user, "installed", lambda kind: empty / kind)
    project.run("test", "name-proj", "slow-mode", "--record", "--vllm", VERSION)
    return project


@pytest.fixture
def fresh(recorded, tmp_path):
    """The same, with an empty cache."""
    anew_on(recorded, tmp_path / "other cache")
    return recorded


def anew_on(project, cache):
    project.env["VPATCH_CACHE_DIR"] = str(cache)
    project.index.asked.clear()


def fetched(project):
    return project.index.count(".tar.gz")


def states(run):
    return [line.split()[:2] for line in run.out.splitlines()[1:]]


def cells(run):
    return [line.split() for line in run.out.splitlines()]


def change(project, edit):
    """Edit what is recorded, as a vpatch would write it."""
    root = project.patches
    rows = json.loads((root / DECISIONS).read_text())["trees"]["vllm"]
    edit(rows)
    write_decisions(root, {"vllm": RecordedDecisions.model_validate(rows)})


def test_what_is_recorded_is_not_fetched(fresh, tmp_path):
    run = fresh.run(*STATUS)
    assert fetched(fresh) == 0
    assert ["needed", "name-proj"] in states(run)
    assert fresh.run(*STATUS).out == run.out
    (fresh.patches / DECISIONS).unlink()
    anew_on(fresh, tmp_path / "third cache")
    assert fresh.run(*STATUS).out == run.out
    assert fetched(fresh) == 1


def test_each_alone_and_all_in_a_row_are_recorded(fresh):
    alone = fresh.run(*STATUS, "--patch", "slow-mode", "--json").json["trees"][0]["decisions"]
    together = fresh.run(*STATUS, "--json").json["trees"][0]["decisions"]
    assert fetched(fresh) == 0
    assert alone == [one for one in together if one["patch"] == "slow-mode"]
    assert {one["sureness"] for one in together if one["patch"] in {"slow-mode", "name-proj"}} == {
        "on record"
    }


def test_json_says_the_same_as_anew(fresh, tmp_path):
    before = fresh.run(*STATUS, "--json").json
    (fresh.patches / DECISIONS).unlink()
    anew_on(fresh, tmp_path / "third cache")
    assert fresh.run(*STATUS, "--json").json == before
    assert fetched(fresh) == 1


SERIES = ("status", "--vllm", f"{VERSION},0.51.0")
HALT = """
- find: launch($config, mode="fast")
  rewrite: launch($config, mode="medium")
"""


@pytest.fixture
def three(recorded, tmp_path):
    """Patches of which the second one is in the way of the third one, and the fourth one fails."""
    recorded.patch("other-halt", HALT)
    recorded.patch("tail", NO_SUCH)
    recorded.run("test", "--record", "--vllm", f"{VERSION},0.51.0", code=1)
    anew_on(recorded, tmp_path / "other cache")
    return recorded


def test_what_comes_before_a_patch_counts(three):
    run = three.run(*SERIES, code=1)
    assert fetched(three) == 0
    assert ["slow-mode", "C", "C"] in cells(run)
    assert "slow-mode in vllm 0.50.0, 0.51.0: fits the pristine tree, but not after" in run.out


def test_alone_it_is_something_else(three):
    assert ["slow-mode", "N", "N"] in cells(three.run(*SERIES, "--patch", "slow-mode"))
    assert fetched(three) == 0


def test_a_part_of_a_series_is_decided_anew(three):
    run = three.run(*SERIES, "--patch", "name-proj", "--patch", "slow-mode")
    assert ["slow-mode", "N", "N"] in cells(run)
    assert fetched(three) == 2


def test_what_stops_is_shown_with_its_lines(three):
    run = three.run(*STATUS, "--patch", "tail", code=1)
    assert fetched(three) == 1
    assert "llama.py:3: nearest: self.proj" in run.out


def test_a_changed_patch_is_decided_anew(three):
    file = three.patches / "tail" / "patch.yaml"
    file.write_text(file.read_text().replace("self.tail", "self.head"))
    assert ["tail", "N", "N"] in cells(three.run(*SERIES, "--patch", "tail"))
    assert fetched(three) == 2


def test_another_archive_is_decided_anew(three):
    llama = FILES[LLAMA].replace(b"self.head", b"self.tail")
    for version in (VERSION, "0.51.0"):
        three.index.add(version, archive(version, {LLAMA: llama}))
    assert ["tail", "N", "N"] in cells(three.run(*SERIES, "--patch", "tail"))


def test_a_context_may_leave_records_out(fresh, monkeypatch):
    for name, value in fresh.env.items():
        monkeypatch.setenv(name, value)
    with Context(folder=fresh.folder, uses_records=False) as anew:
        (row,) = status(anew, [VERSION], Request(patches=("name-proj",)))
    assert fetched(fresh) == 1
    assert str(row.plan.decisions[0].state) == "needed"


def test_what_other_code_decided_is_not_used(fresh):
    change(fresh, lambda rows: rows.update(decider="0" * 32))
    fresh.run(*STATUS)
    assert fetched(fresh) == 1


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text.replace('"state": "needed"', '"state": "absent"'),
        lambda text: text.replace('"reason": "1 place', '"reason": "9 places'),
        lambda text: text[: len(text) // 2],
        lambda text: text.replace('"schema_version": 1', '"schema_version": 2'),
        lambda _: "[]",
        lambda _: "",
        lambda text: text.replace('"reason"', '"why"'),
    ],
)
def test_what_is_damaged_is_not_used(fresh, damage):
    file = fresh.patches / DECISIONS
    text = damage(file.read_text())
    assert text != file.read_text()
    file.write_text(text)
    assert "name-proj  1 place to edit in 1 file\n" in fresh.run(*STATUS).out
    assert fetched(fresh) == 1


def test_without_its_shapes_a_patch_is_decided_anew(fresh):
    file = fresh.patches / "name-proj" / "shapes.json"
    shapes = json.loads(file.read_text())
    file.write_text(json.dumps({**shapes, "archives": {}}))
    fresh.run(*STATUS)
    assert fetched(fresh) == 1


@pytest.mark.parametrize(
    "edit",
    [lambda row: row.update(places=7), lambda row: row.update(files=["vllm/a.py"])],
)
def test_who_decides_anew_stops_at_a_record_that_says_something_else(fresh, edit):
    change(fresh, lambda rows: [edit(r) for r in rows["patches"]["name-proj"]["decisions"]])
    asked = ("apply", "--vllm", VERSION, "--patch", "name-proj")
    run = fresh.run(*asked, code=1)
    assert run.codes == ("planning.not-as-recorded",)
    assert fetched(fresh) == 1
    assert f"{fresh.patches.name}/{DECISIONS}: decisions.json says of name-proj in vllm" in run.err
    assert "`vpatch test name-proj --record` writes it anew" in run.err
    assert not (fresh.folder / "build").exists()
    # As the next step says.
    fresh.run("test", "name-proj", "--record", "--vllm", VERSION)
    fresh.run(*asked)


def test_who_decides_anew_goes_on_where_the_record_says_the_same(fresh):
    fresh.run("apply", "--vllm", VERSION, "--patch", "name-proj")
    assert fetched(fresh) == 1


def test_a_patch_that_lies_elsewhere_is_not_told_of(fresh, tmp_path):
    """A folder cannot say what the patches of another one mean alone: an audit reads that."""
    other = tmp_path / "elsewhere"
    other.mkdir()
    (fresh.patches / "slow-mode").rename(other / "slow-mode")
    run = fresh.run(*STATUS, "--patches-dir", str(other), "--patch", "slow-mode")
    assert ["needed", "slow-mode"] in states(run)
    assert fetched(fresh) == 1


def test_it_says_where_a_state_is_from(fresh):
    assert f"the plan for vllm-{VERSION} is recorded" in fresh.run("-v", *STATUS).err
