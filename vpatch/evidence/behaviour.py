"""A behaviour test as evidence: what failed without the patch and passes with it, inside a vLLM."""

from __future__ import annotations

import shlex
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from vpatch import __version__
from vpatch.evidence.records import SCHEMA_VERSION
from vpatch.evidence.subject import digest_of_subject
from vpatch.util.digest import digest_of, short_digest
from vpatch.util.visible import visible

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from vpatch.declare.patch import Proof
    from vpatch.harness.behaviour import Behaviour
    from vpatch.harness.machine import Machine
    from vpatch.library.patch import Patch

KIND = "test"
_RUNS = {"pristine": "Before: without the patch", "patched": "After: with the patch"}


@dataclass(frozen=True)
class ProofRun:
    """A behaviour test that was run. `asked` is what the command line said."""

    name: str
    made: str
    asked: Mapping[str, Any]
    subject: Sequence[Mapping[str, Any]]
    patch: Patch
    proof: Proof
    engine: str
    vllm: str
    machine: Machine
    found: Behaviour


def record_of_test(ran: ProofRun) -> dict[str, Any]:
    file = ran.patch.folder / ran.proof.test
    record = {
        "schema_version": SCHEMA_VERSION,
        "kind": KIND,
        "vpatch": __version__,
        "name": ran.name,
        "made": ran.made,
        "digest": digest_of_subject(ran.subject),
        "asked": dict(ran.asked),
        "subject": list(ran.subject),
        "engine": {"kind": ran.engine, "vllm": ran.vllm},
        "machine": asdict(ran.machine),
        "patch": ran.patch.id,
        "test": {"file": ran.proof.test, "digest": digest_of(file.read_bytes())},
        "proof": ran.proof.model_dump(mode="json", exclude_defaults=True),
        "runs": {
            "pristine": [asdict(test) for test in ran.found.pristine.tests],
            "patched": [asdict(test) for test in ran.found.patched.tests],
        },
        "problems": list(ran.found.problems),
    }
    return record | {"result": result_of_test(record)}


def result_of_test(record: Mapping[str, Any]) -> str:
    runs = record["runs"]
    failed = any(test["outcome"] == "failed" for test in runs["pristine"])
    passed = runs["patched"] and all(test["outcome"] == "passed" for test in runs["patched"])
    return "passed" if failed and passed and not record["problems"] else "failed"


def command_of_test(record: Mapping[str, Any]) -> str:
    """The command line that asks for the same again."""
    asked = record["asked"]
    words = [asked["patch"], "--engine", record["engine"]["kind"], "--vllm", asked["vllm"]]
    return shlex.join(["vpatch", "test", *words])


def report_of_test(record: Mapping[str, Any]) -> str:
    return visible("\n".join(_lines(record))) + "\n"


def verdicts_of_test(record: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the name and the verdict of each test, of the run with the patch."""
    for test in record["runs"]["patched"]:
        yield test["name"], "pass" if test["outcome"] == "passed" else "fail"


def _lines(record: Mapping[str, Any]) -> Iterator[str]:
    engine, machine = record["engine"], record["machine"]
    yield f"## Behaviour test: {record['result']}"
    yield ""
    yield f"`{command_of_test(record)}` with vpatch {record['vpatch']}, {record['made']}"
    yield ""
    yield f"- test: `{record['test']['file']}` ({short_digest(record['test']['digest'])})"
    for tree in record["subject"]:
        pin = tree["pin"]
        patches = ", ".join(f"`{patch['id']}`" for patch in tree["patches"]) or "none"
        yield f"- {pin['tree']} {pin['version'] or ''} ({short_digest(pin['digest'])}), {patches}"
    yield f"- engine: vLLM {engine['vllm']} ({engine['kind']})"
    gpus = "".join(f"; {gpu['name']}" for gpu in machine["gpus"])
    size = f"{machine['cores']} cores, {machine['memory']} GiB"
    yield f"- machine: {machine['processor']}, {size}{gpus}"
    for run, heading in _RUNS.items():
        yield ""
        yield f"### {heading}"
        yield ""
        yield from table_of_test(record["runs"][run])
    for problem in record["problems"]:
        yield ""
        yield "- " + problem.replace("\n", "\n  ")


def table_of_test(tests: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield one run as a table in Markdown."""
    yield "| test | result | message |"
    yield "|---|---|---|"
    for test in tests:
        message = test["message"].strip().partition("\n")[0]
        cell = f"`{message.replace('`', '')}`" if message else ""
        row = [f"`{test['name']}`", test["outcome"], cell]
        yield "| " + " | ".join(text.replace("|", r"\|") for text in row) + " |"
