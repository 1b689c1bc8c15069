"""A record as Markdown: what can be pasted into a pull request."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vpatch.util.digest import short_digest
from vpatch.util.visible import visible

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from vpatch.evidence.records import CheckVerdict

_PHASES = {"before": "Before: the pristine tree", "after": "After: with the patches"}
_RUNS = "runs"
# What a reader looks for, in the columns of the table.
_COLUMNS = {
    "k": "k",
    "mode": "mode",
    "verdict": "result",
    "acceptance": "acceptance",
    "as arithmetic predicts": "as predicted",
    "output as k=0": "output as k=0",
    "speed": "speed",
}


def report_of(record: Mapping[str, Any]) -> str:
    return visible("\n".join(_lines(record))) + "\n"


def _lines(record: Mapping[str, Any]) -> Iterator[str]:
    engine, machine = record["engine"], record["machine"]
    yield f"## Smoke run: {record['result']}"
    yield ""
    yield f"`{command_of(record['asked'])}` with vpatch {record['vpatch']}, {record['made']}"
    yield ""
    for point in record.get("points", ()):
        kind, vllm = point["engine"]["kind"], point["engine"]["vllm"]
        yield f"- {point['name']}: {point['result']} in vLLM {vllm} ({kind}), `{point['folder']}`"
    for tree in record["subject"]:
        pin = tree["pin"]
        patches = ", ".join(f"`{patch['id']}`" for patch in tree["patches"]) or "none"
        version = pin["version"] or pin["ref"] or ""
        yield f"- {pin['tree']} {version} ({short_digest(pin['digest'])})"
        yield f"  with {patches}; {len(tree['files'])} files are changed"
    yield f"- engine: vLLM {engine['vllm']} ({engine['kind']})"
    if "image" in record:
        yield f"- image: {record['image']['name']} ({short_digest(record['image']['id'])})"
    if "machines" in record:
        for name, node in record["machines"].items():
            yield f"- node {name}: {_machine(node['machine'])}"
    else:
        yield f"- machine: {_machine(machine)}"
    for name, model in record["models"].items():
        yield f"- model {name}: {model['model']} ({short_digest(model['digest'])})"
    yield f"- digest of what was run: `{record['digest']}`"
    phases = list(dict.fromkeys(cell["phase"] for cell in record["cells"]))
    for phase in phases:
        yield ""
        yield f"### {_PHASES[phase]}"
        yield ""
        for check in record["imports"].get(phase, ()):
            yield f"- {_in_words(check)}"
        yield from _table([cell for cell in record["cells"] if cell["phase"] == phase])
        yield from _failures([cell for cell in record["cells"] if cell["phase"] == phase])
        if "machines" in record:
            yield ""
            yield from _nodes([cell for cell in record["cells"] if cell["phase"] == phase])
    yield from _cures(record)
    yield from _not_run(record)


def _machine(machine: Mapping[str, Any]) -> str:
    gpus = "".join(f"; {gpu['name']}" for gpu in machine["gpus"])
    return f"{machine['processor']}, {machine['cores']} cores, {machine['memory']} GiB{gpus}"


def _nodes(cells: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Where cells of a cluster ran, and the attempts that were lost."""
    for cell in cells:
        rounds = cell.get("rounds", ())
        nodes = dict.fromkeys(one["node"] for one in rounds if "node" in one)
        lost = [attempt for one in rounds for attempt in one.get("lost", ())]
        again = "".join(
            f"; lost on {one['node'] or 'no node'}: {one['why'].partition(chr(10))[0]}"
            for one in lost
        )
        if nodes:
            yield f"- {cell['cell']} ran on {', '.join(nodes)}{again}"


def command_of(asked: Mapping[str, Any]) -> str:
    """The command line that asks for the same again; for a point, for all of its matrix."""
    words = ["vpatch smoke"]
    for name, value in asked.items():
        if name == "point":
            continue
        if value is True:
            words.append(f"--{name}")
        elif isinstance(value, (list, tuple)):
            words += [f"--{name} {shlex.quote(one)}" for one in value]
        elif value not in (None, False):
            words.append(f"--{name} {shlex.quote(str(value))}")
    return " ".join(words)


