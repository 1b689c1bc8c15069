"""What a record says of what was measured, how, and what could not be: in words, for its page."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vpatch.commands.bench.summary import fault_said, rows_of
from vpatch.declare.bench import Shape
from vpatch.harness.launch import flag_words
from vpatch.util.digest import short_digest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

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


def sides_said(record: Mapping[str, Any]) -> list[tuple[str, list[list[str]]]]:
    """Return what is known of the sides: of each, lines of text, or none where nothing is known."""
    said = [dict(_of_side(side)) for side in record["sides"]]
    names = list(dict.fromkeys(name for side in said for name in side))
    return [(name, [side.get(name, []) for side in said]) for name in names]


def _of_side(side: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    machine, image = side["machine"], side.get("image")
    yield "what", [side["what"]]
    if "engine" in side:
        yield "vLLM", [f"{side['engine']['vllm']} ({side['engine']['kind']})"]
    if side.get("servers"):
        yield "servers", [_server(server) for server in side["servers"]]
    for tree in side.get("subject", ()):
        pin, patches = tree["pin"], [patch["id"] for patch in tree["patches"]]
        version = pin.get("version") or pin.get("ref") or ""
        found = f"{pin['tree']} {version} ({short_digest(pin['digest'])})"
        yield f"source of {pin['tree']}", [found]
        yield f"patches for {pin['tree']}", patches or [_NONE]
    if image:
        yield "image", [f"{image['name']} ({short_digest(image['id'])})"]
    if side.get("digest"):
        yield "digest of what was run", [short_digest(side["digest"])]
    yield ("loads sent from" if side.get("servers") else "machine"), list(_machine(machine))
    if side.get("nodes"):
        yield "nodes", list(side["nodes"])
    if side.get("inherited"):
        yield "inherited environment", [_pair(*pair) for pair in side["inherited"].items()]


def _server(server: Mapping[str, Any]) -> str:
    version = server.get("vllm") or "unknown"
    return f"{server['url']}: k = {server['k']}, {server['model']}, vLLM {version}"


def _machine(machine: Mapping[str, Any]) -> Iterator[str]:
    gpus = [
        f"{gpu['name']}, {gpu['memory']:g} GiB, compute capability {gpu['capability']}, "
        f"driver {gpu['driver']}"
        for gpu in machine["gpus"]
    ]
    for gpu in dict.fromkeys(gpus):
        yield f"{gpus.count(gpu)} x {gpu}"
    yield f"{machine['processor']}, {machine['cores']} cores, {machine['memory']:g} GiB"
    yield machine["system"]
    if machine["problem"]:
        yield machine["problem"]


def plan_said(record: Mapping[str, Any]) -> list[tuple[str, list[str]]]:
    """Return what the plan asks for; what it does not say is left out."""
    plan = record["plan"]
    warm_up = "after a warm-up" if plan["warm-up"] else "without a warm-up"
    found = {
        "models": [_model(name, model) for name, model in record["models"].items()],
        "k": [f"{c['model']}: {', '.join(map(str, c['k']))}" for c in plan["cells"]],
        "shapes": [f"{name}: {said}" for name, said in shapes_said(record).items()],
        "concurrency": [", ".join(map(str, plan["concurrency"]))],
        "prompts": [f"{plan['prompts']} for each of the concurrent requests, {warm_up}"],
        "repeats": [str(plan["repeats"])],
        "sampling": [_pair(*pair) for pair in plan["sampling"].items()],
        **dict(_started_with(plan)),
        "loads sent by": [f"vllm bench serve of vLLM {record['client']['vllm']}"],
        "asked for": [_pair(*pair) for pair in record["asked"].items() if pair[1]],
    }
    return [(name, lines) for name, lines in found.items() if lines]


def _started_with(plan: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """What servers were started with; of those that were there before, nothing is known."""
    if "share-server" not in plan:
        return
    yield "servers", ["one for all loads" if plan["share-server"] else "a new one for each load"]
    yield "method", [f"{plan['method']}, tensor parallel {plan['tensor-parallel']}"]
    yield "flags", [" ".join(flag_words(*pair)) for pair in plan["flags"].items()]
    yield "environment", [_pair(*pair) for pair in plan["environment"].items()]


def _model(name: str, model: Mapping[str, Any]) -> str:
    digest = f" ({short_digest(model['digest'])})" if model["digest"] else ", files not known"
    return f"{name}: {model['model']}{digest}"


def shapes_said(record: Mapping[str, Any]) -> dict[str, str]:
    """Return what the names of the shapes mean."""
    found = {}
    for declared in record["plan"]["shapes"]:
        shape = Shape.model_validate(declared)
        prompts = f"{shape.input} random input tokens"
        if shape.path is not None:
            digest = record["datasets"].get(shape.name)
            of = f" ({short_digest(digest)})" if digest else ""
            prompts = f"prompts of {shape.dataset}, {shape.path}{of}"
        found[shape.name] = f"{prompts}, {shape.output} output tokens"
    return found


def _pair(name: str, value: object) -> str:
    return f"{name}={_text(value)}"


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def notes(record: Mapping[str, Any]) -> list[str]:
    """Return what must be known before the figures are believed."""
    found = list(record.get("notes", ()))
    made = len(record["points"])
    if made < record["planned"]:
        found.append(f"it was interrupted after {made} of {record['planned']} runs")
    for row in rows_of(record):
        if row.cached > _CACHED:
            key = row.key
            side = record["sides"][key.side]["name"]
            found.append(
                f"{side} {key.model} k = {key.k}, {key.shape} at concurrency {key.concurrency}: "
                f"{row.cached:.0%} of the prompts' tokens came from the prefix cache, and so TTFT "
                "is not that of prompts that are new"
            )
    return [note.strip() for note in found]


def failed(record: Mapping[str, Any]) -> list[Failed]:
    """Return what was not measured; what failed for one reason is listed together."""
    found: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for point in record["points"]:
        if point["fault"] is not None:
            side = record["sides"][point["side"]]["name"]
            where = f"{side} {point['model']} k = {point['k']}".strip()
            found.setdefault((where, fault_said(point["fault"])), []).append(point)
    return [
        Failed(
            where=where,
            what=what,
            loads=_loads(points),
            runs=len(points),
            log=points[0]["log"],
            ending=tuple(points[0]["fault"].get("ending", ())),
        )
        for (where, what), points in found.items()
    ]


def _loads(points: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    levels: dict[str, set[int]] = {}
    for point in points:
        levels.setdefault(point["shape"], set()).add(point["concurrency"])
    return tuple(
        f"{shape} at concurrency {', '.join(map(str, sorted(of_shape)))}"
        for shape, of_shape in levels.items()
    )
