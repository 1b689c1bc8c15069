"""vpatch smoke and vpatch evidence, with a vLLM of a few lines."""

from __future__ import annotations

import hashlib
import json
import shutil
import signal
import sys
from pathlib import Path

import pytest

from tests.commands.conftest import ROOT
from tests.commands.smoke.fake_vllm import FAKE
from tests.commands.smoke.planned import EDITS, PLAN
from tests.projects import FILES, VERSION, archive, write_patch, write_tree
from vpatch import api
from vpatch.commands.smoke.usecase import SmokeOptions
from vpatch.evidence.documents import document_of
from vpatch.evidence.store import read_evidence

pytestmark = pytest.mark.slow

LAYER = "vllm/layer.py"


def smoke(project, *args, **options):
    return project.run(
        "smoke", "--vllm", "0.50", "--engine", sys.executable, "--name", "one", *args, **options
    )


@pytest.fixture(scope="module")
def first_run(tmp_path_factory):
    """Where the evidence of one run is kept, beside the checkpoint that it ran."""
    folder = tmp_path_factory.mktemp("first")
    (folder / "model").mkdir()
    (folder / "model" / "config.json").write_text("{}")
    return folder


@pytest.fixture
def evidenced(smoked, first_run):
    """A project with the evidence `one` of a run that passed, which the first test made for all."""
    smoked.recipe.write_text(PLAN.replace("MODEL", str(first_run / "model")))
    evidence = smoked.folder / "evidence"
    if (first_run / "evidence").exists():
        shutil.copytree(first_run / "evidence", evidence)
    else:
        smoke(smoked)
        shutil.copytree(evidence, first_run / "evidence")
    return smoked


def have_cells(project, words):
    """Let the plan have other cells than all of k = 0 and 2."""
    text = project.recipe.read_text()
    assert "k: [0, 2]" in text
    project.recipe.write_text(text.replace("k: [0, 2]", words))


def fail_with(project, fault):
    text = project.recipe.read_text()
    project.recipe.write_text(
        text.replace("    max-tokens", f"    environment: {{FAKE_FAULT: {fault}}}\n    max-tokens")
    )


def test_a_run_and_its_evidence(smoked):
    before = {path: path.read_bytes() for path in smoked.site.rglob("*.py")}
    run = smoke(smoked)
    modules, spawned, *lines = run.out.splitlines()
    assert modules == "after   pass     modules, main process         2 of 2"
    assert spawned == "after   pass     modules, spawned process      2 of 2"
    assert lines[0].startswith("after   pass     given k=0 offline")
    assert "6 drafts, 12 of 12 accepted [6, 6], rate 1.000, length 3.00" in lines[1]
    assert lines[-1] == "4 of 4 cells pass; evidence: evidence/one"
    assert "after, 4 of 4: given k=2 server\n" in run.err
    assert "collect_env" not in run.err
    folder = smoked.folder / "evidence" / "one"
    names = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert names == {
        "results.json",
        "report.md",
        "statement.json",
        "environment.txt",
        "logs/after-imports.log",
        "logs/after-01-given-k-0-offline.log",
        "logs/after-02-given-k-2-offline.log",
        "logs/after-03-given-k-0-server.log",
        "logs/after-04-given-k-2-server.log",
    }
    assert (folder / "environment.txt").read_text() == "a fake environment\n"
    record = json.loads((folder / "results.json").read_text())
    assert document_of(read_evidence(folder).record) == record  # as its model says
    (tree,) = record["subject"]
    (patch,) = tree["patches"]
    assert patch["id"] == "strength"
    assert [file["path"] for file in tree["files"]] == [LAYER]
    (_, cell, *_) = record["cells"]
    files = next(check for check in cell["checks"] if check["name"] == "patched files")
    assert (files["verdict"], files["figure"]) == ("pass", "1 file")
    assert record["models"]["given"]["model"] == str(smoked.folder / "model")
    assert {c["figure"] for c in record["imports"]["after"]} == {"2 of 2"}
    assert before == {path: path.read_bytes() for path in smoked.site.rglob("*.py")}


