"""Evidence: a folder with a record, a report, the logs, and an in-toto statement over them.

A record is that of a smoke run, or that of a behaviour test.

The statement (https://in-toto.io/Statement/v1) has the test-result predicate, version 0.1. Its
first subject is what was run as a whole, by the digest that `subject` makes; the others are the
files that the patches touch. What it was run with are its configuration.
"""

from __future__ import annotations

import errno
import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from vpatch.errors import UsageError, VpatchError
from vpatch.evidence.behaviour import KIND, report_of_test, result_of_test, verdicts_of_test
from vpatch.evidence.records import is_known, upgraded
from vpatch.evidence.smoke_report import is_judged, report_of, result_of
from vpatch.evidence.subject import digest_of_subject
from vpatch.util.untrusted import MEGABYTE, digest_of_file, parse_json, plain_path, read_file
from vpatch.util.validation import first_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

RECORD = "results.json"
REPORT = "report.md"
STATEMENT = "statement.json"
ENVIRONMENT = "environment.txt"
LOGS = "logs"
# The evidence of each point of a matrix.
POINTS = "points"
_LARGEST = 64 * MEGABYTE
# As of a log for `vpatch diagnose`.
_LARGEST_LOG = 50_000 * MEGABYTE
_STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
_PREDICATE_TYPE = "https://in-toto.io/attestation/test-result/v0.1"
# A test that was not run has no place there: it neither passed, nor with a warning.
_VERDICTS = {"pass": "passedTests", "fail": "failedTests"}


class EvidenceError(VpatchError):
    """Evidence is missing, or somebody changed it."""


class NoEvidenceError(UsageError, EvidenceError):
    """There is no evidence in the folder."""

    code = "evidence.not-found"


@dataclass(frozen=True)
class Evidence:
    folder: Path
    record: Mapping[str, Any]

    @property
    def name(self) -> str:
        return self.folder.name


def write_evidence(workdir: Path, record: Mapping[str, Any]) -> None:
    """Write what is made of a record, beside the logs that are there already."""
    (workdir / RECORD).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    (workdir / REPORT).write_text(_report(record), encoding="utf-8")
    statement = json.dumps(_statement(_files(workdir, written=True), record), indent=1) + "\n"
    (workdir / STATEMENT).write_text(statement, encoding="utf-8")


def all_evidence(root: Path) -> tuple[list[Evidence], list[EvidenceError]]:
    """Return what there is, the oldest first, and what cannot be read."""
    found, damaged = [], []
    for file in sorted(root.glob(f"*/{RECORD}")):
        if file.parent.name.startswith("."):
            continue  # in the making
        try:
            found.append(read_evidence(file.parent))
        except EvidenceError as error:
            damaged.append(error)
    return sorted(found, key=lambda evidence: str(evidence.record.get("made"))), damaged


def read_evidence(folder: Path) -> Evidence:
    """Read a record of any version, as this version writes it.

    Raises:
        NoEvidenceError: there is none.
        EvidenceError: it cannot be read, or it is damaged.
    """
    file = folder / RECORD
    try:
        record = parse_json(read_file(file, _LARGEST))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NoEvidenceError(
            "there is no such evidence",
            where=str(file),
            hint="vpatch evidence list shows what there is",
        ) from error
    except OSError as error:
        raise EvidenceError(
            f"the evidence cannot be read: {error.strerror}",
            where=str(file),
            hint="correct its permissions, or move its folder elsewhere",
            code="evidence.unreadable",
        ) from error
    except ValueError as error:
        raise EvidenceError(
            f"it is not a record: {error}",
            where=str(file),
            hint="restore the file, or move its folder elsewhere",
            code="evidence.unreadable",
        ) from error
    if not is_known(record):
        raise EvidenceError(
            "this vpatch does not know this kind of record",
            where=str(file),
            hint="use the version of vpatch that wrote it",
            code="evidence.unknown-version",
        )
    try:
        return Evidence(folder, upgraded(record))
    except (ValidationError, RecursionError) as error:
        said = first_of(error) if isinstance(error, ValidationError) else "it is too deep"
        raise EvidenceError(
            f"the record is not complete: {said}",
            where=str(file),
            hint="restore the file, or move its folder elsewhere",
            code="evidence.unreadable",
        ) from error


def tampered(evidence: Evidence) -> list[str]:
    """Say which files of the evidence are not what its statement says."""
    file = evidence.folder / STATEMENT
    try:
        statement = parse_json(read_file(file, _LARGEST))
        rows = statement["predicate"]["configuration"]
        stated = {str(one["name"]): one["digest"] for one in rows}
    except (OSError, ValueError, LookupError, TypeError) as error:
        return [f"{STATEMENT} cannot be read: {error}"]
    try:
        files = _files(evidence.folder)
    except OSError as error:
        return [f"{error.filename} {error.strerror}"]
    here = {name: entry["digest"] for name, entry in files.items()}
    found = [name for name, digest in stated.items() if name in here and here[name] != digest]
    found += [f"{name} is gone" for name in stated if _is_file_name(name) and name not in here]
    found += [f"{name} is not among its files" for name in here if name not in stated]
    return found or _contradictions(evidence, statement, files)


