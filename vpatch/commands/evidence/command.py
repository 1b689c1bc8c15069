"""vpatch evidence: what smoke runs left, and whether it is for what would be run now."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from vpatch.commands.evidence.output import EvidenceListOutput, EvidenceOutput, EvidenceShowOutput
from vpatch.commands.evidence.usecase import unchanged_evidence, verify_all, verify_named
from vpatch.console.common_options import offline_option
from vpatch.console.options import (
    evidence_dir_option,
    json_option,
    library_options,
)
from vpatch.console.output import Group
from vpatch.console.result import CommandResult
from vpatch.errors import ExitCode, combine
from vpatch.evidence.store import REPORT
from vpatch.util.digest import short_digest

if TYPE_CHECKING:
    from pathlib import Path

    from vpatch.workspace.context import Context


@click.group("evidence", cls=Group)
def command() -> None:
    """List, show and verify evidence.

    Evidence counts if it matches the current patches.
    """


@command.command("list")
@evidence_dir_option
@offline_option
@library_options
@json_option
def list_(
    evidence_dir: Path,
    context: Context,
    *,
    as_json: bool,
) -> CommandResult | ExitCode:
    """List all evidence, oldest first, and whether it matches what would run now."""
    verified, errors = verify_all(context, evidence_dir)
    if as_json:
        code = combine(errors).exit_code if errors else ExitCode.CLEAN
        return CommandResult(EvidenceListOutput(evidence=verified), code, tuple(errors))
    for one in verified:
        record = one.evidence.record
        click.echo(f"{one.evidence.name}  {record.made}  {record.result}  {one.state}")
    if not verified and not errors:
        click.echo(f"there is no evidence in {evidence_dir}; vpatch smoke makes it")
    if errors:
        raise combine(errors)
    return ExitCode.CLEAN


@command.command("show")
@click.argument("name")
@evidence_dir_option
@json_option
def show(name: str, evidence_dir: Path, *, as_json: bool) -> CommandResult | ExitCode:
    """Print the report of NAME, unless somebody has changed its files.

    Ends with 1 if a file was changed. `vpatch evidence verify` also compares it with the current
    patches.
    """
    evidence = unchanged_evidence(evidence_dir / name)
    if as_json:
        return CommandResult(EvidenceShowOutput.model_validate(evidence))
    click.echo((evidence.folder / REPORT).read_text(encoding="utf-8"), nl=False)
    return ExitCode.CLEAN


@command.command("verify")
@click.argument("name")
@evidence_dir_option
@offline_option
@library_options
@json_option
def verify(
    name: str,
    evidence_dir: Path,
    context: Context,
    *,
    as_json: bool,
) -> CommandResult | ExitCode:
    """Verify that evidence is complete, and matches what its command would run now.

    Ends with 1 if one of its files was changed, if the patches, the source or the smoke plan are
    different now, or if its run failed. Ends with 4 if the source is out of reach. Evidence is not
    signed: anyone who can write to its folder can make other evidence.
    """
    verified = verify_named(context, evidence_dir / name)
    if as_json:
        return CommandResult(EvidenceOutput.model_validate(verified), verified.exit_code)
    for file in verified.changed:
        click.echo(f"changed since it was written: {file}")
    for difference in verified.differs:
        click.echo(f"not what would be run now: {difference}")
    record = verified.evidence.record
    verdict = "matches" if verified.holds else "does not match any more"
    click.echo(f"{name} {verdict} ({record.result}, {short_digest(record.digest)})")
    return verified.exit_code
