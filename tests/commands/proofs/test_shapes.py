"""Shapes on record: `vpatch test --record`, and what every command says of new ones."""

from __future__ import annotations

import json
import shutil

import pytest

from tests.index_server import renamed, sdist
from tests.projects import FILES, LLAMA, VERSION, archive
from vpatch.library.shapes import BehaviourOnRelease, read_shapes, write_shapes

OWN = ("--patch", "name-proj")
CHANGED = FILES | {
    LLAMA: FILES[LLAMA].replace(b"def __init__(self, prefix)", b"def __init__(self, prefix, x=0)")
}
GONE = FILES | {LLAMA: FILES[LLAMA].replace(b"class Llama", b"class Alpaca")}


def shapes(project, patch_id="name-proj"):
    return read_shapes(project.folder / "patches" / patch_id)


@pytest.fixture
def recorded(project):
    """A project whose patches are on record for 0.50.0; 0.52.0 and 0.53.0 have other code."""
    project.index.add("0.52.0", archive("0.52.0", CHANGED))
    project.index.add("0.53.0", archive("0.53.0", GONE))
    run = project.run("test", "name-proj", "slow-mode", "--record", "--vllm", VERSION)
    assert (
        run.out
        == "recorded  name-proj  1 shape in 1 release\nrecorded  slow-mode  1 shape in 1 release\n"
    )
    return project


def test_a_record_has_the_definitions_of_each_release(recorded):
    (shape,) = shapes(recorded).shapes["vllm"]
    assert (shape.releases, shape.state) == ((VERSION,), "needed")
    assert f"{LLAMA}::Llama.__init__" in shape.definitions
    made = shape.patched.keys()
    assert made == shape.definitions.keys()
    assert shape.patched != shape.definitions
    run = recorded.run("test", "name-proj", "--record", "--json")
    (one,) = [s for s in run.json["shapes"] if "0.52.0" in s["releases"]]
    assert one["releases"] == ["0.52.0"]
    assert [s.releases for s in shapes(recorded).shapes["vllm"]] == [
        (VERSION, "0.51.0"),
        ("0.52.0",),
        ("0.53.0",),
    ]
    assert shapes(recorded).shapes["vllm"][2].state == "absent"


def test_a_release_in_which_a_patch_conflicts_is_left_out(project):
    project.patch("lost", "- find: nowhere()\n  rewrite: somewhere()\n")
    run = project.run("test", "lost", "--record", "--vllm", VERSION, code=1)
    assert "left out  lost  vLLM 0.50.0: conflict: " in run.out
    assert shapes(project, "lost").shapes == {"vllm": ()}


def test_status_marks_new_shapes(recorded):
    run = recorded.run("status", "--vllm", f"{VERSION},0.52,0.53", *OWN, code=1)
    lines = [line.split() for line in run.out.splitlines()]
    assert ["name-proj", "N", "N?", ".*"] in lines
    assert run.out.splitlines()[-1].startswith("? is a new shape")
    one = recorded.run("status", "--vllm", "0.52", *OWN)
    assert "new shape: differs from 0.50.0 in Llama.__init__" in one.out


def test_status_names_patches_without_a_record(project):
    run = project.run("status", "--vllm", VERSION, *OWN)
    assert "not on record for any code: name-proj (vpatch test --record)" in run.err
    assert "new shape" not in run.out


def test_why_shows_the_difference(recorded):
    run = recorded.run("status", "--vllm", "0.52", "--why", "name-proj")
    assert "-    def __init__(self, prefix):" in run.out
    assert "+    def __init__(self, prefix, x=0):" in run.out
    known = recorded.run("status", "--vllm", VERSION, "--why", "name-proj")
    assert "on record: this is the archive of 0.50.0; the code is as in 0.50.0" in known.out
    assert "not asked: no behaviour test is recorded" in known.out