def test_an_environment_that_cannot_be_collected_is_noted(smoked):
    (smoked.site / "vllm" / "collect_env.py").write_text("raise SystemExit(3)\n")
    have_cells(smoked, "k: [0], modes: [offline]")
    run = smoke(smoked)
    assert "vllm.collect_env ended with 3; see environment.txt\n" in run.err
    assert run.code == 0


def test_evidence_that_matches_until_the_patch_is_another(evidenced):
    assert evidenced.run("evidence", "list").out.endswith("  passed  matches\n")
    assert "one matches (passed, sha256:" in evidenced.run("evidence", "verify", "one").out
    write_patch(evidenced.patches, "strength", EDITS.replace("2", "3"), concerns="text: STRENGTH")
    assert evidenced.run("evidence", "list").out.endswith("  passed  no longer matches\n")
    run = evidenced.run("evidence", "verify", "one", code=1)
    assert run.out.splitlines()[:2] == [
        "not what would be run now: the patch strength has changed",
        "not what would be run now: vllm/layer.py has changed",
    ]
    assert evidenced.run("evidence", "verify", "one", "--json", code=1).json["changed"] == []


def test_a_recipe_in_a_file_of_its_own(smoked):
    have_cells(smoked, "k: [0]")
    smoked.recipe.rename(smoked.folder / "mine.yaml")
    args = ("--recipe", "./mine.yaml", "--engine", sys.executable, "--name", "one", "--trust")
    assert "2 of 2 cells pass" in smoked.run("smoke", *args).out
    assert "one matches (passed, sha256:" in smoked.run("evidence", "verify", "one").out


def test_evidence_that_was_changed(evidenced):
    report = evidenced.folder / "evidence" / "one" / "report.md"
    shown = evidenced.run("evidence", "show", "one").out
    assert shown == report.read_text()
    assert shown.startswith("## Smoke run: passed\n")
    report.write_text(shown.replace("passed", "failed"))
    run = evidenced.run("evidence", "verify", "one", code=1)
    assert "changed since it was written: report.md\n" in run.out
    run = evidenced.run("evidence", "show", "one", code=1)
    assert run.out == ""
    assert run.codes == ("evidence.changed",)
    assert (
        "evidence/one: it was changed since it was written, so it is not shown: report.md"
        in run.err
    )
    run = evidenced.run("evidence", "show", "one", "--json", code=1)
    assert run.json_errors[0]["what"].endswith("not shown: report.md")
    report.write_text(shown)
    assert evidenced.run("evidence", "show", "one").out == shown


def test_evidence_without_a_statement_is_not_shown(evidenced):
    (evidenced.folder / "evidence" / "one" / "statement.json").unlink()
    run = evidenced.run("evidence", "show", "one", code=1)
    assert "not shown: statement.json cannot be read" in run.err


def test_evidence_that_was_made_up(evidenced):
    """The statement over it is not signed; but what contradicts itself is found."""
    folder = evidenced.folder / "evidence" / "one"
    record = json.loads((folder / "results.json").read_text())
    for made_up, said in (
        (record | {"digest": "sha256:" + "0" * 64}, "results.json: its digest"),
        (record | {"result": "failed"}, "results.json: its result"),
    ):
        (folder / "results.json").write_text(json.dumps(made_up))
        statement = json.loads((folder / "statement.json").read_text())
        files = {one["name"]: one for one in statement["predicate"]["configuration"]}
        digest = hashlib.sha256((folder / "results.json").read_bytes()).hexdigest()
        files["results.json"]["digest"]["sha256"] = digest
        (folder / "statement.json").write_text(json.dumps(statement))
        run = evidenced.run("evidence", "verify", "one", code=1)
        assert f"changed since it was written: {said}\n" in run.out
        assert evidenced.run("evidence", "list").out.endswith("  no longer matches\n")


def test_another_smoke_plan_is_said(evidenced):
    have_cells(evidenced, "k: [0]")
    run = evidenced.run("evidence", "verify", "one", code=1)
    assert "not what would be run now: the smoke plan has changed\n" in run.out


