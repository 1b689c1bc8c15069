from __future__ import annotations

import hashlib
import json
import os
import select
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf.json_format import Parse, ParseDict
from in_toto_attestation.predicates.test_result.v0 import test_result_pb2
from in_toto_attestation.v1.resource_descriptor import ResourceDescriptor
from in_toto_attestation.v1.statement import Statement
from in_toto_attestation.v1.statement_pb2 import Statement as StatementMessage
from pydantic import BaseModel

from tests.commands.smoke.builders import PASSING, PIN, SUBJECT, record_of_run, result_of, smoke_of
from tests.helpers import fails
from tests.projects import snapshot
from tests.waiting import until
from vpatch.commands.smoke.checks import Check
from vpatch.commands.smoke.joined_record import joined
from vpatch.errors import ExitCode
from vpatch.evidence.claim import claimed
from vpatch.evidence.collecting import collected
from vpatch.evidence.documents import document_of
from vpatch.evidence.records import ClusterMachine, MatrixPointRecord, SmokeRecord, upgraded
from vpatch.evidence.store import (
    all_evidence,
    read_evidence,
    tampered,
    write_evidence,
)

FILES = {"results.json", "report.md", "environment.txt", "logs/after.log"}
FAILING = Check("tokens", "fail", "3 tokens", "too few")
NOT_RUN = Check("speed", "not run", reason="1 of 3 rounds")


def collect(root, name="proof", made=None, results=None, **keys):
    """Make evidence of a run of one cell."""
    with collected(root, name) as collecting:
        workdir = collecting.workdir
        log = workdir / "logs/after.log"
        log.write_text("all is well\n")
        (workdir / "environment.txt").write_text("torch\n")
        results = [result_of(log, *checks) for checks in results] if results else None
        record = record_of_run(log, results, **keys)
        write_evidence(workdir, record.model_copy(update={"made": made} if made else {}))
    return read_evidence(root / name)


OLD = Path(__file__).parents[1] / "resources" / "records_v1" / "evidence"


@pytest.mark.parametrize("name", ["smoke", "before-and-after", "behaviour"])
def test_evidence_of_version_1_is_whole(name):
    """Its report and its statement are made again, and are those that were written then."""
    written = json.loads((OLD / name / "results.json").read_text())
    assert written["record-version"] == 1
    evidence = read_evidence(OLD / name)
    assert tampered(evidence) == []
    document = document_of(evidence.record)
    assert document["schema_version"] == 2
    assert document["kind"] == ("test" if name == "behaviour" else "smoke")
    assert "record-version" not in document


def test_old_figures_have_their_new_names():
    (_, cell, *_) = read_evidence(OLD / "smoke").record.cells
    assert (cell.tensor_parallel, cell.max_tokens) == (1, 8)
    assert cell.rounds[0].load_seconds > 0
    # What the recipe declares keeps its keys.
    assert cell.flags == {"max-model-len": 64}


def test_what_is_written_is_what_is_read(tmp_path):
    evidence = collect(tmp_path)
    text = (evidence.folder / "results.json").read_text()
    assert text == json.dumps(document_of(evidence.record), indent=1) + "\n"


def test_keys_have_the_order_that_they_always_had(tmp_path):
    (tmp_path / "log").touch()
    machine = {"processor": "p", "cores": 1, "memory": 1, "gpus": []}
    node = ClusterMachine.model_validate({"machine": machine, "inherited": {}})
    record = record_of_run(tmp_path / "log", machines={"n": node})
    point = {"name": "p", "folder": "points/p", "patches": "all"}
    document = document_of(joined([record], [point], name="all", plan=smoke_of()))
    assert list(document) == [
        *("schema_version", "kind", "vpatch", "name", "made", "digest", "asked", "subject"),
        *("engine", "machine", "models", "plan", "imports", "cells", "inherited", "symptoms"),
        *("machines", "result", "points"),
    ]
    assert list(document["machine"])[:3] == ["system", "processor", "cores"]
    assert list(document["subject"][0]["pin"]) == list(PIN)
    assert list(document["cells"][0])[-2:] == ["rounds", "point"]
    assert list(document["points"][0])[:3] == ["name", "folder", "patches"]


def test_keys_of_a_later_version_are_kept():
    """At each depth, where they are read and where they are written again."""
    document = json.loads((OLD / "smoke" / "results.json").read_text())
    for part in (document, document["subject"][0]["pin"], document["cells"][1]["rounds"][0]):
        part["later"] = {"a": [1, 2.0]}
    again = document_of(upgraded(document))
    for part in (again, again["subject"][0]["pin"], again["cells"][1]["rounds"][0]):
        assert repr(part["later"]) == "{'a': [1, 2.0]}"
    assert "image" not in again


