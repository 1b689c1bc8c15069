"""Whether records may be set side by side, and what stands against it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from vpatch.commits import short_digest
from vpatch.smoke.subject import differences as differences_of_subjects

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

Kind = Literal["model", "prompts", "flags", "pins"]
# Of a plan, what shapes the requests, and what shapes the server.
_PROMPTS = ("prompts", "sampling", "warm-up", "share-server")
_FLAGS = ("method", "tensor-parallel", "flags", "environment")
_NAMES = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclass(frozen=True)
class Difference:
    """What two records do not have in common; `kind` is the word of `--despite` for it."""

    kind: Kind
    what: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.what}"


def differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[Difference]:
    """Say what of two records must be the same and is not; their machines need not be."""
    return [
        *_models(one, other),
        *(Difference("prompts", what) for what in _of_plans(one, other, _PROMPTS)),
        *_datasets(one, other),
        *(Difference("flags", what) for what in _of_plans(one, other, _FLAGS)),
        *_pins(one, other),
    ]


def in_common(records: Sequence[Mapping[str, Any]]) -> set[tuple[Any, ...]]:
    """Return the places in the matrix, but for side and repeat, that all records have."""
    return set.intersection(*({_place(p) for p in record["points"]} for record in records))


def joined(records: Sequence[Mapping[str, Any]], differing: Sequence[str]) -> dict[str, Any]:
    """Return one record with the sides of several, called A, B and so on; only what all have.

    `differing` is what they differ in all the same, and is said wherever the record is shown.
    """
    common = in_common(records)
    sides: list[dict[str, Any]] = []
    points: list[dict[str, Any]] = []
    for record in records:
        before = len(sides)
        sides += [
            {**side, "name": _NAMES[before + number], "what": f"{record['name']}: {side['what']}"}
            for number, side in enumerate(record["sides"])
        ]
        points += [
            {**point, "side": before + point["side"]}
            for point in record["points"]
            if _place(point) in common
        ]
    names = [str(record["name"]) for record in records]
    return {
        **records[0],
        "name": " against ".join(names),
        "differences": list(differing),
        "planned": len(points),
        "sides": sides,
        "points": points,
    }


def _place(point: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(point[name] for name in ("model", "k", "shape", "concurrency"))


def _models(one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[Difference]:
    ours, theirs = one["models"], other["models"]
    for name in [name for name in ours if name in theirs]:
        digests = ours[name]["digest"], theirs[name]["digest"]
        if None in digests:
            yield Difference("model", f"the files of {name} are not known (vpatch bench --model)")
        elif digests[0] != digests[1]:
            yield Difference("model", f"{name} is {' and '.join(map(short_digest, digests))}")
    if not ours.keys() & theirs.keys():
        yield Difference("model", f"{', '.join(ours)} and {', '.join(theirs)}")


def _datasets(one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[Difference]:
    ours, theirs = one["datasets"], other["datasets"]
    for name in [name for name in ours if ours[name] != theirs.get(name, ours[name])]:
        yield Difference("prompts", f"the file of {name} is another")


def _of_plans(
    one: Mapping[str, Any], other: Mapping[str, Any], keys: Sequence[str]
) -> Iterator[str]:
    for key in keys:
        ours, theirs = one["plan"][key], other["plan"][key]
        if isinstance(ours, dict) and isinstance(theirs, dict):
            for name in sorted(ours.keys() | theirs.keys()):
                pair = [repr(each[name]) if name in each else "not set" for each in (ours, theirs)]
                if pair[0] != pair[1]:
                    yield f"{key}, {name} is {' and '.join(pair)}"
        elif ours != theirs:
            yield f"{key} is {ours!r} and {theirs!r}"


def _pins(one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[Difference]:
    """Each side is held to the first of the other record: there is one in most."""
    clients = one["client"]["vllm"], other["client"]["vllm"]
    if clients[0] != clients[1]:
        yield Difference("pins", f"vllm bench serve is that of {' and '.join(clients)}")
    for ours, theirs in zip(one["sides"], other["sides"], strict=False):
        if "subject" in ours and "subject" in theirs:
            for what in differences_of_subjects(ours["subject"], theirs["subject"]):
                yield Difference("pins", what)
        else:
            yield Difference("pins", "what a server that was there before runs is not known")