def test_a_tree_of_ones_own_is_what_runs(smoked):
    """What differs from the installed release is laid over it, and not only what patches touch.

    The fake has two of the small vLLM's files not.
    """
    files = {path: text.encode() for path, text in FAKE.items()}
    init = files["vllm/__init__.py"] + b"print('mine')\n"
    mine = {
        "vllm/__init__.py": init,
        LAYER: b"MINE = True\n" + files[LAYER],
        # A build writes another, and it is not laid over.
        "vllm/_version.py": b"__version__ = version = '0.50.0.dev1'\n",
    }
    tree = write_tree(smoked.folder / "mine", FILES | files | mine)
    args = ("--plan", "vllm-0.50", "--patch", "strength", "--engine", sys.executable)
    run = smoked.run("smoke", "--vllm", "./mine", *args, "--name", "one", "--before", "--json")
    for cell in run.json["record"]["cells"]:
        (check,) = (check for check in cell["checks"] if check["name"] == "patched files")
        assert (check["verdict"], check["figure"]) == ("pass", "4 files")
    logs = smoked.folder / "evidence" / "one" / "logs"
    assert len([log for log in logs.iterdir() if "mine" in log.read_text()]) == 10
    assert tree.joinpath(LAYER).read_bytes() == mine[LAYER]
    record = json.loads((logs.parent / "results.json").read_text())
    (file,) = record["subject"][0]["files"]
    after = mine[LAYER].replace(b"STRENGTH = 1", b"STRENGTH = 2")
    assert file["after"] == f"sha256:{hashlib.sha256(after).hexdigest()}"


def test_syntax_errors_of_ones_own_tree_are_found_before_an_engine_starts(smoked):
    files = {path: text.encode() for path, text in FAKE.items()}
    mine = {"vllm/__init__.py": b"def load(:\n", "vllm/new.py": b"x = 1\nreturn x\n"}
    write_tree(smoked.folder / "mine", FILES | files | mine)
    args = ("--plan", "vllm-0.50", "--patch", "strength", "--engine", sys.executable)
    run = smoked.run("smoke", "--vllm", "./mine", *args, "--name", "one", code=2)
    assert run.codes == ("harness.syntax-error",) * 2
    assert "vllm/__init__.py:1: syntax error: invalid syntax\n" in run.err
    assert "vllm/new.py:2: syntax error: 'return' outside function\n" in run.err
    assert "next: correct this file of your tree" in run.err
    assert "modules" not in run.out
    assert not (smoked.folder / "evidence" / "one").exists()


def test_a_module_that_ends_a_spawned_process(smoked):
    text = smoked.recipe.read_text()
    smoked.recipe.write_text(text.replace("[json, vllm.layer]", "[vllm.dies]"))
    run = smoke(smoked, code=1)
    assert "after   pass     modules, main process         1 of 1\n" in run.out
    assert "vllm.dies: the spawned process ended with -6\n" in run.out


def test_what_is_claimed_and_was_not_judged_is_no_success(smoked):
    have_cells(smoked, "k: [0, 2], modes: [offline]")
    text = smoked.recipe.read_text()
    smoked.recipe.write_text(
        text.replace("    max-tokens", "    checks: {speed-up: '> 0'}\n    max-tokens")
    )
    run = smoke(smoked, code=1)
    assert "1 of 2 cells pass" in run.out
    assert "a median takes 3 rounds: give --rounds 3" in run.out
    assert smoke(smoked, "--name", "two", "--rounds", "3").out.endswith("evidence/two\n")


@pytest.mark.parametrize(
    "bad",
    [
        '{"record-version": 1}',
        '{"record-version": 1, "made": ["never"]}',
        "{",
        "[" * 100_000,
        '{"record-version": 1' + "0" * 5000 + "}",
    ],
)
def test_one_bad_record_does_not_hide_the_others(evidenced, bad):
    folder = evidenced.folder / "evidence" / "two"
    folder.mkdir()
    (folder / "results.json").write_text(bad)
    statement = {"predicate": {"configuration": [{"name": 1, "digest": {}}]}}
    (folder / "statement.json").write_text(json.dumps(statement))
    run = evidenced.run("evidence", "list", code=1)
    assert run.out.startswith("one  ")
    assert run.out.endswith("  passed  matches\n")
    assert run.errors.startswith("error: evidence/two/results.json: ")
    assert run.codes == ("evidence.unreadable",)
    listed = evidenced.run("evidence", "list", "--json", code=1).document
    assert [one["name"] for one in listed["result"]["evidence"]] == ["one"]
    (error,) = listed["errors"]
    assert error["where"].endswith("two/results.json")
    assert error["code"] == "evidence.unreadable"