def unknown_keys(part):
    """The keys of a part of a record that its model does not have, at any depth."""
    if isinstance(part, BaseModel):
        yield from (f"{type(part).__name__}: {key}" for key in part.model_extra or ())
        part = [getattr(part, name) for name in type(part).model_fields]
    for one in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        yield from unknown_keys(one)


def test_each_key_that_a_run_writes_is_in_the_model(tmp_path):
    """A model keeps keys that it does not know, so reading a record does not tell."""
    log = tmp_path / "after.log"
    log.write_text("all is well\n")
    record = record_of_run(log, [result_of(log), result_of(log, mode="server")])
    assert list(unknown_keys(SmokeRecord.model_validate(record))) == []


def test_a_report_keeps_the_digits_of_its_record(tmp_path):
    """A whole number is not made 16.0: the report would be another one."""
    folder = tmp_path / "old"
    shutil.copytree(OLD / "smoke", folder)
    text = (folder / "results.json").read_text().replace('"memory": 23.5', '"memory": 16')
    (folder / "results.json").write_text(text)
    assert repr(read_evidence(folder).record.machine.memory) == "16"


def statement_of(evidence):
    return json.loads((evidence.folder / "statement.json").read_text())


def test_the_statement_is_one_of_in_toto(tmp_path):
    results = [(PASSING, FAILING, NOT_RUN), (PASSING,)]
    evidence = collect(tmp_path, results=results)
    text = (evidence.folder / "statement.json").read_text()
    message = Parse(text, StatementMessage())
    Statement.copy_from_pb(message).validate()
    assert message.predicate_type == "https://in-toto.io/attestation/test-result/v0.1"
    predicate = ParseDict(json.loads(text)["predicate"], test_result_pb2.TestResult())
    for descriptor in predicate.configuration:
        ResourceDescriptor.copy_from_pb(descriptor).validate()
        assert len(descriptor.digest["sha256"]) == 64
    assert predicate.result == "FAILED"
    assert list(predicate.passed_tests) == ["m k=2 offline: runs", "m k=2 offline: runs"]
    assert list(predicate.failed_tests) == ["m k=2 offline: tokens"]
    assert list(predicate.warned_tests) == []


def test_what_the_statement_is_of(tmp_path):
    evidence = collect(tmp_path)
    statement = statement_of(evidence)
    assert statement["predicate"]["result"] == "PASSED"
    whole, file = statement["subject"]
    digest = evidence.record.digest.removeprefix("sha256:")
    assert whole == {"name": "vpatch-smoke", "digest": {"sha256": digest}}
    assert file == {"name": "vllm/a.py", "digest": {"sha256": "c" * 64}}
    stated = {
        one["name"]: one["digest"]["sha256"] for one in statement["predicate"]["configuration"]
    }
    assert stated.pop("model:m") == "d" * 64
    assert stated == {
        name: hashlib.sha256((evidence.folder / name).read_bytes()).hexdigest() for name in FILES
    }


def test_files_of_every_tree_are_subjects(tmp_path):
    other = SUBJECT | {
        "pin": SUBJECT["pin"] | {"tree": "plugin"},
        "files": [{"path": "plugin/p.py", "before": None, "after": "sha256:" + "e" * 64}],
    }
    names = [
        s["name"] for s in statement_of(collect(tmp_path, subject=[SUBJECT, other]))["subject"]
    ]
    assert names == ["vpatch-smoke", "vllm/a.py", "plugin/p.py"]


def test_what_fails_before_is_no_failed_test(tmp_path):
    with collected(tmp_path, "proof") as collecting:
        workdir = collecting.workdir
        log = workdir / "logs/x"
        log.touch()
        results = [result_of(log, FAILING, phase="before"), result_of(log)]
        write_evidence(workdir, record_of_run(log, results))
    predicate = statement_of(read_evidence(tmp_path / "proof"))["predicate"]
    assert (predicate["result"], predicate["failedTests"]) == ("PASSED", [])
    assert predicate["passedTests"] == ["m k=2 offline: runs"]


def test_what_made_it_fail_is_named(tmp_path):
    evidence = collect(tmp_path, imports={"after": (Check("modules, main process", "fail"),)})
    predicate = statement_of(evidence)["predicate"]
    assert predicate["result"] == "FAILED"
    assert any("modules, main process" in name for name in predicate["failedTests"])


