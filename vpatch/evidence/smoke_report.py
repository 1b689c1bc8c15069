"""A record as Markdown: what can be pasted into a pull request."""

from __future__ import annotations

import shlex
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.util.digest import short_digest
from vpatch.util.visible import visible

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from vpatch.evidence.records import (
        CellRecord,
        CheckRecord,
        CheckVerdict,
        Phases,
        RunMachine,
        RunResult,
        SmokeRecord,
    )

_PHASES = {"before": "Before: the pristine tree", "after": "After: with the patches"}
_RUNS = "runs"
# What a reader looks for, in the columns of the table: facts of a cell, and checks by their names.
_COLUMNS = ("k", "mode", "result")
_FIGURES = {
    "acceptance": "acceptance",
    "as arithmetic predicts": "as predicted",
    "output as k=0": "output as k=0",
    "speed": "speed",
}


def report_of(record: SmokeRecord) -> str:
    return visible("\n".join(_lines(record))) + "\n"


def _lines(record: SmokeRecord) -> Iterator[str]:
    yield f"## Smoke run: {record.result}"
    yield ""
    yield f"`{command_of(record)}` with vpatch {record.vpatch}, {record.made}"
    yield ""
    for point in record.points or ():
        engine = f"vLLM {point.engine.vllm} ({point.engine.kind})"
        yield f"- {point.name}: {point.result} in {engine}, `{point.folder}`"
    for tree in record.subject:
        pin = tree.pin
        patches = ", ".join(f"`{patch.id}`" for patch in tree.patches) or "none"
        version = pin.version or pin.ref or ""
        yield f"- {pin.tree} {version} ({short_digest(pin.digest)})"
        yield f"  with {patches}; {len(tree.files)} files are changed"
    yield f"- engine: vLLM {record.engine.vllm} ({record.engine.kind})"
    if record.image is not None:
        yield f"- image: {record.image.name} ({short_digest(record.image.id)})"
    if record.machines is not None:
        for name, node in record.machines.items():
            yield f"- node {name}: {machine_in_words(node.machine)}"
    else:
        yield f"- machine: {machine_in_words(record.machine)}"
    for name, model in record.models.items():
        yield f"- model {name}: {model.model} ({short_digest(model.digest)})"
    yield f"- digest of what was run: `{record.digest}`"
    for phase in dict.fromkeys(cell.phase for cell in record.cells):
        cells = [cell for cell in record.cells if cell.phase == phase]
        yield from heading_lines(f"### {_PHASES[phase]}")
        for check in record.imports.get(phase, ()):
            yield f"- {_in_words(check)}"
        yield from _table(cells)
        yield from _failures(cells)
        if record.machines is not None:
            yield ""
            yield from _nodes(cells)
    yield from _cures(record)
    yield from _not_run(record)


def heading_lines(heading: str) -> tuple[str, str, str]:
    """Return a heading between empty lines."""
    return "", heading, ""


def machine_in_words(machine: RunMachine) -> str:
    gpus = "".join(f"; {gpu.name}" for gpu in machine.gpus)
    return f"{machine.processor}, {machine.cores} cores, {machine.memory} GiB{gpus}"


def _nodes(cells: Sequence[CellRecord]) -> Iterator[str]:
    """Where cells of a cluster ran, and the attempts that were lost."""
    for cell in cells:
        rounds = cell.rounds or ()
        nodes = dict.fromkeys(one.node for one in rounds if one.node is not None)
        again = "".join(
            f"; lost on {attempt.node or 'no node'}: {attempt.why.partition(chr(10))[0]}"
            for one in rounds
            for attempt in one.lost or ()
        )
        if nodes:
            yield f"- {cell.cell} ran on {', '.join(nodes)}{again}"


def command_of(record: SmokeRecord) -> str:
    """The command line that asks for the same again; for a point, for all of its matrix."""
    words = ["vpatch smoke"]
    for name, value in record.asked.items():
        if name == "point":
            continue
        if value is True:
            words.append(f"--{name}")
        elif isinstance(value, (list, tuple)):
            words += [f"--{name} {shlex.quote(one)}" for one in value]
        elif value not in (None, False):
            words.append(f"--{name} {shlex.quote(str(value))}")
    return " ".join(words)


def _table(cells: Sequence[CellRecord]) -> Iterator[str]:
    # A record of a matrix says the point of each cell.
    places = ["model"] if cells[0].point is None else ["point", "model"]
    yield "| " + " | ".join([*places, *_COLUMNS, *_FIGURES.values()]) + " |"
    yield "|---" * (len(places) + len(_COLUMNS) + len(_FIGURES)) + "|"
    for cell in cells:
        checks = {check.name: check for check in cell.checks}
        row = [cell.model, str(cell.k), cell.mode, cell.verdict]
        row = row if cell.point is None else [cell.point, *row]
        row += [_cell(checks.get(name)) for name in _FIGURES]
        yield "| " + " | ".join(text.replace("|", r"\|") for text in row) + " |"