def test_evidence_whose_source_is_out_of_reach(evidenced):
    """It neither matches nor differs: nobody knows."""
    shutil.copytree(evidenced.folder / "evidence" / "one", evidenced.folder / "evidence" / "two")
    shutil.rmtree(evidenced.cache, ignore_errors=True)
    evidenced.index.answers["/simple/"] = 503
    run = evidenced.run("evidence", "verify", "one", code=4)
    assert (run.out, run.codes) == ("", ("source.index-unreachable",))
    verified = evidenced.run("evidence", "verify", "one", "--json", code=4)
    assert verified.json is None
    (error,) = verified.json_errors
    assert error["code"] == "source.index-unreachable"
    offline = evidenced.run("evidence", "verify", "one", "--offline", code=4)
    assert offline.codes == ("source.not-in-cache",)

    run = evidenced.run("evidence", "list", code=4)
    assert [line.rsplit("  ", 1)[1] for line in run.out.splitlines()] == ["not known"] * 2
    assert run.errors.count("error: ") == 1  # both have the same reason
    listed = evidenced.run("evidence", "list", "--json", code=4)
    assert [one["unknown"] for one in listed.json["evidence"]] == [error["what"]] * 2
    assert listed.json_errors == [error]
    # A damaged record is for a person, so it goes before what a retry may cure.
    (evidenced.folder / "evidence" / "two" / "results.json").write_text("{")
    listed = evidenced.run("evidence", "list", "--json", code=1)
    assert [one["name"] for one in listed.json["evidence"]] == ["one"]
    codes = [one["code"] for one in listed.json_errors]
    assert codes == ["evidence.unreadable", "source.index-unreachable"]

    evidenced.index.answers.clear()
    assert evidenced.run("evidence", "verify", "one", "--json").json["unknown"] is None


def test_no_evidence(smoked):
    assert smoked.run("evidence", "list").out.startswith("there is no evidence in evidence")
    for command in ("show", "verify"):
        run = smoked.run("evidence", command, "one", code=2)
        assert run.codes == ("evidence.not-found",)


def test_a_failure_is_found_and_kept(smoked):
    fail_with(smoked, "switched off")
    run = smoke(smoked, code=1)
    assert "speculation: mtp with k=2 was asked for, and the engine has switched it off" in run.out
    assert "speculation: mtp with k=2 was asked for, and nothing was drafted" in run.out
    assert run.out.endswith("2 of 4 cells pass; evidence: evidence/one\n")
    statement = json.loads((smoked.folder / "evidence/one/statement.json").read_text())
    assert statement["predicate"]["result"] == "FAILED"
    assert statement["predicate"]["failedTests"] == [
        "given k=2 offline: speculation",
        "given k=2 server: speculation",
    ]
    # The evidence is whole, and no proof.
    assert "one matches (failed, " in smoked.run("evidence", "verify", "one", code=1).out


def test_before_and_after(smoked):
    """The fake fails as long as its layer is not strong, with the words of a symptom."""
    fake = FAKE["vllm/__init__.py"] + (
        "from vllm.layer import STRENGTH\n"
        "if STRENGTH == 1 and '--speculative-config' in str(sys.argv):\n"
        "    raise TypeError('it fails')\n"
        "_load = load\n"
    )
    layer = {"vllm/__init__.py": fake.encode()}
    smoked.index.add("0.50.1", archive("0.50.1", {p: t.encode() for p, t in FAKE.items()} | layer))
    (smoked.site / "vllm/__init__.py").write_bytes(layer["vllm/__init__.py"])
    version = smoked.site / "vllm/_version.py"
    version.write_text(version.read_text().replace("0.50.0", "0.50.1"))
    smoked.recipe.write_text(
        smoked.recipe.read_text()
        .replace("0.50.0", "0.50.1")
        .replace("k: [0, 2]", "k: [0, 1, 2], modes: [server]")
    )
    args = ("smoke", "--vllm", "0.50.1", "--engine", sys.executable, "--name", "one", "--before")
    run = smoked.run(*args)
    lines = [line for line in run.out.splitlines() if "modules" not in line]
    assert lines[0].startswith("before  pass     given k=0 server")
    assert lines[1].startswith("before  fail     given k=1 server")
    assert lines[2].endswith("runs: does not start: the server ended with 1 (TypeError: it fails)")
    assert lines[3] == "before  not run  given k=2 server              k=1 did not even start"
    assert [line.split()[:2] for line in lines[4:7]] == [["after", "pass"]] * 3
    assert lines[7] == "it fails"
    cured = "it fails\n  seen before in given k=1 server; gone with strength\n"
    assert f"{cured}3 of 3 cells pass" in run.out
    report = smoked.run("evidence", "show", "one").out
    assert "- `it fails`\n  seen before in given k=1 server; gone with strength\n" in report