def _contradictions(
    evidence: Evidence, statement: Any, files: Mapping[str, Mapping[str, Any]]
) -> list[str]:
    """What of whole evidence no run can have written: all of it follows from the cells."""
    record = evidence.record
    try:
        digest = digest_of_subject(record["subject"])
        return [
            name
            for name, same in (
                (f"{RECORD}: its digest", record["digest"] == digest),
                (f"{RECORD}: its result", record["result"] == _result(record)),
                (f"{RECORD}: the verdict on a cell", is_test(record) or is_judged(record)),
                (f"{RECORD}: its points", all(_is_point(evidence, one) for one in _points(record))),
                (REPORT, (evidence.folder / REPORT).read_bytes() == _report(record).encode()),
                (STATEMENT, statement == _statement(files, record)),
            )
            if not same
        ]
    except (
        *(ArithmeticError, LookupError, TypeError, AttributeError, ValueError, OSError),
        RecursionError,
    ) as error:
        return [f"{RECORD} is not whole: {type(error).__name__}: {error}"]


def _points(record: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return record.get("points") or ()


def _is_point(evidence: Evidence, point: Mapping[str, Any]) -> bool:
    """Whether the evidence of a point lies in the folder, is whole, and says the same."""
    folder, at = plain_path(point["folder"]), point["name"]
    if not folder.startswith(f"{POINTS}/"):
        return False
    try:
        there = read_evidence(evidence.folder / folder)
    except EvidenceError:
        return False
    cells = [cell for cell in evidence.record["cells"] if cell.get("point") == at]
    return (
        all(there.record[key] == point[key] for key in ("digest", "engine", "result"))
        and [(one["phase"], one["cell"], one["checks"]) for one in cells]
        == [(c["phase"], f"{at}: {c['cell']}", c["checks"]) for c in there.record["cells"]]
        and not tampered(there)
    )


def _report(record: Mapping[str, Any]) -> str:
    return report_of_test(record) if is_test(record) else report_of(record)


def _result(record: Mapping[str, Any]) -> str:
    return result_of_test(record) if is_test(record) else result_of(record)


def is_test(record: Mapping[str, Any]) -> bool:
    """Whether it is the record of a behaviour test, and not of a smoke run."""
    return record.get("kind") == KIND


def _is_file_name(name: str) -> bool:
    return name.startswith((f"{LOGS}/", f"{POINTS}/")) or name in {RECORD, REPORT, ENVIRONMENT}


def _files(folder: Path, *, written: bool = False) -> dict[str, dict[str, Any]]:
    """The files of evidence as resource descriptors; the statement does not speak of itself.

    Raises:
        OSError: one is a link, no file, or larger than any log, and it is not `written` just now.
    """
    found = {}
    for file in sorted(one for one in folder.rglob("*") if one.is_symlink() or not one.is_dir()):
        name = file.relative_to(folder).as_posix()
        if name == STATEMENT or (written and not file.is_file()):
            continue
        if file.is_symlink() and not written:
            raise OSError(errno.ELOOP, "is a symbolic link", name)
        digest = digest_of_file(file, sys.maxsize if written else _LARGEST_LOG)
        found[name] = {"name": name, "digest": _digest(digest)}
    return found


def _statement(files: Mapping[str, Mapping[str, Any]], record: Mapping[str, Any]) -> dict[str, Any]:
    subjects = [
        {
            "name": f"vpatch-{KIND if is_test(record) else 'smoke'}",
            "digest": _digest(record["digest"]),
        }
    ]
    for number, tree in enumerate(record["subject"], 1):
        # A matrix has a file once for each of its trees, and a subject's name is there once.
        at = f"{number}/" if "points" in record else ""
        subjects += [
            {"name": at + file["path"], "digest": _digest(file["after"])} for file in tree["files"]
        ]
    if "image" in record:
        subjects.append({"name": record["image"]["name"], "digest": _digest(record["image"]["id"])})
    if is_test(record):
        used = [
            {"name": f"test:{record['test']['file']}", "digest": _digest(record["test"]["digest"])}
        ]
    else:
        used = [
            {"name": f"model:{name}", "digest": _digest(model["digest"])}
            for name, model in record["models"].items()
        ]
    tests: dict[str, list[str]] = {"passedTests": [], "warnedTests": [], "failedTests": []}
    for name, verdict in verdicts_of_test(record) if is_test(record) else _verdicts(record):
        if verdict in _VERDICTS:
            tests[_VERDICTS[verdict]].append(name)
    return {
        "_type": _STATEMENT_TYPE,
        "subject": subjects,
        "predicateType": _PREDICATE_TYPE,
        "predicate": {
            "result": record["result"].upper(),
            "configuration": [*files.values(), *used],
            **tests,
        },
    }


def _verdicts(record: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The name and the verdict of each check with the patches."""
    named = [("imports", check) for check in record["imports"].get("after", ())]
    for cell in record["cells"]:
        if cell["phase"] == "after":
            named += [(cell["cell"], check) for check in cell["checks"]]
    for name, check in named:
        yield f"{name}: {check['name']}", check["verdict"]


def _digest(typed: str) -> dict[str, str]:
    algorithm, _, value = typed.partition(":")
    return {algorithm: value}
