"""`--json`: one document in one envelope, however a command ends."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from tests.commands.bench.records import record, validated
from tests.commands.conftest import Run
from tests.projects import NO_SUCH, VERSION
from tests.waiting import LIMIT
from vpatch import main as cli
from vpatch.commands.bench import command as bench_command
from vpatch.commands.bench.match import differences
from vpatch.commands.bench.output import BenchOutput
from vpatch.commands.bench.record import read_record
from vpatch.commands.bench.report.markdown import report_of
from vpatch.commands.bench.usecase import BenchResult
from vpatch.commands.schema.command import command
from vpatch.errors import UsageError, VpatchError
from vpatch.registry import RESULTS, schema_of
from vpatch.workspace import selection


def raising(error):
    def broken(*_, **__):
        raise error

    return broken


def test_a_result_with_findings(project):
    project.patch("z-tail", NO_SUCH)
    run = project.run("status", "--vllm", VERSION, "--json", code=1)
    assert run.json["trees"]
    assert run.document | {"result": None} == {
        "schema_version": 1,
        "command": "status",
        "exit_code": 1,
        "result": None,
        "errors": [],
    }


def test_a_fault_is_a_document_without_a_result(project, monkeypatch):
    monkeypatch.setattr(selection, "resolve", raising(ZeroDivisionError("oops")))
    run = project.apply("--json", code=3)
    (error,) = run.json_errors
    assert run.json is None
    assert (error["code"], error["exit_code"]) == ("cli.fault", 3)
    assert "ZeroDivisionError: oops" in error["what"]
    assert "Traceback" in run.err


def test_a_fault_says_no_secret(project, monkeypatch):
    monkeypatch.setattr(selection, "resolve", raising(ZeroDivisionError("ghp_" + "a1" * 18)))
    run = project.apply("--json", code=3)
    assert "ghp_" not in run.out + run.err


def test_an_interrupt_is_a_document_without_a_result(project, monkeypatch):
    monkeypatch.setattr(selection, "resolve", raising(KeyboardInterrupt()))
    run = project.apply("--json", code=130)
    (error,) = run.json_errors
    assert (error["code"], error["exit_code"]) == ("cli.interrupted", 130)
    assert run.err.count("interrupted") == 1


@pytest.mark.parametrize(
    ("args", "command"),
    [
        (["staus"], ""),
        (["evidence", "lst"], "evidence"),
        (["cache", "list", "--nonsense"], "cache list"),
        (["show"], "show"),
        (["diff"], "diff"),
    ],
)
def test_a_wrong_command_line_names_the_command_as_far_as_it_is_known(empty, args, command):
    document = empty.run(*args, "--json", code=2).document
    assert document["command"] == command
    assert [error["exit_code"] for error in document["errors"]] == [2]


def test_each_of_several_errors_is_one(project):
    for patch_id in ("name-proj", "slow-mode"):
        file = project.patches / patch_id / "patch.yaml"
        file.write_text(file.read_text().replace("why", "wyh"))
    document = project.run("list", "--json", code=2).document
    assert len(document["errors"]) >= 2
    assert all(error["code"] and error["what"] for error in document["errors"])


def test_help_is_no_document(empty):
    assert empty.run("status", "--help", "--json").out.startswith("Usage: ")


def test_whoever_reads_the_document_may_leave(empty):
    """`vpatch list --json | true` is not a fault."""
    with empty.start("list", "--json") as process:
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(LIMIT) == 0


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_output_to_a_full_disk_is_a_fault_of_the_machine(empty, form):
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "vpatch", "list", *form]
        run = subprocess.run(
            command, cwd=empty.folder, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (run.returncode, run.stderr.count("error: ")) == (4, 1)
    assert run.stderr.startswith("error: No space left on device")


def test_an_interrupt_while_the_document_is_printed(empty, monkeypatch):
    monkeypatch.setattr(cli, "print_document", raising(KeyboardInterrupt()))
    assert (empty.run("list", "--json", code=130).err) == ""


def test_closed_standard_output_is_no_fault(empty):
    command = ["sh", "-c", f"{shlex.quote(sys.executable)} -m vpatch list >&-"]
    run = subprocess.run(command, cwd=empty.folder, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")


def test_a_value_for_the_option_is_refused_in_a_document(empty):
    (error,) = empty.run("list", "--json=1", code=2).json_errors
    assert error["code"] == "cli.wrong-usage"


def test_a_document_that_does_not_fit_its_schema_fails_the_tests(empty):
    run = empty.run("list", "--json")
    document = run.document
    for wrong in (
        document | {"more": 1},
        document | {"schema_version": 2},
        document | {"result": {"patches": []}},
        document | {"result": document["result"] | {"needed-in": {}}},
        document | {"errors": [{"what": "it"}]},
    ):
        with pytest.raises(jsonschema.ValidationError):
            _ = Run(0, json.dumps(wrong), "").document
    with pytest.raises(AssertionError):
        _ = Run(1, run.out, "").document


def test_schema_output_lists_the_commands(empty):
    assert empty.run("schema", "output").out.splitlines() == list(RESULTS)


@pytest.mark.parametrize("words", [["evidence", "list"], ["evidence-list"], ["evidence list"]])
def test_schema_output_of_a_command_of_two_words(empty, words):
    found = json.loads(empty.run("schema", "output", *words).out)
    assert found.pop("$schema") == "https://json-schema.org/draft/2020-12/schema"
    assert found == schema_of("evidence list")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (
            ["output", "evidence", "lst"],
            "cli.command-without-json",
            "did you mean 'evidence list'? If not, vpatch schema output lists all of them",
        ),
        (["output", "diff"], "cli.command-without-json", "no command 'diff' has --json"),
        (
            ["patch", "status"],
            "cli.needless-command",
            "write vpatch schema patch, or vpatch schema output status",
        ),
    ],
)
def test_schema_used_wrongly(words, code, said):
    with pytest.raises(UsageError, match=re.escape(said)) as raised:
        command.main(words, standalone_mode=False)
    assert raised.value.code == code


@pytest.mark.parametrize(
    ("failure", "code", "ends"),
    [
        (KeyboardInterrupt(), "cli.interrupted", 130),
        (VpatchError("the server is gone", code="bench.gone"), "bench.gone", 1),
    ],
)
def test_what_was_measured_before_it_broke_off_is_in_the_one_document(
    empty, monkeypatch, failure, code, ends
):
    done = BenchResult(validated(record()), empty.folder / "bench" / "one", failure)
    monkeypatch.setattr(bench_command, "bench", lambda *_, **__: done)
    document = empty.run("bench", "--vllm", VERSION, "--json", code=ends).document
    assert document["result"]["record"]["points"][0]["measured"]["output_tokens"] > 0
    assert [error["code"] for error in document["errors"]] == [code]


def test_a_record_in_a_document_can_be_compared(tmp_path):
    """It has null for what the file leaves out."""
    output = BenchOutput(folder=tmp_path, record=validated(record()))
    found = output.model_dump(mode="json")["record"]
    assert found["sides"][0]["servers"] is None
    (tmp_path / "bench.json").write_text(json.dumps(found))
    again = read_record(tmp_path)
    assert list(differences(again, validated(record()))) == []
    assert report_of(again) == report_of(validated(record()))