def test_why_says_what_it_cannot_show(recorded):
    recorded.index.yanked.add(f"vllm-{VERSION}.tar.gz")
    recorded.run("status", "--vllm", "0.52", *OWN)
    shutil.rmtree(recorded.cache / "trees" / f"vllm-{VERSION}", ignore_errors=True)
    for folder in (recorded.cache / "trees").glob(f"*{VERSION}*"):
        shutil.rmtree(folder)
    run = recorded.run("status", "--offline", "--vllm", "0.52", "--why", "name-proj")
    assert f"the code of {VERSION} cannot be shown: " in run.out


def test_what_behaviour_proved_is_told(recorded):
    patch = json.loads(recorded.run("show", "name-proj", "--json").out)["result"]
    one = BehaviourOnRelease(
        test="test_it.py",
        engine="cpu",
        outcome="holds",
        state="needed",
        patch_digest=patch["digest"],
        test_digest="sha256:0",
    )
    folder = recorded.folder / "patches" / "name-proj"

    def told(result):
        behaviour = {"vllm": {VERSION: (result,)}}
        write_shapes(folder, shapes(recorded).model_copy(update={"behaviour": behaviour}))
        out = recorded.run("status", "--vllm", VERSION, "--why", "name-proj").out
        return out.splitlines()[-1].strip()

    assert told(one) == "by behaviour on cpu in 0.50.0"
    against = one.model_copy(update={"outcome": "contradicts", "reason": "it passed"})
    assert told(against) == "behaviour contradicts it in 0.50.0: it passed"
    idle = one.model_copy(update={"outcome": "not asked", "reason": "there is no engine"})
    assert told(idle) == "not asked: there is no engine"
    other = one.model_copy(update={"patch_digest": "sha256:other"})
    assert told(other).startswith("not asked: no behaviour test")


def test_another_edition_that_makes_the_same_keeps_its_proof(recorded):
    from tests.helpers import decide, tree_of
    from vpatch.library.loading import load_patch
    from vpatch.planning.footprint import digest_of_changes
    from vpatch.trust.decision import EVERYTHING

    folder = recorded.folder / "patches" / "name-proj"
    patch = load_patch(folder, EVERYTHING)
    result = BehaviourOnRelease(
        test="test_it.py",
        engine="cpu",
        outcome="holds",
        state="needed",
        patch_digest=patch.digest,
        test_digest="sha256:0",
        change_digest=digest_of_changes(decide(patch, tree_of(FILES)).changes),
    )
    behaviour = {"vllm": {VERSION: (result,)}}
    write_shapes(folder, shapes(recorded).model_copy(update={"behaviour": behaviour}))
    file = folder / "patch.yaml"
    declared = file.read_text()
    file.write_text(declared.replace("why: ", "why: now "))
    stale = recorded.run("status", "--vllm", VERSION, *OWN)
    assert "new shape: the record is of another edition of this patch" in stale.out
    recorded.run("test", "name-proj", "--record", "--vllm", VERSION)
    proven = recorded.run("status", "--vllm", VERSION, "--why", "name-proj")
    assert "by behaviour on cpu in 0.50.0" in proven.out
    file.write_text(declared.replace("{prefix}.proj", "{prefix}.other"))
    recorded.run("test", "name-proj", "--record", "--vllm", VERSION)
    changed = recorded.run("status", "--vllm", VERSION, "--why", "name-proj")
    assert "not asked: no behaviour test" in changed.out


def test_strict_makes_a_new_shape_a_finding(recorded):
    recorded.run("status", "--vllm", "0.52", *OWN)
    recorded.run("status", "--vllm", "0.52", *OWN, "--strict", code=1)
    recorded.run("status", "--vllm", VERSION, *OWN, "--strict")
    refused = recorded.run("apply", "--vllm", "0.52", *OWN, "--strict", code=1)
    assert "nothing was written: 1 patch without a sure state\n" in refused.err
    assert not (recorded.folder / ".vpatch" / "vllm-0.52.0").exists()
    done = recorded.run("apply", "--vllm", "0.52", *OWN)
    assert "new shape: differs from 0.50.0 in Llama.__init__" in done.out
    recorded.run("apply", "--vllm", VERSION, *OWN, "--strict")


