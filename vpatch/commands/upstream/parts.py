"""What a pull request says, from what the patch declares and what its evidence shows."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import libcst as cst

from vpatch.commands.upstream.proof import Proven
from vpatch.commands.upstream.prose import unwrapped
from vpatch.evidence.behaviour import command_of_test
from vpatch.evidence.documents import document_of
from vpatch.evidence.records import BehaviourTestRecord, upgraded
from vpatch.evidence.smoke_report import command_of, report_of
from vpatch.planning.view import parse

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vpatch.commands.upstream.duplicates import Searched
    from vpatch.declare.patch import PatchDeclaration, Proposal
    from vpatch.declare.target import Part, Target
    from vpatch.evidence.records import EvidenceRecord
    from vpatch.evidence.store import Evidence
    from vpatch.library.patch import Patch

_MESSAGE = 120


def parts_of(
    patch: Patch,
    proposal: Proposal,
    target: Target,
    proven: Proven,
    searched: Searched | None,
) -> dict[Part, str]:
    """Return the parts of a body; empty ones where there is nothing to say."""
    repository, branch = target.repository, target.branch
    declaration = patch.declaration
    parts: dict[Part, str] = {
        "summary": _join([proposal.summary, _related_threads(declaration)]),
        "claims": "\n".join(f"- {unwrapped(claim)}" for claim in proposal.claims),
        "reproduction": _join(["**Reproduction**", proposal.reproduction]),
        "commands": _commands(patch, proposal),
        "results": "\n\n".join(_results(proposal, proven, branch)),
        "cause": unwrapped(declaration.why),
        "not a duplicate": _not_a_duplicate(proposal, target.repositories, searched),
        "limits": _limits(declaration, proposal),
        "assistance": _assistance(proposal),
    }
    return {name: _short_refs(text, repository) for name, text in parts.items()}


def _join(texts: Sequence[str | None]) -> str:
    return "\n\n".join(unwrapped(text) for text in texts if text)


def _short_refs(text: str, repository: str) -> str:
    return re.sub(rf"(?<![\w/]){re.escape(repository)}(#\d+)", r"\1", text)


def _related_threads(declaration: PatchDeclaration) -> str | None:
    refs = [one.ref for one in declaration.upstream]
    return f"Related: {', '.join(refs)}" if refs else None


def functions_in(test: bytes, where: str) -> list[str]:
    """Return the names of the tests in a file."""
    body = parse(where, test).body
    defined = [line for line in body if isinstance(line, (cst.FunctionDef, cst.ClassDef))]
    return [d.name.value for d in defined if d.name.value.lower().startswith("test")]


def _commands(patch: Patch, proposal: Proposal) -> str:
    lines = []
    for one in proposal.tests:
        file = patch.folder / one.test
        names = functions_in(file.read_bytes(), str(file))
        lines.append(f'python -m pytest {one.at} -v -k "{" or ".join(names)}"')
    return "**Commands**\n\n```bash\n" + "\n".join(lines) + "\n```"


def _results(proposal: Proposal, proven: Proven, branch: str) -> Iterator[str]:
    """What each test says without the change and with it: first those that upstream gets."""
    proven = _inert(proven)
    versions = sorted({e.record.engine.vllm for e in proven.all_evidence})
    if versions:
        yield (
            f"**Results**, of vLLM {', '.join(versions)} as it is installed, without this change "
            f"and with it; what it replaces and puts there is the same on {branch}. Made by "
            + " and ".join(f"`{one}`" for one in _commands_of(proven))
            + "."
        )
    places = {one.test: one.at for one in proposal.tests}
    for test in sorted(proven.tests, key=lambda test: test not in places):
        yield from _texts_of(proven.tests[test].record, places.get(test))
    for evidence in proven.smoke:
        yield from _texts_of(evidence.record, None)


def _texts_of(record: EvidenceRecord, place: str | None) -> Iterator[str]:
    """What a record shows; `place` is where upstream gets the test."""
    if not isinstance(record, BehaviourTestRecord):
        report = report_of(record).strip()
        yield (
            f"<details>\n<summary>End to end on {_where(record)}: "
            f"{record.result}</summary>\n\n{report}\n\n</details>"
        )
        return
    what = f"The test in `{place}`" if place else "Further tests, not added here"
    on_top = record.proof.get("on-top-of")
    also = ""
    if isinstance(on_top, list) and on_top:
        named = ", ".join(f"`{patch_id}`" for patch_id in on_top)
        also = f" (both with {named} applied as well, without which it does not run)"
    yield f"{what}, on {_where(record)}{also}:"
    yield "\n".join(_before_and_after(record))


# What GitHub would obey in a text that only reports: HTML, names of people and of threads, links,
# images. A code span cannot hold it, as a backtick ends one.
_OBEYED = re.compile(r"<(?=[A-Za-z/!?])|[@#](?=\w)|(?<=\])(?=[(\[:])|`")
_SHOWN_AS = {"<": "\u2039", "@": "\uff20", "#": "\uff03", "": " ", "`": "'"}
# Their first line is taken.
_OF_LINES = {"message", "why"}


def _inert(proven: Proven) -> Proven:
    """Return evidence whose texts do nothing in a body: a node, a GPU or a log names them."""
    return Proven(
        {test: _inert_evidence(one) for test, one in proven.tests.items()},
        tuple(_inert_evidence(one) for one in proven.smoke),
        proven.rejected,
    )


def _inert_evidence(evidence: Evidence) -> Evidence:
    return replace(evidence, record=upgraded(_inert_value(document_of(evidence.record))))


def _inert_value(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        return {_inert_value(name): _inert_value(one, name) for name, one in value.items()}
    if isinstance(value, list):
        return [_inert_value(one, key) for one in value]
    if not isinstance(value, str):
        return value
    text = value if key in _OF_LINES else " ".join(value.splitlines())
    return _OBEYED.sub(lambda match: _SHOWN_AS[match[0]], text)


def _commands_of(proven: Proven) -> list[str]:
    records = (evidence.record for evidence in proven.all_evidence)
    return list(dict.fromkeys(map(_command_of, records)))


def _command_of(record: EvidenceRecord) -> str:
    return (
        command_of_test(record) if isinstance(record, BehaviourTestRecord) else command_of(record)
    )


def _where(record: EvidenceRecord) -> str:
    engine, machine = record.engine, record.machine
    gpus = ", ".join(gpu.name for gpu in machine.gpus)
    return f"vLLM {engine.vllm} ({engine.kind}), {gpus or machine.processor}"


def _before_and_after(record: BehaviourTestRecord) -> Iterator[str]:
    after = {test.name: test.outcome for test in record.runs.patched}
    yield "| test | without | with | what it says without |"
    yield "|---|---|---|---|"
    for test in record.runs.pristine:
        message, patched = _one_line(test.message), after.get(test.name, "-")
        yield f"| `{_cell(test.name)}` | {test.outcome} | {patched} | {message} |"


def _one_line(message: str) -> str:
    line = message.strip().partition("\n")[0]
    line = line if len(line) <= _MESSAGE else f"{line[:_MESSAGE]}…"
    return f"`{_cell(line.replace('`', ''))}`" if line else ""


def _cell(text: str) -> str:
    return text.replace("|", r"\|")


def _limits(declaration: PatchDeclaration, proposal: Proposal) -> str:
    parts: list[str | None] = []
    for heading, text in (("**Risks**", declaration.risks), ("**Limits**", proposal.limits)):
        parts += [heading, text] if text else []
    return _join(parts)


def _not_a_duplicate(
    proposal: Proposal, repositories: Sequence[str], searched: Searched | None
) -> str:
    lines = ["**Not a duplicate**"]
    if searched is None:
        lines.append("(Upstream's open threads were not searched for this preview.)")
    else:
        where = " and ".join(repositories)
        lines.append(f"Searched in {where}: {', '.join(searched.asked)}.")
        if not searched.same:
            lines.append("Nothing open does the same.")
    near = searched.near if searched else ()
    others = [f"- {hit.thread.ref} touches the same file, elsewhere." for hit in near]
    others += [f"- {ref}: {why.strip()}" for ref, why in proposal.differs.items()]
    return _join([*lines, "\n".join(others)])


def _assistance(proposal: Proposal) -> str:
    if not proposal.assisted_by:
        return ""
    # That they read and ran it, the submitters say themselves.
    return f"AI assistance was used for this change ({', '.join(proposal.assisted_by)})."