def _cell(check: CheckRecord | None) -> str:
    if check is None or (check.verdict == "not run" and not check.figure):
        return "-"
    by_verdict = check.name in {"as arithmetic predicts", "output as k=0"}
    return check.verdict if by_verdict else check.figure or check.verdict


def _failures(cells: Sequence[CellRecord]) -> Iterator[str]:
    checks = [(cell, check) for cell in cells for check in cell.checks]
    failing = [(cell, check) for cell, check in checks if check.verdict == "fail"]
    if failing:
        yield ""
    for cell, check in failing:
        yield f"- {cell.cell}: {check.reason if check.name == _RUNS else _in_words(check)}"


def _in_words(check: CheckRecord) -> str:
    figure = f" ({check.figure})" if check.figure else ""
    reason = f": {check.reason}" if check.reason else ""
    verb = {"pass": "passes", "fail": "fails", "not run": "was not run"}[check.verdict]
    return f"{check.name} {verb}{figure}{reason}"


@dataclass(frozen=True)
class Cure:
    """A symptom, the patch that claims to cure it, and the cells whose logs show it.

    `failing` are those of the cells before that fail with the patches as well.
    """

    symptom: str
    patch: str
    taken: bool
    before: tuple[str, ...]
    after: tuple[str, ...]
    failing: tuple[str, ...] = ()

    def __str__(self) -> str:
        if not self.after and self.failing:
            cells = ", ".join(self.failing)
            return f"seen before, and not after; but {cells} fails now for another reason"
        if not self.after:
            return f"seen before in {', '.join(self.before)}; gone with {self.patch}"
        which = "was taken" if self.taken else "was not taken"
        return f"seen in {', '.join(self.after)}; {self.patch}, which cures it, {which}"


def cures_of(record: SmokeRecord) -> list[Cure]:
    """Return what is known of the symptoms in the logs; what merely went away says nothing."""
    seen: dict[tuple[str, str, bool], dict[str, list[str]]] = {}
    for one in record.symptoms:
        key = one.symptom, one.patch, one.taken
        seen.setdefault(key, {"before": [], "after": []})[one.phase].append(one.cell)
    passing = {
        cell.cell for cell in record.cells if (cell.phase, cell.verdict) == ("after", "pass")
    }
    cures = []
    for key, cells in seen.items():
        before, after = (tuple(dict.fromkeys(cells[phase])) for phase in ("before", "after"))
        failing = tuple(cell for cell in before if cell not in passing)
        cures.append(Cure(*key, before, after, failing))
    return [cure for cure in cures if cure.taken or cure.after]


def _cures(record: SmokeRecord) -> Iterator[str]:
    for number, cure in enumerate(cures_of(record)):
        yield from () if number else heading_lines("### Symptoms")
        yield f"- `{cure.symptom}`"
        yield f"  {cure}"


def _not_run(record: SmokeRecord) -> Iterator[str]:
    """What was not run with the patches, each reason once."""
    checks = [check for cell in record.cells if cell.phase == "after" for check in cell.checks]
    reasons = Counter((one.name, one.reason) for one in checks if one.verdict == "not run")
    if reasons:
        yield from heading_lines("### Not run")
    for (name, reason), count in reasons.items():
        yield f"- {name}, in {count} cell{'s' if count > 1 else ''}: {reason}"


def verdict_of(judged: Collection[tuple[str, bool]]) -> CheckVerdict:
    """Return fail where any fails, and pass where any passes and none fails.

    `judged` has the verdict of each check, and whether the plan claims that it passes. A claim
    that was not judged leaves the whole not run.
    """
    verdicts = {verdict for verdict, _ in judged}
    if "fail" in verdicts:
        return "fail"
    return "pass" if "pass" in verdicts and ("not run", True) not in judged else "not run"


def is_judged(record: SmokeRecord) -> bool:
    """Whether the verdict on each cell follows from its checks."""
    return all(
        cell.verdict == verdict_of([(check.verdict, check.claimed) for check in cell.checks])
        for cell in record.cells
    )


def result_of(
    cells: Iterable[CellRecord], imports: Mapping[Phases, Iterable[CheckRecord]]
) -> RunResult:
    """Return passed where all passes with the patches; what fails without is what they are for."""
    verdicts = [cell.verdict for cell in cells if cell.phase == "after"]
    further = [check.verdict for check in imports.get("after", ())]
    return "passed" if verdicts and {*verdicts, *further} == {"pass"} else "failed"