def test_a_record_and_a_report_are_written(tmp_path):
    evidence = collect(tmp_path)
    assert evidence.name == "proof"
    document = json.loads((evidence.folder / "results.json").read_text())
    assert document == document_of(evidence.record)
    assert (evidence.folder / "report.md").read_text().startswith("## Smoke run: passed\n")
    found = {p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*") if p.is_file()}
    assert found == {f"proof/{name}" for name in FILES | {"statement.json"}}


def test_nothing_is_tampered_with(tmp_path):
    assert tampered(collect(tmp_path)) == []


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_file_that_was_changed(tmp_path, name):
    evidence = collect(tmp_path)
    file = evidence.folder / name
    file.write_bytes(file.read_bytes() + b" ")
    assert tampered(read_evidence(evidence.folder)) == [name]


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_file_that_was_removed(tmp_path, name):
    evidence = collect(tmp_path)
    (evidence.folder / name).unlink()
    assert tampered(evidence) == [f"{name} is gone"]


@pytest.mark.parametrize("name", ["more.txt", "logs/more.log"])
def test_a_file_that_was_added(tmp_path, name):
    evidence = collect(tmp_path)
    (evidence.folder / name).touch()
    assert tampered(evidence) == [f"{name} is not among its files"]


def test_a_statement_of_something_else(tmp_path):
    evidence = collect(tmp_path)
    statement = statement_of(evidence)
    statement["subject"][0]["digest"]["sha256"] = "0" * 64
    (evidence.folder / "statement.json").write_text(json.dumps(statement))
    assert tampered(evidence) == ["statement.json"]


@pytest.mark.parametrize(
    "text",
    [None, "", "[]", "3", "{}", '{"predicate": {}}', '{"subject": [], "predicate": null}', "\x00"],
)
def test_a_statement_that_cannot_be_read(tmp_path, text):
    evidence = collect(tmp_path)
    file = evidence.folder / "statement.json"
    if text is None:
        file.unlink()
    else:
        file.write_text(text)
    (said,) = tampered(evidence)
    assert said.startswith("statement.json cannot be read: ")


def test_a_report_in_another_encoding(tmp_path):
    """Also where its digest was written into the statement."""
    evidence = collect(tmp_path)
    report = evidence.folder / "report.md"
    before = hashlib.sha256(report.read_bytes()).hexdigest()
    report.write_bytes(b"caf\xe9")
    after = hashlib.sha256(report.read_bytes()).hexdigest()
    file = evidence.folder / "statement.json"
    file.write_text(file.read_text().replace(before, after))
    assert tampered(evidence) == ["report.md"]


def test_a_record_that_says_too_little(tmp_path):
    evidence = collect(tmp_path)
    (evidence.folder / "results.json").write_text('{"record-version": 1}')
    with fails("evidence.unreadable", match="the key 'vpatch' is missing"):
        read_evidence(evidence.folder)


@pytest.mark.parametrize(
    ("old", "new"), [('"FAILED"', '"PASSED"'), ("c" * 64, "0" * 64), ("d" * 64, "0" * 64)]
)
def test_a_statement_that_is_not_that_of_the_record(tmp_path, old, new):
    evidence = collect(tmp_path, results=[(FAILING,)])
    file = evidence.folder / "statement.json"
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))
    assert tampered(evidence) != []


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, SystemExit])
def test_what_is_not_whole_gets_no_place(tmp_path, error):
    def stop(workdir):
        (workdir / "logs/after.log").touch()
        assert not (tmp_path / "proof").exists()
        raise error

    with pytest.raises(error), collected(tmp_path, "proof") as collecting:
        stop(collecting.workdir)
    assert snapshot(tmp_path) == {}


def claim(root, **facts):
    """What a run leaves behind that was killed: by default on this machine."""
    with subprocess.Popen(["true"]) as ended:
        pass
    with claimed(root, "other", "evidence"):
        holder = json.loads((root / ".other.claim").read_text())
    workdir = root / ".proof.partial"
    (workdir / "logs").mkdir(parents=True)
    (workdir / "logs/after.log").write_text("theirs")
    (root / ".proof.claim").write_text(json.dumps(holder | {"pid": ended.pid} | facts))


def test_what_a_killed_run_left_is_removed(tmp_path):
    claim(tmp_path)
    assert tampered(collect(tmp_path)) == []
    assert [p.name for p in tmp_path.iterdir()] == ["proof"]