def test_a_recipe_can_be_strict(recorded):
    (recorded.folder / "recipes").mkdir()
    recipe = recorded.folder / "recipes" / "mine.yaml"
    recipe.write_text("vllm: 0.52.0\npatches: [name-proj]\nstrict: true\n")
    recorded.run("apply", "--recipe", "mine", code=1)
    recorded.run("status", "--recipe", "mine", code=1)
    recipe.write_text("vllm: 0.52.0\npatches: [name-proj]\n")
    recorded.run("apply", "--recipe", "mine")
    assert "new shape" in recorded.run("check").out
    recipe.write_text("vllm: 0.52.0\npatches: [name-proj]\nstrict: true\n")
    drifted = recorded.run("check", code=1)
    assert "name-proj is needed: new shape: differs from 0.50.0" in drifted.out
    assert "next: vpatch status --recipe mine --why name-proj" in drifted.out


def test_check_knows_new_shapes(recorded):
    recorded.run("apply", "--vllm", "0.52", *OWN)
    told = recorded.run("check")
    assert "name-proj is needed: new shape: differs from 0.50.0 in Llama.__init__" in told.out
    assert "vpatch.lock: 1 difference\n" in recorded.run("check", "--strict", code=1).out
    assert recorded.run("check", "--json").json["new_shapes"] != []


def test_json_has_the_shape(recorded):
    run = recorded.run("status", "--vllm", "0.52", *OWN, "--json")
    ((one,),) = [tree["decisions"] for tree in run.json["trees"]]
    assert one["new_shape"] is True
    assert one["shape"]["nearest"] == VERSION
    assert one["shape"]["differing"] == [{"name": f"{LLAMA}::Llama.__init__", "kind": "changed"}]


def test_a_plan_in_the_cache_knows_the_record(project):
    before = project.run("status", "--vllm", VERSION, *OWN)
    assert "not on record" in before.err
    project.run("test", "name-proj", "--record", "--vllm", VERSION)
    for _ in range(2):
        assert "not on record" not in project.run("status", "--vllm", VERSION, *OWN).err


def for_plugin(project, claim):
    """The project's patch for the slow mode, as one for a plugin alone."""
    file = project.folder / "patches" / "slow-mode" / "patch.yaml"
    text = file.read_text()
    claimed = text.partition("needed-in: ")[2].partition("\n")[0]
    text = text.replace("text: class Llama", "text: def start")
    file.write_text(text.replace(claimed, f'{{vllm-ascend: "{claim}"}}'))


def add_plugin(project, version, mode):
    code = f'def start(config):\n    launch(config, mode="{mode}")\n'
    files = renamed("vllm-ascend") | {"vllm_ascend/engine.py": code.encode()}
    project.index.add(version, sdist(version, files, "vllm-ascend"), name="vllm-ascend")


def test_a_patch_without_a_release_to_read_gets_no_record(project):
    for_plugin(project, ">=0.1")
    named = project.run("test", "slow-mode", "--record", "--vllm", VERSION, code=2)
    assert named.codes == ("library.nothing-to-record",)
    both = project.run("test", "slow-mode", "name-proj", "--record", "--vllm", VERSION)
    assert "nothing is recorded of slow-mode: `needed-in` names no tree with a rel" in both.err
    assert both.out == "recorded  name-proj  1 shape in 1 release\n"
    unknown = project.run("test", "slow-mode", "--record", code=2)
    assert "nothing is recorded of vllm-ascend: no index knows the project" in unknown.err
    assert unknown.codes == ("library.nothing-to-record",)