def test_json(smoked):
    record = smoke(smoked, "--json", "--rounds", "3").json["record"]
    assert record["result"] == "passed"
    assert [len(cell["rounds"]) for cell in record["cells"]] == [3, 3, 3, 3]
    speed = [c for c in record["cells"][1]["checks"] if c["name"] == "speed"]
    assert speed[0]["verdict"] == "pass"
    assert " times k=0" in speed[0]["figure"]


def test_an_engine_is_looked_at_once(smoked):
    """To import a real one's platforms takes seconds."""
    platforms = smoked.site / "vllm" / "platforms.py"
    count = f"open({str(smoked.folder / 'looks')!r}, 'a').write('x')\n"
    platforms.write_text(platforms.read_text() + count)
    have_cells(smoked, "k: [0]")
    smoke(smoked)
    assert (smoked.folder / "looks").read_text() == "x"


def test_what_is_not_there_is_said_before_anything_starts(smoked):
    text = smoked.recipe.read_text().replace(str(smoked.folder / "model"), "nobody/nothing")
    needs = "smoke:\n  needs: {engine: maca, gpus: 64}\n"
    smoked.recipe.write_text(text.replace("smoke:\n", needs))
    run = smoke(smoked, code=2)
    assert "the recipe needs a vLLM that runs on maca; this one runs on cpu" in run.err
    assert "the recipe needs 64 GPUs; this machine has: " in run.err
    assert "the checkpoint nobody/nothing (main) is not on this machine" in run.err
    assert "the Hub tells no more: the Hub does not answer: ConnectError" in run.err
    assert not (smoked.folder / "evidence").exists()


def test_wrong_use(evidenced):
    assert "there is evidence of that name" in smoke(evidenced, code=2).err
    evidenced.recipe.write_text(evidenced.recipe.read_text().partition("smoke:")[0])
    name = evidenced.recipe.stem
    assert smoke(evidenced, "--name", "two", "--plan", name, code=2).codes == ("smoke.no-plan",)


def test_a_release_without_a_recipe_runs_the_standard_plan(smoked):
    smoked.recipe.unlink()
    run = smoke(smoked, "--patch", "strength", "--model", str(smoked.folder / "model"))
    assert "the standard plan runs (k=0 and k=3)" in run.err
    assert "4 of 4 cells pass" in run.out
    record = json.loads((smoked.folder / "evidence" / "one" / "results.json").read_text())
    cells = [(cell["k"], cell["mode"]) for cell in record["cells"]]
    assert cells == [(0, "offline"), (3, "offline"), (0, "server"), (3, "server")]
    assert [patch["id"] for patch in record["subject"][0]["patches"]] == ["strength"]
    assert "one matches (passed, sha256:" in smoked.run("evidence", "verify", "one").out


def test_an_installed_file_that_is_not_the_releases(smoked):
    (smoked.site / LAYER).write_text("STRENGTH = 1  # mine\n")
    run = smoke(smoked, code=1)
    assert "the installed file is sha256:" in run.err
    assert list(smoked.folder.glob("evidence/*")) == []


def test_a_disk_that_is_full(smoked, small_disk):
    run = smoke(smoked, "--evidence-dir", small_disk, code=4)
    assert run.codes == ("smoke.could-not-run",)
    assert "the run could not be made: [Errno 28] No space left on device" in run.err
    assert "next: free space there" in run.err
    assert list(small_disk.iterdir()) == []