@pytest.mark.parametrize(
    "facts",
    [{"host": "another"}, {"boot": "another"}, {"processes": "pid:[1]"}, {"pid": os.getppid()}],
    ids=str,
)
def test_a_claim_of_another_machine_is_never_judged_dead(tmp_path, facts):
    claim(tmp_path, **facts)
    before = snapshot(tmp_path)
    with fails("evidence.claimed", "another run .* is collecting evidence") as caught:
        collect(tmp_path)
    assert str(facts.get("pid", "")) in caught.value.what
    assert facts.get("host", "") in caught.value.what
    assert caught.value.where == str(tmp_path / ".proof.claim")
    assert "if that run is dead, remove this file" in caught.value.hint
    assert caught.value.exit_code == ExitCode.ENVIRONMENT
    assert snapshot(tmp_path) == before


def test_a_claim_that_was_cut_off_is_not_judged_either(tmp_path):
    (tmp_path / ".proof.claim").write_text('{"host"')
    with fails("evidence.claimed", "another run is collecting evidence"):
        collect(tmp_path)


def test_two_runs_of_one_name(tmp_path):
    """The second does not even begin, so nobody loses what was measured."""
    with collected(tmp_path, "proof") as first:
        (first.workdir / "logs/a.log").touch()
        with fails("evidence.claimed"):
            collect(tmp_path)
    assert [p.name for p in tmp_path.rglob("*.log")] == ["a.log"]
    assert [p.name for p in tmp_path.iterdir()] == ["proof"]


def test_two_runs_without_a_name_that_begin_in_one_second(tmp_path):
    with collected(tmp_path, "proof", numbered=True) as first:
        with collected(tmp_path, "proof", numbered=True) as second:
            (second.workdir / "logs/b.log").touch()
        with collected(tmp_path, "proof", numbered=True) as third:
            (third.workdir / "logs/c.log").touch()
        (first.workdir / "logs/a.log").touch()
    assert [c.name for c in (first, second, third)] == ["proof", "proof-2", "proof-3"]
    found = {p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*.log")}
    assert found == {"proof/logs/a.log", "proof-2/logs/b.log", "proof-3/logs/c.log"}


CLAIMING = """
import sys
from pathlib import Path
from vpatch.errors import UnavailableError
from vpatch.evidence.collecting import collected

print("ready", flush=True)
sys.stdin.readline()
try:
    with collected(Path(sys.argv[1]), "proof") as found:
        (found.workdir / "logs" / "x").touch()
        sys.stdin.readline()
    print("kept")
except UnavailableError as error:
    print(error.what)
    sys.stdin.readline()
"""


def test_of_many_that_find_a_dead_claim_one_takes_it(tmp_path):
    claim(tmp_path)
    command = [sys.executable, "-c", CLAIMING, tmp_path]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    runs = [subprocess.Popen(command, **pipes) for _ in range(4)]
    for run in runs:
        assert run.stdout.readline() == "ready\n"
    for run in runs:
        run.stdin.write("\n")
        run.stdin.flush()
    # Those that are refused say so while the one that holds it still waits.
    until(lambda: sum(bool(select.select([run.stdout], [], [], 0.1)[0]) for run in runs) == 3)
    said = [run.communicate("\n")[0] for run in runs]
    assert sum(text == "kept\n" for text in said) == 1, said
    assert [p.name for p in tmp_path.iterdir()] == ["proof"]


def test_what_was_measured_is_kept_where_somebody_made_that_folder(tmp_path):
    ours = collected(tmp_path, "proof")
    (ours.__enter__().workdir / "logs/ours").touch()
    (tmp_path / "proof").mkdir()
    with fails("evidence.name-taken", "somebody else made evidence") as caught:
        ours.__exit__(None, None, None)
    assert caught.value.what.endswith(f"is in {tmp_path / 'proof-2'}")
    assert [p.name for p in (tmp_path / "proof-2/logs").iterdir()] == ["ours"]


def test_evidence_is_not_replaced(tmp_path):
    collect(tmp_path)
    before = snapshot(tmp_path)
    with fails("evidence.name-taken", "there is evidence of that name") as caught:
        collect(tmp_path)
    assert caught.value.where == str(tmp_path / "proof")
    assert caught.value.hint == "give another --name"
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("name", ["a/b", "..", ".a", "-a", "", "a b", "a\n"])
def test_a_name_that_is_none_is_refused_at_once(tmp_path, name):
    with fails("evidence.bad-name") as caught, collected(tmp_path, name):
        pytest.fail("it is collected")
    assert caught.value.what == f"{name!r} cannot be a name of evidence"
    assert caught.value.hint.startswith("use at most 200 letters, digits")
    assert snapshot(tmp_path) == {}


def test_all_evidence_the_oldest_first(tmp_path):
    assert all_evidence(tmp_path / "none") == ([], [])
    for name, made in (("a", "2026-03"), ("b", "2026-01"), ("c", "2026-02")):
        collect(tmp_path, name, made)
    (tmp_path / "unrelated").mkdir()
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "results.json").write_text("{")
    found, damaged = all_evidence(tmp_path)
    assert [evidence.name for evidence in found] == ["b", "c", "a"]
    assert [error.where for error in damaged] == [str(tmp_path / "damaged" / "results.json")]