def test_a_plugin_has_a_record_of_its_own(project):
    """Of the releases that `needed-in` admits, candidates too; and they are read again after."""
    for_plugin(project, ">=0.2,<0.4")
    for version in ("0.1", "0.2", "0.3rc1", "0.3", "0.4"):
        add_plugin(project, version, "slow" if version == "0.3" else "fast")
    run = project.run("test", "slow-mode", "--record", code=1)
    recorded, left_out = run.out.splitlines()
    assert recorded == "recorded  slow-mode  1 shape in 2 releases of vllm-ascend"
    assert left_out.startswith("left out  slow-mode  vllm-ascend 0.3: conflict: ")
    ((name, (shape,)),) = shapes(project, "slow-mode").shapes.items()
    assert (name, shape.releases, shape.state) == ("vllm-ascend", ("0.2", "0.3rc1"), "needed")
    asked = ("--tree", "vllm-ascend==0.4", "--patch", "slow-mode")
    told = project.run("status", *asked, "--why", "slow-mode", code=1).out
    assert "the code is as in 0.2, 0.3rc1, and what is around it as in" in told
    # A new edition of the patch: what is on record is read again, whatever is named.
    file = project.folder / "patches" / "slow-mode" / "patch.yaml"
    file.write_text(file.read_text() + "# again\n")
    again = project.run("test", "slow-mode", "name-proj", "--record", "--vllm", VERSION, "--json")
    assert [(one["tree"], one["releases"]) for one in again.json["shapes"]] == [
        ("vllm-ascend", ["0.2", "0.3rc1"]),
        ("vllm", [VERSION]),
    ]
    assert "nothing is recorded" not in again.err


def test_an_empty_release_is_not_all(project):
    project.run("test", "name-proj", "--record", "--vllm", "", code=2)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("releases", []),
        ("releases", ["newest"]),
        ("releases", [f"{VERSION}\x1b[31m"]),
        ("definitions", {"vllm/m.py": "0"}),
        ("state", None),
    ],
)
def test_a_damaged_record_is_an_error(recorded, key, value):
    file = recorded.folder / "patches" / "name-proj" / "shapes.json"
    found = json.loads(file.read_text())
    found["shapes"]["vllm"][0][key] = value
    file.write_text(json.dumps(found))
    for command in ("status", "test"):
        asked = ("test", "name-proj", "--record") if command == "test" else ("status", *OWN)
        run = recorded.run(*asked, "--vllm", VERSION, code=2)
        assert f"{file}: is not a record of shapes: shapes.vllm.0.{key}" in run.err
        assert "next: remove it, and run vpatch test name-proj --record" in run.err


def test_a_record_names_its_version(recorded):
    file = recorded.folder / "patches" / "name-proj" / "shapes.json"
    assert json.loads(file.read_text())["schema_version"] == 1


def test_two_that_record_at_once_lose_nothing(recorded, monkeypatch):
    """The first one writes while the second one reads releases."""
    from vpatch.commands.proofs import shape_records as recording

    def interrupted(*args):
        found = read(*args)
        file = recorded.folder / "patches" / "name-proj" / "shapes.json"
        file.write_text(file.read_text().replace(VERSION, "0.49.0"))
        return found

    read = recording._plan_alone
    monkeypatch.setattr(recording, "_plan_alone", interrupted)
    run = recorded.run("test", "name-proj", "--record", "--vllm", "0.51.0", in_process=True, code=4)
    assert run.codes == ("library.changed-shapes",)
    assert [s.releases for s in shapes(recorded).shapes["vllm"]] == [("0.49.0",)]


def test_a_checkout_is_known_by_what_the_patch_made(project):
    """Files that it creates and statements that it inserts are a part of that."""
    (project.folder / "patches" / "extra").mkdir(parents=True)
    (project.folder / "patches" / "extra" / "extra.py").write_text("def launch(x):\n    return x\n")
    project.patch(
        "extra",
        """
- add-file: vllm/extra.py
  from: extra.py
- insert: |
    from vllm.extra import launch
    launch(start)
  after: "def start(...): ..."
  files: vllm/engine.py
""",
        concerns="text: def start",
    )
    project.run("test", "extra", "--record", "--vllm", VERSION)
    project.run("apply", "--vllm", VERSION, "--patch", "extra", "--strict")
    checkout = f"./.vpatch/vllm-{VERSION}"
    applied = project.run("status", "--vllm", checkout, "--patch", "extra", "--strict")
    assert "applied     extra" in applied.out
    file = project.folder / checkout / "vllm" / "engine.py"
    file.write_text(file.read_text().replace("launch(start)", "launch(start) if 1 else 0"))
    run = project.run("status", "--vllm", checkout, "--patch", "extra", "--strict", code=1)
    assert "applied     extra" not in run.out or "new shape" in run.out
