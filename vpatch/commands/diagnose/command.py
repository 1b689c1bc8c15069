"""vpatch diagnose: which known symptoms a log has, and what cures them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from vpatch.commands.diagnose.diagnosis import diagnose
from vpatch.commands.diagnose.output import DiagnoseOutput
from vpatch.console import render
from vpatch.console.common_options import offline_option
from vpatch.console.completion import RELEASE
from vpatch.console.options import (
    json_option,
    library_options,
)
from vpatch.console.output import style
from vpatch.console.result import CommandResult
from vpatch.errors import ExitCode
from vpatch.logs.vllm_format import split_prefix
from vpatch.util.plural import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vpatch.commands.diagnose.diagnosis import Diagnosis, IssueVerdict, SymptomVerdict
    from vpatch.logs.facts import LoggedError, Observation
    from vpatch.logs.symptoms import ExplainedLine, IssueSighting, Sighting
    from vpatch.workspace.context import Context

    Placed = Sighting | IssueSighting | ExplainedLine | Observation | LoggedError

# The number of the log, and of the line in it.
Place = tuple[int, int]
_WIDEST = 160
_FRAMES = 4


@click.command("diagnose")
@click.argument("logs", metavar="LOGFILE...", nargs=-1, required=True)
@click.option(
    "--vllm",
    type=RELEASE,
    metavar="VERSION",
    help="The vLLM that wrote the log, as in vpatch status  [default: as the log says]",
)
@offline_option
@library_options
@json_option
def command(
    logs: tuple[str, ...],
    vllm: str | None,
    context: Context,
    *,
    as_json: bool,
) -> CommandResult | ExitCode:
    """Find known symptoms in a log.

    Names the patch or the known issue for each, and how sure that is. LOGFILE is the output of any
    vLLM, or a folder with logs of one run; - reads standard input. Ends with 1 if something is
    found.
    """
    diagnosis = diagnose(context, logs, vllm)
    code = ExitCode.FINDINGS if diagnosis.shows_something else ExitCode.CLEAN
    if as_json:
        return CommandResult(DiagnoseOutput.model_validate(diagnosis), code)
    click.echo("\n".join(_lines(diagnosis)))
    return code


def _lines(diagnosis: Diagnosis) -> Iterator[str]:
    if diagnosis.verdicts or diagnosis.issues or not diagnosis.shows_something:
        yield _head(diagnosis)
    parts = [
        *((_place(diagnosis, v.sightings[0]), _of_patch(diagnosis, v)) for v in diagnosis.verdicts),
        *((_place(diagnosis, v.sighting), _of_issue(diagnosis, v)) for v in diagnosis.issues),
        *((_place(diagnosis, one), _of_explanation(one)) for one in diagnosis.reading.explained),
        *(
            (_place(diagnosis, one), _of_observation(diagnosis, one))
            for one in diagnosis.observations
        ),
    ]
    # What comes first in the log is not a consequence of what comes later.
    for _, lines in sorted(parts, key=lambda part: part[0]):
        yield from lines
    if diagnosis.verdicts and diagnosis.note:
        yield diagnosis.note
    if not (diagnosis.verdicts or diagnosis.issues or diagnosis.reading.explained):
        yield from _facts(diagnosis)


def _head(diagnosis: Diagnosis) -> str:
    logs = diagnosis.logs
    name = logs[0].name if len(logs) == 1 else counted(len(logs), "log")
    lines = counted(diagnosis.lines, "line")
    if not diagnosis.shows_something:
        declared = counted(diagnosis.looked_for.symptoms, "symptom")
        of = counted(diagnosis.looked_for.patches, "patch")
        issues = counted(diagnosis.looked_for.known_issues, "known issue")
        return (
            f"{name}: nothing known in {lines}; {declared} of {of}, and {issues}, were looked for"
        )
    versions = diagnosis.facts.versions
    wrote = f", of vLLM {', '.join(versions)}" if versions else ""
    symptoms = len(diagnosis.reading.sightings) + len(diagnosis.issues)
    return f"{name}: {counted(symptoms, 'known symptom')} in {lines}{wrote}"


def _place(diagnosis: Diagnosis, one: Placed) -> Place:
    names = [log.name for log in diagnosis.logs]
    return names.index(one.log), one.line


def _at(diagnosis: Diagnosis, one: Placed) -> str:
    return f"line {one.line}" if len(diagnosis.logs) == 1 else f"{one.log}:{one.line}"


def _of_patch(diagnosis: Diagnosis, verdict: SymptomVerdict) -> Iterator[str]:
    declaration = verdict.patch.declaration
    yield f"{style(declaration.id, bold=True)}  {declaration.title}"
    for sighting in verdict.sightings:
        yield f"  {_at(diagnosis, sighting)}{_often(sighting.count)}: {_message(sighting)}"
    state = verdict.claimed_state
    yield f"  {f'{render.styled(state)}: ' if state else ''}{verdict.says}"
    if verdict.run:
        if declaration.on_request:
            yield f"  on request only: {declaration.on_request}"
        yield f"    {verdict.run}"


def _of_issue(diagnosis: Diagnosis, verdict: IssueVerdict) -> Iterator[str]:
    sighting, issue = verdict.sighting, verdict.issue
    yield f"{style(issue.id, bold=True)}  {issue.title}"
    yield f"  {_at(diagnosis, sighting)}{_often(sighting.count)}: {_message(sighting)}"
    yield f"  {verdict.certainty}: {verdict.says}"
    if verdict.applies:
        yield f"  do: {issue.do}"
    if verdict.run:
        yield f"    {verdict.run}"
    yield f"  thread: {', '.join(issue.thread)}"


def _message(sighting: Sighting | IssueSighting) -> str:
    """Return what the log says, and not what a symptom of its kind is declared as."""
    return _short(split_prefix(sighting.text)[1].strip())


def _often(count: int) -> str:
    return f", {count} times in all" if count > 1 else ""


def _short(text: str) -> str:
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 3]}..."


def _of_explanation(one: ExplainedLine) -> Iterator[str]:
    yield f"{one.log}:{one.line}: {one.explanation.message}"
    yield f"  {one.explanation.meaning}"
    yield f"  next: {one.explanation.hint}"


def _of_observation(diagnosis: Diagnosis, one: Observation) -> Iterator[str]:
    yield f"{style(one.kind, bold=True)}  {one.what}"
    yield f"  from {_at(diagnosis, one)} on. {one.next}"


def _facts(diagnosis: Diagnosis) -> Iterator[str]:
    """Say what the log tells of the vLLM that wrote it, where nothing known explains it."""
    facts = diagnosis.facts
    values = {
        "vLLM": ", ".join(facts.versions),
        "platform": facts.platform,
        "model": facts.model,
        "architecture": ", ".join(facts.architectures),
        "speculation": facts.speculation or ("none" if facts.speculates is False else None),
        "quantisation": facts.quantization,
    }
    for name, value in values.items():
        if value:
            yield f"  {name}: {value}"
    errors = [facts.first_error]
    if facts.last_error is not facts.first_error:
        errors.append(facts.last_error)
    for word, error in zip(("first", "last"), errors, strict=False):
        if error is not None:
            yield from _error(diagnosis, word, error)
    if diagnosis.next:
        yield f"  next: {diagnosis.next}"


def _error(diagnosis: Diagnosis, word: str, error: LoggedError) -> Iterator[str]:
    message = f": {_short(error.message)}" if error.message else ""
    yield f"  {word} error, {_at(diagnosis, error)}: {error.kind}{message}"
    yield from (f"    {frame}" for frame in error.frames[-_FRAMES:])
