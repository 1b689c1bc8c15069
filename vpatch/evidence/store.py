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
from typing import TYPE_CHECKING, Any, TypedDict

from pydantic import ValidationError

from vpatch.errors import UsageError, VpatchError
from vpatch.evidence.behaviour import report_of_test, result_of_test, verdicts_of_test
from vpatch.evidence.documents import document_of
from vpatch.evidence.records import BehaviourTestRecord, SmokeRecord, is_known, upgraded
from vpatch.evidence.smoke_report import is_judged, report_of, result_of
from vpatch.evidence.subject import digest_of_subject
from vpatch.util.untrusted import MEGABYTE, digest_of_file, parse_json, plain_path, read_file
from vpatch.util.validation import first_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from vpatch.evidence.records import EvidenceRecord, MatrixPointRecord, RunResult

RECORD = "results.json"
REPORT = "report.md"
STATEMENT = "statement.json"
ENVIRONMENT = "environment.txt"
LOGS = "logs"
# The evidence of each point of a matrix.
POINTS = "points"
_LARGEST = 64 * MEGABYTE
# What comes of a record that has other things where a record's are.
DAMAGE = (
    *(ArithmeticError, AttributeError, LookupError, TypeError, ValueError),
    *(OSError, RecursionError),
)
# As of a log for `vpatch diagnose`.
_LARGEST_LOG = 50_000 * MEGABYTE
_STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
_PREDICATE_TYPE = "https://in-toto.io/attestation/test-result/v0.1"
# A test that was not run has no place there: it neither passed, nor with a warning.
_VERDICTS = {"pass": "passedTests", "fail": "failedTests"}


class EvidenceError(VpatchError):
    """Evidence is missing, or somebody changed it."""

    code = "evidence.unreadable"


class NoEvidenceError(UsageError, EvidenceError):
    """There is no evidence in the folder."""

    code = "evidence.not-found"


class _Descriptor(TypedDict):
    """A resource descriptor of in-toto: what something is called, and its digest by algorithm."""

    name: str
    digest: dict[str, str]


@dataclass(frozen=True)
class Evidence:
    folder: Path
    record: EvidenceRecord

    @property
    def name(self) -> str:
        return self.folder.name


def write_evidence(workdir: Path, record: EvidenceRecord) -> None:
    """Write what is made of a record, beside the logs that are there already."""
    text = json.dumps(document_of(record), indent=1) + "\n"
    (workdir / RECORD).write_text(text, encoding="utf-8")
    (workdir / REPORT).write_text(_report(record), encoding="utf-8")
    statement = _statement(_files(workdir, written=True), record)
    (workdir / STATEMENT).write_text(statement, encoding="utf-8")


def all_evidence(root: Path) -> tuple[list[Evidence], list[EvidenceError]]:
    """Return what there is, the oldest first, and what cannot be read."""
    readable, damaged = [], []
    for file in sorted(root.glob(f"*/{RECORD}")):
        if file.parent.name.startswith("."):
            continue  # in the making
        try:
            readable.append(read_evidence(file.parent))
        except EvidenceError as error:
            damaged.append(error)
    return sorted(readable, key=lambda evidence: evidence.record.made), damaged


def read_evidence(folder: Path) -> Evidence:
    """Read a record of any version, as this version writes it.

    Raises:
        NoEvidenceError: there is none.
        EvidenceError: it cannot be read, or it is damaged.
    """
    file = folder / RECORD
    try:
        document = parse_json(read_file(file, _LARGEST))
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
        ) from error
    except ValueError as error:
        raise _damaged(file, f"it is not a record: {error}") from error
    if not is_known(document):
        raise EvidenceError(
            "this vpatch does not know this kind of record",
            where=str(file),
            hint="use the version of vpatch that wrote it",
            code="evidence.unknown-version",
        )
    try:
        return Evidence(folder, upgraded(document))
    except (ValidationError, RecursionError) as error:
        reason = first_of(error) if isinstance(error, ValidationError) else "it is too deep"
        raise _damaged(file, f"the record is not complete: {reason}") from error


def _damaged(file: Path, what: str) -> EvidenceError:
    hint = "restore the file, or move its folder elsewhere"
    return EvidenceError(what, where=str(file), hint=hint)


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
    problems = [name for name, digest in stated.items() if name in here and here[name] != digest]
    problems += [f"{name} is gone" for name in stated if _is_file_name(name) and name not in here]
    problems += [f"{name} is not among its files" for name in here if name not in stated]
    return problems or _contradictions(evidence, statement, files)


