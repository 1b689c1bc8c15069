"""vpatch evidence: what smoke runs left, and whether it is for what would be run now."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vpatch import jobs
from vpatch.cli import render
from vpatch.cli.behaviour import ground_of
from vpatch.cli.output import Group
from vpatch.cli.session import Session, in_project, json_option, library_options, offline_option
from vpatch.cli.smoke_command import smoke_plan_of
from vpatch.commits import digest_of, short_digest
from vpatch.errors import ExitCode, VpatchError, together
from vpatch.memo import remembered_plan
from vpatch.smoke.evidence import (
    RECORD,
    REPORT,
    EvidenceError,
    all_evidence,
    is_test,
    read_evidence,
    tampered,
)
from vpatch.smoke.subject import differences, subject_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vpatch.smoke.evidence import Evidence

# What comes of a record that has other things where a record's are.
_DAMAGE = (
    *(ArithmeticError, AttributeError, LookupError, TypeError, ValueError),
    *(OSError, RecursionError),
)
_root_option = click.option(
    "--from",
    "root",
    type=click.Path(path_type=Path),
    default=in_project("evidence"),
    help="The folder that evidence is in  [default: evidence in the project]",
)


@dataclass(frozen=True)
class _Verified:
    evidence: Evidence
    changed: list[str]
    differs: list[str]

    @property
    def holds(self) -> bool:
        return not self.changed and not self.differs

    @property
    def exit_code(self) -> ExitCode:
        passed = self.evidence.record.get("result") == "passed"
        return ExitCode.CLEAN if self.holds and passed else ExitCode.FINDINGS

    def as_json(self) -> dict[str, Any]:
        record = self.evidence.record
        return {
            "name": self.evidence.name,
            "made": record.get("made"),
            "result": record.get("result"),
            "digest": record.get("digest"),
            "changed": self.changed,
            "differs": self.differs,
        }


@click.group("evidence", cls=Group)
def command() -> None:
    """List evidence, show it, and verify that it is for the patches as they are now."""


@command.command("list")
@_root_option
@offline_option
@library_options
@json_option
def list_(
    root: Path,
    patches: tuple[Path, ...],
    recipes: tuple[Path, ...],
    *,
    offline: bool,
    as_json: bool,
) -> ExitCode:
    """List all evidence, the oldest first, and whether it still is for what would be run."""
    session = Session(patches, recipes, offline)
    readable, damaged = all_evidence(root)
    found = []
    for evidence in readable:
        try:
            found.append(_verify(session, evidence))
        except _DAMAGE as error:
            damaged.append(_no_record(evidence, error))
    if as_json:
        broken = [{"name": _name_of(one), "error": one.what} for one in damaged]
        render.print_json([*(one.as_json() for one in found), *broken])
        return ExitCode.FINDINGS if damaged else ExitCode.CLEAN
    _print_list(found)
    if not found and not damaged:
        click.echo(f"there is no evidence in {root}; vpatch smoke makes it")
    if damaged:
        raise together(damaged)
    return ExitCode.CLEAN


def _name_of(error: EvidenceError) -> str:
    return Path(error.where or "").parent.name


def _no_record(evidence: Evidence, error: Exception) -> EvidenceError:
    return EvidenceError(
        f"is no whole record: {type(error).__name__}: {error}",
        where=str(evidence.folder / RECORD),
        todo="move its folder elsewhere",
    )


@command.command("show")
@click.argument("name")
@_root_option
@json_option
def show(name: str, root: Path, *, as_json: bool) -> ExitCode:
    """Print the report of some evidence, if nobody has changed it since.

    Ends with 1 where somebody has. `verify` says as well whether it is for the patches as they are.
    """
    evidence = read_evidence(root / name)
    try:
        changed = tampered(evidence)
    except _DAMAGE as error:
        raise _no_record(evidence, error) from error
    if changed:
        raise EvidenceError(
            f"was changed since it was written, and is not shown: {', '.join(changed)}",
            where=str(evidence.folder),
            todo="bring back the files as they were, or make the evidence anew",
        )
    if as_json:
        render.print_json(evidence.record)
    else:
        click.echo((evidence.folder / REPORT).read_text(encoding="utf-8"), nl=False)
    return ExitCode.CLEAN


@command.command("verify")
@click.argument("name")
@_root_option
@offline_option
@library_options
@json_option
def verify(
    name: str,
    root: Path,
    patches: tuple[Path, ...],
    recipes: tuple[Path, ...],
    *,
    offline: bool,
    as_json: bool,
) -> ExitCode:
    """Say whether evidence is whole, and for exactly what its command would run now.

    Ends with 1 where a file of it was changed, where the patches, the source or the smoke plan are
    others by now, or where it is of a run that failed. It is not signed: whoever can write to its
    folder can make other evidence.
    """
    found = _verify(Session(patches, recipes, offline), read_evidence(root / name))
    if as_json:
        render.print_json(found.as_json())
        return found.exit_code
    for file in found.changed:
        click.echo(f"changed since it was written: {file}")
    for difference in found.differs:
        click.echo(f"not what would be run now: {difference}")
    record = found.evidence.record
    verdict = "matches" if found.holds else "does not match any more"
    digest = short_digest(str(record.get("digest")))
    click.echo(f"{name} {verdict} ({record.get('result')}, {digest})")
    return found.exit_code


def _print_list(found: Sequence[_Verified]) -> None:
    for one in found:
        record = one.evidence.record
        state = "matches" if one.holds else "no longer matches"
        facts = f"{record.get('made')}  {record.get('result')}"
        click.echo(f"{one.evidence.name}  {facts}  {state}")


def _verify(session: Session, evidence: Evidence) -> _Verified:
    changed = tampered(evidence)
    # What was changed cannot be asked what it was asked for.
    return _Verified(evidence, changed, [] if changed else _differences(session, evidence))


def _differences(session: Session, evidence: Evidence) -> list[str]:
    """Plan anew what the record says that was asked for."""
    if is_test(evidence.record):
        return _differences_of_test(session, evidence)
    asked = evidence.record["asked"]
    if asked.get("image"):
        (tree,) = evidence.record["subject"]
        ids = tuple(patch["id"] for patch in tree["patches"])
        request = jobs.Request(tree["pin"]["version"], None, (), ids)
    else:
        request = jobs.Request(
            asked["vllm"], asked["recipe"], tuple(asked["tree"]), tuple(asked["patch"])
        )
    with ExitStack() as stack:
        try:
            plans = []
            jobs_found = jobs.resolve(request, session.library)
            for job in jobs_found:
                tree = stack.enter_context(session.tree(job.spec, job.expected_digest))
                plans.append(remembered_plan(session.plans, job.patches, tree, to_write=True))
        except VpatchError as error:
            return [f"it cannot be planned: {error.what}"]
        found = differences(evidence.record["subject"], subject_of(plans))
        try:
            recipe = asked["plan"] or asked["recipe"] or jobs_found[0].recipe
            plan = smoke_plan_of(session, recipe)
        except VpatchError as error:
            return [*found, f"its smoke plan is not there any more: {error.what}"]
    if plan.model_dump(mode="json", exclude_none=True) != evidence.record["plan"]:
        found.append("the smoke plan has changed")
    return found


def _differences_of_test(session: Session, evidence: Evidence) -> list[str]:
    """Plan anew what the test was run on, and look at the test itself."""
    record = evidence.record
    try:
        patch = session.library.patch(record["patch"])
        proofs = [p for p in patch.declaration.proof if p.test == record["test"]["file"]]
        proof = next((p for p in proofs if p.engine == record["engine"]["kind"]), None)
        if proof is None:
            return [f"{patch.id} has no proof {record['test']['file']} any more"]
        with ExitStack() as stack:
            ground = ground_of(session, patch, proof, record["asked"]["vllm"], stack)
        found = differences(record["subject"], subject_of(ground.all_after))
    except VpatchError as error:
        return [f"it cannot be planned: {error.what}"]
    if digest_of((patch.folder / proof.test).read_bytes()) != record["test"]["digest"]:
        found.append(f"the test {proof.test} has changed")
    if proof.model_dump(mode="json", exclude_defaults=True) != record["proof"]:
        found.append(f"what is declared of the test {proof.test} has changed")
    return found