@pytest.mark.usefixtures("rooms")
@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_nothing(smoked, ending):
    fail_with(smoked, "hang while loading")
    args = ("smoke", "--vllm", "0.50", "--engine", sys.executable)
    once = "evidence/.*.partial/logs/*offline.log"
    run = smoked.interrupted(*args, once=once, ending=ending, settle=0.5)
    assert "interrupted; nothing was left half done" in run.err
    assert list((smoked.folder / "evidence").iterdir()) == []


@pytest.mark.usefixtures("rooms")
def test_an_interrupt_keeps_what_ran(smoked):
    cells = "    - {model: given, k: [0, 2], modes: [offline]}\n"
    hangs = "environment: {FAKE_FAULT: hang while loading}"
    text = smoked.recipe.read_text().partition("    - {")[0] + cells
    smoked.recipe.write_text(
        text + cells.replace("[0, 2]", f"[3], {hangs}") + cells.replace("2", "4")
    )
    args = ("smoke", "--vllm", "0.50", "--engine", sys.executable, "--name", "one")
    run = smoked.interrupted(*args, once="evidence/.*.partial/logs/*k-3-offline.log", settle=0.5)
    ends = [line.split()[1:] for line in run.out.splitlines() if "modules" not in line]
    assert [words[0] for words in ends[:-1]] == ["pass", "pass", "not", "not", "not"]
    assert [words[-1] for words in ends[2:-1]] == ["interrupted"] * 3
    assert run.out.endswith("2 of 5 cells pass; evidence: evidence/one\n")
    assert run.err.endswith("interrupted; what ran is kept\n")
    record = json.loads((smoked.folder / "evidence" / "one" / "results.json").read_text())
    assert record["result"] == "failed"
    assert "one matches (failed, sha256:" in smoked.run("evidence", "verify", "one", code=1).out


def test_the_api_writes_the_evidence_that_the_command_does(evidenced, capfd, monkeypatch):
    one = json.loads((evidenced.folder / "evidence" / "one" / "results.json").read_text())
    for name, value in evidenced.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(evidenced.folder)
    evidenced.trust()
    capfd.readouterr()
    options = SmokeOptions(engine=sys.executable, name="two")
    result = api.smoke(api.open_context(), "0.50", options=options)
    assert capfd.readouterr() == ("", "")
    assert (result.passed, result.folder) == (True, Path("evidence/two"))
    written = json.loads((result.folder / "results.json").read_text())
    assert written == json.loads(json.dumps(document_of(result.record)))
    assert written["asked"] == one["asked"]


OLD = ROOT / "tests" / "resources" / "records_v1" / "evidence"


def test_evidence_that_was_written_before_is_listed_shown_and_verified(smoked):
    """Its record has no schema_version, and other keys. The small vLLM is as it was then, too."""
    smoked.index.add(VERSION, (OLD.parent / f"vllm-{VERSION}.tar.gz").read_bytes())
    shutil.copytree(OLD / "smoke", smoked.folder / "evidence" / "smoke")
    # The plan as it was then.
    plan = json.loads((OLD / "smoke" / "results.json").read_text())["plan"]
    recipe = {"vllm": VERSION, "patches": ["strength"], "smoke": plan}
    smoked.recipe.write_text(json.dumps(recipe))
    assert smoked.run("evidence", "list").out.endswith("  passed  matches\n")
    assert smoked.run("evidence", "verify", "smoke").out.startswith("smoke matches (passed, ")
    shown = smoked.run("evidence", "show", "smoke").out
    assert shown == (OLD / "smoke" / "report.md").read_text()
    record = smoked.run("evidence", "show", "smoke", "--json").json["record"]
    assert (record["schema_version"], record["kind"]) == (2, "smoke")
    assert record["cells"][1]["rounds"][0]["tokens_per_second"] > 0
    results = smoked.folder / "evidence" / "smoke" / "results.json"
    results.write_text(results.read_text().replace('"passed"', '"failed"'))
    assert "results.json" in smoked.run("evidence", "verify", "smoke", code=1).out