def _contradictions(
    evidence: Evidence, statement: Any, files: Mapping[str, _Descriptor]
) -> list[str]:
    """What of whole evidence no run can have written: all of it follows from the cells."""
    record = evidence.record
    try:
        claims = {
            f"{RECORD}: its digest": record.digest == digest_of_subject(record.subject),
            f"{RECORD}: its result": record.result == _result(record),
        }
        if isinstance(record, SmokeRecord):
            are_points = (_is_point(evidence.folder, record, one) for one in record.points or ())
            claims[f"{RECORD}: the verdict on a cell"] = is_judged(record)
            claims[f"{RECORD}: its points"] = all(are_points)
        claims[REPORT] = (evidence.folder / REPORT).read_bytes() == _report(record).encode()
        claims[STATEMENT] = statement == json.loads(_statement(files, record))
    except DAMAGE as error:
        return [f"{RECORD} is not whole: {type(error).__name__}: {error}"]
    return [name for name, is_so in claims.items() if not is_so]


def _is_point(whole: Path, record: SmokeRecord, point: MatrixPointRecord) -> bool:
    """Whether the evidence of a point lies in the folder, is whole, and says the same."""
    folder = plain_path(point.folder)
    if not folder.startswith(f"{POINTS}/"):
        return False
    try:
        evidence = read_evidence(whole / folder)
    except EvidenceError:
        return False
    there = evidence.record
    if isinstance(there, BehaviourTestRecord):
        return False
    cells = [cell for cell in record.cells if cell.point == point.name]
    return (
        (there.digest, there.engine, there.result) == (point.digest, point.engine, point.result)
        and [(cell.phase, cell.cell, cell.checks) for cell in cells]
        == [(c.phase, f"{point.name}: {c.cell}", c.checks) for c in there.cells]
        and not tampered(evidence)
    )


def _report(record: EvidenceRecord) -> str:
    return report_of_test(record) if isinstance(record, BehaviourTestRecord) else report_of(record)


def _result(record: EvidenceRecord) -> RunResult:
    if isinstance(record, BehaviourTestRecord):
        return result_of_test(record.runs, record.problems)
    return result_of(record.cells, record.imports)


def _is_file_name(name: str) -> bool:
    return name.startswith((f"{LOGS}/", f"{POINTS}/")) or name in {RECORD, REPORT, ENVIRONMENT}


def _files(folder: Path, *, written: bool = False) -> dict[str, _Descriptor]:
    """The files of evidence as resource descriptors; the statement does not speak of itself.

    Raises:
        OSError: one is a link, no file, or larger than any log, and it is not `written` just now.
    """
    descriptors = {}
    for file in sorted(one for one in folder.rglob("*") if one.is_symlink() or not one.is_dir()):
        name = file.relative_to(folder).as_posix()
        if name == STATEMENT or (written and not file.is_file()):
            continue
        if file.is_symlink() and not written:
            raise OSError(errno.ELOOP, "is a symbolic link", name)
        digest = digest_of_file(file, sys.maxsize if written else _LARGEST_LOG)
        descriptors[name] = _descriptor(name, digest)
    return descriptors


def _statement(files: Mapping[str, _Descriptor], record: EvidenceRecord) -> str:
    subjects = [_descriptor(f"vpatch-{record.kind}", record.digest)]
    is_matrix = isinstance(record, SmokeRecord) and record.points is not None
    for number, tree in enumerate(record.subject, 1):
        # A matrix has a file once for each of its trees, and a subject's name is there once.
        at = f"{number}/" if is_matrix else ""
        subjects += [_descriptor(at + file.path, file.after) for file in tree.files]
    if isinstance(record, BehaviourTestRecord):
        used = [_descriptor(f"test:{record.test.file}", record.test.digest)]
        verdicts = verdicts_of_test(record)
    else:
        if record.image is not None:
            subjects.append(_descriptor(record.image.name, record.image.id))
        used = [_descriptor(f"model:{n}", model.digest) for n, model in record.models.items()]
        verdicts = _verdicts(record)
    tests: dict[str, list[str]] = {"passedTests": [], "warnedTests": [], "failedTests": []}
    for name, verdict in verdicts:
        if verdict in _VERDICTS:
            tests[_VERDICTS[verdict]].append(name)
    configuration = [*files.values(), *used]
    statement = {
        "_type": _STATEMENT_TYPE,
        "subject": subjects,
        "predicateType": _PREDICATE_TYPE,
        "predicate": {"result": record.result.upper(), "configuration": configuration, **tests},
    }
    return json.dumps(statement, indent=1) + "\n"


def _verdicts(record: SmokeRecord) -> Iterator[tuple[str, str]]:
    """The name and the verdict of each check with the patches."""
    named = [("imports", check) for check in record.imports.get("after", ())]
    for cell in record.cells:
        if cell.phase == "after":
            named += [(cell.cell, check) for check in cell.checks]
    for name, check in named:
        yield f"{name}: {check.name}", check.verdict


def _descriptor(name: str, typed: str) -> _Descriptor:
    """A thing and its digest, which is `ALGORITHM:HEX`."""
    algorithm, _, value = typed.partition(":")
    return {"name": name, "digest": {algorithm: value}}