def test_what_is_collected_is_no_evidence_yet(tmp_path):
    with collected(tmp_path, "proof") as collecting:
        workdir = collecting.workdir
        (workdir / "results.json").write_text('{"record-version": 1, "made": "x"}')
        assert all_evidence(tmp_path) == ([], [])


@pytest.mark.parametrize("name", ["none", "file"])
def test_evidence_that_is_not_there(tmp_path, name):
    (tmp_path / "file").touch()
    with fails("evidence.not-found") as caught:
        read_evidence(tmp_path / name)
    assert caught.value.exit_code == ExitCode.USAGE
    assert caught.value.what == "there is no such evidence"
    assert caught.value.where == str(tmp_path / name / "results.json")
    assert caught.value.hint == "vpatch evidence list shows what there is"


def test_evidence_that_cannot_be_read(tmp_path):
    (tmp_path / "one" / "results.json").mkdir(parents=True)
    with fails("evidence.unreadable") as caught:
        read_evidence(tmp_path / "one")
    assert caught.value.exit_code == ExitCode.FINDINGS
    assert caught.value.what == "the evidence cannot be read: Is a directory"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("{", "evidence.unreadable"),
        ("\udcff", "evidence.unreadable"),
        ("[]", "evidence.unknown-version"),
        ("{}", "evidence.unknown-version"),
        ('{"record-version": 2}', "evidence.unknown-version"),
        ('{"schema_version": 3}', "evidence.unknown-version"),
        ('{"schema_version": 2, "kind": "test"}', "evidence.unreadable"),
        ('{"schema_version": 2, "kind": "other"}', "evidence.unreadable"),
    ],
)
def test_a_record_that_is_damaged(tmp_path, text, code):
    file = tmp_path / "results.json"
    file.write_text(text, errors="surrogateescape")
    with fails(code) as caught:
        read_evidence(tmp_path)
    assert caught.value.where == str(file)


def links(folder):
    """A log outside of the folder, with the same bytes."""
    log = folder / "logs/after.log"
    log.rename(folder.parent / "elsewhere")
    log.symlink_to(folder.parent / "elsewhere")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (links, "logs/after.log is a symbolic link"),
        (lambda folder: (folder / "logs/all").symlink_to("/"), "logs/all is a symbolic link"),
        (lambda folder: os.mkfifo(folder / "logs/pipe"), "is not a regular file"),
        (lambda folder: (folder / "logs/after.log").write_bytes(b"x" * 101), "is larger than"),
    ],
)
def test_what_is_no_file_of_evidence(tmp_path, monkeypatch, change, said):
    """It could change later, or never end."""
    evidence = collect(tmp_path)
    change(evidence.folder)
    if said == "is larger than":
        monkeypatch.setattr("vpatch.evidence.store._LARGEST_LOG", 100)
    (found,) = tampered(evidence)
    assert said in found


def test_a_verdict_that_no_check_gives(tmp_path):
    evidence = collect(tmp_path, results=[(PASSING, FAILING)])
    cells = [cell.model_copy(update={"verdict": "pass"}) for cell in evidence.record.cells]
    passed = evidence.record.model_copy(update={"cells": cells, "result": "passed"})
    write_evidence(evidence.folder, passed)
    assert tampered(read_evidence(evidence.folder)) == ["results.json: the verdict on a cell"]


@pytest.mark.parametrize("folder", ["../other", "/etc", "points/gone", "logs", "points/../.."])
def test_a_point_that_is_the_evidence_of_something_else(tmp_path, folder):
    other = collect(tmp_path, "other")
    evidence = collect(tmp_path)
    record = other.record
    point = MatrixPointRecord(
        name="p", folder=folder, digest=record.digest, engine=record.engine, result=record.result
    )
    write_evidence(evidence.folder, evidence.record.model_copy(update={"points": [point]}))
    (found,) = tampered(read_evidence(evidence.folder))
    assert "its points" in found or "is not a path below" in found
