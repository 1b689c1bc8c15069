"""A behaviour test as evidence: what failed without the patch and passes with it, inside a vLLM."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch import __version__
from vpatch.evidence import records
from vpatch.evidence.smoke_report import heading_lines, machine_in_words
from vpatch.evidence.subject import digest_of_subject
from vpatch.util.digest import digest_of, short_digest
from vpatch.util.visible import visible

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from vpatch.declare.patch import Proof
    from vpatch.harness.behaviour import Behaviour, TestResult
    from vpatch.harness.machine import Machine
    from vpatch.library.patch import Patch


@dataclass(frozen=True)
class ProofRun:
    """A behaviour test that was run. `asked` is what the command line said."""

    name: str
    timestamp: str
    asked: Mapping[str, records.OptionValue]
    subject: Sequence[records.SubjectTree]
    patch: Patch
    proof: Proof
    engine: str
    vllm: str
    machine: Machine
    behaviour: Behaviour


def record_of_test(ran: ProofRun) -> records.BehaviourTestRecord:
    file = ran.patch.folder / ran.proof.test
    runs = records.TestRuns(
        pristine=_outcomes(ran.behaviour.pristine.tests),
        patched=_outcomes(ran.behaviour.patched.tests),
    )
    problems = list(ran.behaviour.problems)
    return records.BehaviourTestRecord(
        schema_version=records.SCHEMA_VERSION,
        kind="test",
        vpatch=__version__,
        name=ran.name,
        made=ran.timestamp,
        digest=digest_of_subject(ran.subject),
        asked=dict(ran.asked),
        subject=list(ran.subject),
        engine=records.RunEngine(kind=ran.engine, vllm=ran.vllm),
        machine=records.RunMachine.model_validate(ran.machine, from_attributes=True),
        patch=ran.patch.id,
        test=records.TestFile(file=ran.proof.test, digest=digest_of(file.read_bytes())),
        proof=ran.proof.model_dump(mode="json", exclude_defaults=True),
        runs=runs,
        problems=problems,
        result=result_of_test(runs, problems),
    )


def _outcomes(tests: Sequence[TestResult]) -> list[records.TestOutcome]:
    return [records.TestOutcome.model_validate(test, from_attributes=True) for test in tests]


def result_of_test(runs: records.TestRuns, problems: Sequence[str]) -> records.RunResult:
    failed = any(test.outcome == "failed" for test in runs.pristine)
    passed = runs.patched and all(test.outcome == "passed" for test in runs.patched)
    return "passed" if failed and passed and not problems else "failed"


def command_of_test(record: records.BehaviourTestRecord) -> str:
    """The command line that asks for the same again."""
    asked = record.asked
    words = [asked["patch"], "--engine", record.engine.kind, "--vllm", asked["vllm"]]
    return shlex.join(["vpatch", "test", *words])


def report_of_test(record: records.BehaviourTestRecord) -> str:
    return visible("\n".join(_lines(record))) + "\n"


def verdicts_of_test(record: records.BehaviourTestRecord) -> Iterator[tuple[str, str]]:
    """Yield the name and the verdict of each test, of the run with the patch."""
    for test in record.runs.patched:
        yield test.name, "pass" if test.outcome == "passed" else "fail"


def _lines(record: records.BehaviourTestRecord) -> Iterator[str]:
    yield f"## Behaviour test: {record.result}"
    yield ""
    yield f"`{command_of_test(record)}` with vpatch {record.vpatch}, {record.made}"
    yield ""
    yield f"- test: `{record.test.file}` ({short_digest(record.test.digest)})"
    for tree in record.subject:
        pin = tree.pin
        patches = ", ".join(f"`{patch.id}`" for patch in tree.patches) or "none"
        yield f"- {pin.tree} {pin.version or ''} ({short_digest(pin.digest)}), {patches}"
    yield f"- engine: vLLM {record.engine.vllm} ({record.engine.kind})"
    yield f"- machine: {machine_in_words(record.machine)}"
    for heading, tests in (
        ("Before: without the patch", record.runs.pristine),
        ("After: with the patch", record.runs.patched),
    ):
        yield from heading_lines(f"### {heading}")
        yield from _table(tests)
    for problem in record.problems:
        yield ""
        yield "- " + problem.replace("\n", "\n  ")


def _table(tests: Sequence[records.TestOutcome]) -> Iterator[str]:
    """Yield one run as a table in Markdown."""
    yield "| test | result | message |"
    yield "|---|---|---|"
    for test in tests:
        message = test.message.strip().partition("\n")[0]
        cell = f"`{message.replace('`', '')}`" if message else ""
        row = [f"`{test.name}`", test.outcome, cell]
        yield "| " + " | ".join(text.replace("|", r"\|") for text in row) + " |"
