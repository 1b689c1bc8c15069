"""What a pull request says, from what the patch declares and what its evidence shows."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import libcst as cst

from vpatch.smoke.evidence import is_test
from vpatch.smoke.report import command_of, report_of
from vpatch.smoke.tested import command_of_test
from vpatch.upstream.prose import unwrapped

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from vpatch.declare.patch import PatchDeclaration, Proposal
    from vpatch.declare.target import Part
    from vpatch.patch import Patch
    from vpatch.upstream.duplicates import Searched
    from vpatch.upstream.proof import Proven

_MESSAGE = 120


def parts_of(
    patch: Patch,
    proposal: Proposal,
    repository: str,
    proven: Proven,
    searched: Searched | None,
) -> dict[Part, str]:
    """Return the parts of a body; empty ones where there is nothing to say."""
    declaration = patch.declaration
    parts: dict[Part, str] = {
        "summary": _joined([proposal.summary, _related(declaration, repository)]),
        "claims": "\n".join(f"- {unwrapped(claim)}" for claim in proposal.claims),
        "reproduction": _joined(["**Reproduction**", proposal.reproduction]),
        "commands": _commands(patch, proposal, proven),
        "results": "\n\n".join(_results(proposal, proven)),
        "cause": unwrapped(declaration.why),
        "not a duplicate": _not_a_duplicate(proposal, repository, searched),
        "limits": _limits(declaration, proposal, proven),
        "assistance": _assistance(proposal),
    }
    return {name: _short_refs(text, repository) for name, text in parts.items()}


def _joined(texts: Sequence[str | None]) -> str:
    return "\n\n".join(unwrapped(text) for text in texts if text)


def _short_refs(text: str, repository: str) -> str:
    return re.sub(rf"(?<![\w/]){re.escape(repository)}(#\d+)", r"\1", text)


def _related(declaration: PatchDeclaration, repository: str) -> str | None:
    refs = [one.ref for one in declaration.upstream if one.ref.startswith(f"{repository}#")]
    return f"Related: {', '.join(refs)}" if refs else None


def functions_in(test: bytes) -> list[str]:
    """Return the names of the tests in a file."""
    body = cst.parse_module(test).body
    defined = [line for line in body if isinstance(line, (cst.FunctionDef, cst.ClassDef))]
    return [d.name.value for d in defined if d.name.value.lower().startswith("test")]


def _commands(patch: Patch, proposal: Proposal, proven: Proven) -> str:
    lines = []
    for one in proposal.tests:
        names = functions_in((patch.folder / one.test).read_bytes())
        lines.append(f'.venv/bin/python -m pytest {one.at} -v -k "{" or ".join(names)}"')
    made = [
        command_of_test(e.record) if is_test(e.record) else command_of(e.record["asked"])
        for e in proven.all_evidence
    ]
    block = "**Commands**\n\n```bash\n" + "\n".join(lines) + "\n```"
    if not made:
        return block
    ran = "\n".join(f"- `{command}`" for command in dict.fromkeys(made))
    return f"{block}\n\nThe results below were made with vpatch, inside an installed vLLM:\n\n{ran}"


def _results(proposal: Proposal, proven: Proven) -> Iterator[str]:
    """What each test says without the change and with it: first those that upstream gets."""
    places = {one.test: one.at for one in proposal.tests}
    for test in sorted(proven.tests, key=lambda test: test not in places):
        record = proven.tests[test].record
        what = (
            f"The test in `{places[test]}`" if test in places else "Further tests, not added here"
        )
        on_top = record["proof"].get("on-top-of")
        also = ""
        if on_top:
            named = ", ".join(f"`{patch_id}`" for patch_id in on_top)
            also = f" (both with {named} applied as well, without which it does not run)"
        yield f"{what}, on **{_where(record)}**, without this change and with it{also}:"
        yield "\n".join(_before_and_after(record))
    for evidence in proven.smoke:
        report = report_of(evidence.record).strip()
        yield (
            f"<details>\n<summary>End to end on {_where(evidence.record)}: "
            f"{evidence.record['result']}</summary>\n\n{report}\n\n</details>"
        )


def _where(record: Mapping[str, Any]) -> str:
    engine, machine = record["engine"], record["machine"]
    gpus = [gpu["name"] for gpu in machine["gpus"]]
    return f"vLLM {engine['vllm']} ({engine['kind']}), {', '.join(gpus) or machine['processor']}"


def _before_and_after(record: Mapping[str, Any]) -> Iterator[str]:
    after = {test["name"]: test["outcome"] for test in record["runs"]["patched"]}
    yield "| test | without | with | what it says without |"
    yield "|---|---|---|---|"
    for test in record["runs"]["pristine"]:
        name, said = test["name"], _one_line(test["message"])
        yield f"| `{_cell(name)}` | {test['outcome']} | {after.get(name, '-')} | {said} |"


def _one_line(message: str) -> str:
    line = message.strip().partition("\n")[0]
    line = line if len(line) <= _MESSAGE else f"{line[:_MESSAGE]}…"
    return f"`{_cell(line.replace('`', ''))}`" if line else ""


def _cell(text: str) -> str:
    return text.replace("|", r"\|")


def _limits(declaration: PatchDeclaration, proposal: Proposal, proven: Proven) -> str:
    parts: list[str | None] = []
    if declaration.risks:
        parts += ["**Risks**", declaration.risks]
    versions = sorted({e.record["engine"]["vllm"] for e in proven.all_evidence})
    if proposal.limits or versions:
        parts += ["**Limits**", proposal.limits]
    if versions:
        parts.append(
            f"The results are those of vLLM {', '.join(versions)}; "
            "what this change replaces and what it puts there are the same on main."
        )
    return _joined(parts)


def _not_a_duplicate(proposal: Proposal, repository: str, searched: Searched | None) -> str:
    if searched is None:
        return ""
    lines = ["**Not a duplicate**", f"Searched in {repository}: {', '.join(searched.asked)}."]
    if not searched.same:
        lines.append("Nothing open does the same.")
    others = [f"- {hit.thread.ref} touches the same file, elsewhere." for hit in searched.near]
    others += [f"- {ref}: {why.strip()}" for ref, why in proposal.differs.items()]
    return _joined([*lines, "\n".join(others)])


def _assistance(proposal: Proposal) -> str:
    if not proposal.assisted_by:
        return ""
    names = ", ".join(proposal.assisted_by)
    return (
        f"AI assistance was used for this change ({names}). The submitter has reviewed every "
        "changed line and run the tests above."
    )
