"""What a record says of what was measured, how, and what could not be: in words, for its page."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.commands.bench.summary import rows_of
from vpatch.harness.launch import flag_words
from vpatch.util.digest import short_digest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vpatch.commands.bench.schema import (
        BenchRecord,
        FaultRecord,
        MachineRecord,
        ModelRecord,
        PlanRecord,
        PointRecord,
        Server,
        Side,
    )

_NONE = "none"
# A prompt has a few tokens in common with another by chance, or by its template.
_CACHED = 0.05


@dataclass(frozen=True)
class Failed:
    """Runs that came to nothing for the same reason. `ending` is that of the first one's log."""

    where: str
    what: str
    loads: tuple[str, ...]
    runs: int
    log: str | None
    ending: tuple[str, ...]


def side_lines(record: BenchRecord) -> list[tuple[str, list[list[str]]]]:
    """Return what is known of the sides: of each, lines of text, or none where nothing is known."""
    sides = [dict(_of_side(side)) for side in record.sides]
    names = list(dict.fromkeys(name for side in sides for name in side))
    return [(name, [side.get(name, []) for side in sides]) for name in names]


def _of_side(side: Side) -> Iterator[tuple[str, list[str]]]:
    yield "what", [side.what]
    if side.engine is not None:
        yield "vLLM", [f"{side.engine.vllm} ({side.engine.kind})"]
    if side.servers:
        yield "servers", [_server(server) for server in side.servers]
    for tree in side.subject or ():
        pin, patches = tree.pin, [patch.id for patch in tree.patches]
        version = pin.version or pin.ref or ""
        yield f"source of {pin.tree}", [f"{pin.tree} {version} ({short_digest(pin.digest)})"]
        yield f"patches for {pin.tree}", patches or [_NONE]
    if side.image is not None:
        yield "image", [f"{side.image.name} ({short_digest(side.image.id)})"]
    if side.digest:
        yield "digest of what was run", [short_digest(side.digest)]
    yield ("loads sent from" if side.servers else "machine"), list(_machine(side.machine))
    if side.nodes:
        yield "nodes", list(side.nodes)
    if side.inherited:
        yield "inherited environment", [_pair(*pair) for pair in side.inherited.items()]


def _server(server: Server) -> str:
    version = server.vllm or "unknown"
    return f"{server.url}: k = {server.k}, {server.model}, vLLM {version}"


def _machine(machine: MachineRecord) -> Iterator[str]:
    gpus = [
        f"{gpu.name}, {gpu.memory:g} GiB, compute capability {gpu.capability}, driver {gpu.driver}"
        for gpu in machine.gpus
    ]
    for gpu in dict.fromkeys(gpus):
        yield f"{gpus.count(gpu)} x {gpu}"
    yield f"{machine.processor}, {machine.cores} cores, {machine.memory:g} GiB"
    yield machine.system
    if machine.problem:
        yield machine.problem


def plan_lines(record: BenchRecord) -> list[tuple[str, list[str]]]:
    """Return what the plan asks for; what it does not say is left out."""
    plan = record.plan
    warm_up = "after a warm-up" if plan.warm_up else "without a warm-up"
    by_name = {
        "models": [_model(name, model) for name, model in record.models.items()],
        "k": [f"{cells.model}: {', '.join(map(str, cells.k))}" for cells in plan.cells],
        "shapes": [f"{name}: {words}" for name, words in shape_words(record).items()],
        "concurrency": [", ".join(map(str, plan.concurrency))],
        "prompts": [f"{plan.prompts} for each of the concurrent requests, {warm_up}"],
        "repeats": [str(plan.repeats)],
        "sampling": [_pair(*pair) for pair in plan.sampling.items()],
        **dict(_start_settings(plan)),
        "loads sent by": [f"vllm bench serve of vLLM {record.client.vllm}"],
        "asked for": [_pair(*pair) for pair in record.asked.items() if pair[1]],
    }
    return [(name, lines) for name, lines in by_name.items() if lines]


def _start_settings(plan: PlanRecord) -> Iterator[tuple[str, list[str]]]:
    """What servers were started with; of those that were there before, nothing is known."""
    if plan.share_server is None:
        return
    yield "servers", ["one for all loads" if plan.share_server else "a new one for each load"]
    yield "method", [f"{plan.method}, tensor parallel {plan.tensor_parallel}"]
    yield "flags", [" ".join(flag_words(*pair)) for pair in (plan.flags or {}).items()]
    yield "environment", [_pair(*pair) for pair in (plan.environment or {}).items()]


def _model(name: str, model: ModelRecord) -> str:
    digest = f" ({short_digest(model.digest)})" if model.digest else ", files not known"
    return f"{name}: {model.model}{digest}"


def shape_words(record: BenchRecord) -> dict[str, str]:
    """Return what the names of the shapes mean."""
    words = {}
    for shape in record.plan.shapes:
        prompts = f"{shape.input} random input tokens"
        if shape.path is not None:
            digest = record.datasets.get(shape.name)
            of = f" ({short_digest(digest)})" if digest else ""
            prompts = f"prompts of {shape.dataset}, {shape.path}{of}"
        words[shape.name] = f"{prompts}, {shape.output} output tokens"
    return words


def _pair(name: str, value: object) -> str:
    return f"{name}={value if isinstance(value, str) else json.dumps(value)}"


def notes(record: BenchRecord) -> list[str]:
    """Return what must be known before the figures are believed."""
    lines = record.notes
    runs = len(record.points)
    if runs < record.planned:
        lines.append(f"it was interrupted after {runs} of {record.planned} runs")
    for row in rows_of(record):
        if row.cached > _CACHED:
            key = row.key
            side = record.sides[key.side].name
            lines.append(
                f"{side} {key.model} k = {key.k}, {key.shape} at concurrency {key.concurrency}: "
                f"{row.cached:.0%} of the prompts' tokens came from the prefix cache, and so TTFT "
                "is not that of prompts that are new"
            )
    return [line.strip() for line in lines]


def failed(record: BenchRecord) -> list[Failed]:
    """Return what was not measured; what failed for one reason is listed together."""
    by_reason: dict[tuple[str, str], list[tuple[PointRecord, FaultRecord]]] = {}
    for point in record.points:
        if point.fault is not None:
            side = record.sides[point.side].name
            where = f"{side} {point.model} k = {point.k}".strip()
            by_reason.setdefault((where, str(point.fault)), []).append((point, point.fault))
    return [
        Failed(
            where=where,
            what=what,
            loads=_loads([point for point, _ in failures]),
            runs=len(failures),
            log=failures[0][0].log,
            ending=tuple(failures[0][1].ending),
        )
        for (where, what), failures in by_reason.items()
    ]


def _loads(points: Sequence[PointRecord]) -> tuple[str, ...]:
    levels: dict[str, set[int]] = {}
    for point in points:
        levels.setdefault(point.shape, set()).add(point.concurrency)
    return tuple(
        f"{shape} at concurrency {', '.join(map(str, sorted(of_shape)))}"
        for shape, of_shape in levels.items()
    )