def _table(cells: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if not cells:
        return
    # A record of a matrix says the point of each cell.
    places = ["point", "model"] if "point" in cells[0] else ["model"]
    yield "| " + " | ".join([*places, *_COLUMNS.values()]) + " |"
    yield "|---" * (len(_COLUMNS) + len(places)) + "|"
    for cell in cells:
        checks = {check["name"]: check for check in cell["checks"]}
        row = [str(cell[place]) for place in places]
        for key in _COLUMNS:
            if key in cell:
                row.append(str(cell[key]))
            else:
                row.append(_cell(checks.get(key)))
        yield "| " + " | ".join(text.replace("|", r"\|") for text in row) + " |"


def _cell(check: Mapping[str, Any] | None) -> str:
    if check is None or (check["verdict"] == "not run" and not check["figure"]):
        return "-"
    by_verdict = check["name"] in {"as arithmetic predicts", "output as k=0"}
    return str(check["verdict"] if by_verdict else check["figure"] or check["verdict"])


def _failures(cells: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    found = [(cell, check) for cell in cells for check in cell["checks"]]
    failing = [(cell, check) for cell, check in found if check["verdict"] == "fail"]
    if failing:
        yield ""
    for cell, check in failing:
        said = check["reason"] if check["name"] == _RUNS else _in_words(check)
        yield f"- {cell['cell']}: {said}"


def _in_words(check: Mapping[str, Any]) -> str:
    figure = f" ({check['figure']})" if check["figure"] else ""
    reason = f": {check['reason']}" if check["reason"] else ""
    verb = {"pass": "passes", "fail": "fails", "not run": "was not run"}[check["verdict"]]
    return f"{check['name']} {verb}{figure}{reason}"


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


def cures_of(record: Mapping[str, Any]) -> list[Cure]:
    """Return what is known of the symptoms in the logs; what merely went away says nothing."""
    seen: dict[tuple[str, str, bool], dict[str, list[str]]] = {}
    for one in record["symptoms"]:
        key = one["symptom"], one["patch"], one["taken"]
        seen.setdefault(key, {"before": [], "after": []})[one["phase"]].append(one["cell"])
    passing = {
        cell["cell"]
        for cell in record["cells"]
        if (cell["phase"], cell["verdict"]) == ("after", "pass")
    }
    found = []
    for key, cells in seen.items():
        before, after = (tuple(dict.fromkeys(cells[phase])) for phase in ("before", "after"))
        failing = tuple(cell for cell in before if cell not in passing)
        found.append(Cure(*key, before, after, failing))
    return [cure for cure in found if cure.taken or cure.after]


def _cures(record: Mapping[str, Any]) -> Iterator[str]:
    for number, cure in enumerate(cures_of(record)):
        yield from () if number else ("", "### Symptoms", "")
        yield f"- `{cure.symptom}`"
        yield f"  {cure}"


def _not_run(record: Mapping[str, Any]) -> Iterator[str]:
    """What was not run with the patches, each reason once."""
    reasons: dict[tuple[str, str], int] = {}
    for cell in record["cells"]:
        for check in cell["checks"]:
            if check["verdict"] == "not run" and cell["phase"] == "after":
                key = check["name"], check["reason"]
                reasons[key] = reasons.get(key, 0) + 1
    if reasons:
        yield ""
        yield "### Not run"
        yield ""
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


def is_judged(record: Mapping[str, Any]) -> bool:
    """Whether the verdict on each cell follows from its checks."""
    return all(
        cell["verdict"]
        == verdict_of([(one["verdict"], one.get("claimed", False)) for one in cell["checks"]])
        for cell in record["cells"]
    )


def result_of(record: Mapping[str, Any]) -> str:
    """Return passed where all passes with the patches; what fails without is what they are for."""
    after = [cell["verdict"] for cell in record["cells"] if cell["phase"] == "after"]
    imports = [check["verdict"] for check in record["imports"].get("after", ())]
    return "passed" if after and {*after, *imports} == {"pass"} else "failed"
