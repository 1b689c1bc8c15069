"""Whether records may be compared, and what differs if not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from vpatch.commands.bench.cells import LETTERS
from vpatch.declare.bench import Shape
from vpatch.evidence.subject import differences as differences_of_subjects
from vpatch.util.digest import short_digest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

Kind = Literal["model", "prompts", "flags", "pins"]
# Of a plan, what shapes the requests, and what shapes the server.
_PROMPTS = ("sampling", "warm-up", "share-server")
_FLAGS = ("method", "tensor-parallel", "flags", "environment")
_UNKNOWN = "not known"
_SHOWN = 6


@dataclass(frozen=True)
class Difference:
    """What two records do not have in common; `kind` is the word of `--despite` for it."""

    kind: Kind
    what: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.what}"


def aligned(records: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return records whose models of the same bytes have the first record's names for them.

    A name is often that of a folder, and the folders of two machines are two.
    """
    first, *rest = records
    by_digest = {model["digest"]: name for name, model in first["models"].items()}
    by_digest.pop(None, None)
    return [first, *(_renamed(record, by_digest) for record in rest)]


def _renamed(record: Mapping[str, Any], by_digest: Mapping[str, str]) -> Mapping[str, Any]:
    names = {name: by_digest.get(model["digest"], name) for name, model in record["models"].items()}
    if len(set(names.values())) < len(names):
        return record  # it has the same bytes twice, and names tell them apart
    return {
        **record,
        "models": {names[name]: model for name, model in record["models"].items()},
        "points": [
            {**point, "model": names.get(point["model"], point["model"])}
            for point in record["points"]
        ],
    }


def differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[Difference]:
    """Say what of two records must be the same and is not; their machines need not be."""
    return [
        *_models(one, other),
        *(Difference("prompts", what) for what in _of_plans(one, other, _PROMPTS)),
        *(Difference("prompts", what) for what in _prompts(one, other)),
        *(Difference("flags", what) for what in _of_plans(one, other, _FLAGS)),
        *_pins(one, other),
    ]


def in_common(records: Sequence[Mapping[str, Any]]) -> set[tuple[Any, ...]]:
    """Return the places in the matrix, but for side and repeat, that all records have."""
    return set.intersection(*({_place(p) for p in record["points"]} for record in records))


def joined(records: Sequence[Mapping[str, Any]], differing: Sequence[str]) -> dict[str, Any]:
    """Return one record with the sides of several, called A, B and so on; only what all have.

    `differing` is what they still differ in. It is shown wherever the record is shown.
    """
    common = in_common(records)
    sides: list[dict[str, Any]] = []
    points: list[dict[str, Any]] = []
    notes = [f"they differ in {what}" for what in differing]
    for record in records:
        before = len(sides)
        sides += [
            {**side, "name": LETTERS[before + number], "what": f"{record['name']}: {side['what']}"}
            for number, side in enumerate(record["sides"])
        ]
        points += [
            {**point, "side": before + point["side"]}
            for point in record["points"]
            if _place(point) in common
        ]
        left = dict.fromkeys(_place(p) for p in record["points"] if _place(p) not in common)
        if left:
            notes.append(f"left out, since {record['name']} alone has it: {_said(list(left))}")
        made, planned = len(record["points"]), record["planned"]
        if made < planned:
            notes.append(f"{record['name']} broke off after {made} of {planned} runs")
    notes += _environments(sides)
    names = [str(record["name"]) for record in records]
    return {
        **records[0],
        "name": " against ".join(names),
        "notes": notes,
        "planned": len(points),
        "sides": sides,
        "points": points,
    }


def picked(record: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Return a record with some of its sides, which keep their letters, in this order."""
    places = [[side["name"] for side in record["sides"]].index(name) for name in names]
    points = [
        {**point, "side": places.index(point["side"])}
        for point in record["points"]
        if point["side"] in places
    ]
    sides = [record["sides"][place] for place in places]
    return {**record, "sides": sides, "points": points, "planned": len(points)}


def most_sides() -> int:
    """Return how many sides a joined record may have: each has a letter."""
    return len(LETTERS)


def _place(point: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(point[name] for name in ("model", "k", "shape", "concurrency"))


def _said(places: Sequence[tuple[Any, ...]]) -> str:
    """Places in the matrix, but not a page of them."""
    words = [f"{model} k={k} {shape} c={c}" for model, k, shape, c in places[:_SHOWN]]
    more = len(places) - len(words)
    return ", ".join([*words, *([f"and {more} more"] if more else [])])


def _environments(sides: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """What reached the servers of some sides from outside, and not those of the first."""
    first = sides[0]["inherited"]
    for side in sides[1:]:
        theirs = side["inherited"]
        for name in sorted(first.keys() | theirs.keys()):
            if first.get(name) != theirs.get(name):
                pair = [repr(e[name]) if name in e else "not set" for e in (theirs, first)]
                yield f"the environment's {name} is {pair[0]} in {side['name']} and {pair[1]} in A"


def _models(one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[Difference]:
    ours, theirs = one["models"], other["models"]
    for name in [name for name in ours if name in theirs]:
        digests = ours[name]["digest"], theirs[name]["digest"]
        if None in digests:
            yield Difference("model", f"the files of {name} on a server that ran are not known")
        elif digests[0] != digests[1]:
            yield Difference("model", f"{name} is {' and '.join(map(short_digest, digests))}")
    if not ours.keys() & theirs.keys():
        yield Difference("model", f"{', '.join(ours)} and {', '.join(theirs)}")


def _prompts(one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[str]:
    """What tells the prompts of one place in the matrix from those of the other record."""
    of_one, of_other = _shapes(one), _shapes(other)
    for name in [name for name in of_one if of_one[name] != of_other.get(name, of_one[name])]:
        yield f"the shape {name} is {of_one[name]} and {of_other[name]}"
    ours, theirs = one["datasets"], other["datasets"]
    for name in [name for name in ours if ours[name] != theirs.get(name, ours[name])]:
        yield f"the file of {name} is another"
    for key, what in (("prompts", "number of prompts"), ("seed", "seeds")):
        seen, again = (
            {(*_place(p), p["repeat"]): p[key] for p in r["points"]} for r in (one, other)
        )
        if any(seen[place] != again[place] for place in seen.keys() & again.keys()):
            yield f"the {what} of a load: other prompts were sent"


def _shapes(record: Mapping[str, Any]) -> dict[str, str]:
    """The shapes of a plan by their names, in words; where a file lies does not matter."""
    found = {}
    for declared in record["plan"]["shapes"]:
        shape = Shape.model_validate(declared)
        template = "" if shape.chat_template else " without a chat template"
        of = f"{shape.input} tokens" if shape.path is None else f"a file{template}"
        found[shape.name] = f"{shape.dataset}, {of}"
    return found


def _of_plans(
    one: Mapping[str, Any], other: Mapping[str, Any], keys: Sequence[str]
) -> Iterator[str]:
    for key in keys:
        ours, theirs = (each["plan"].get(key, _UNKNOWN) for each in (one, other))
        if isinstance(ours, dict) and isinstance(theirs, dict):
            for name in sorted(ours.keys() | theirs.keys()):
                pair = [repr(each[name]) if name in each else "not set" for each in (ours, theirs)]
                if pair[0] != pair[1]:
                    yield f"{name} is {_pair(pair, one, other)}"
        elif ours != theirs:
            yield f"{key} is {_pair([repr(ours), repr(theirs)], one, other)}"


def _pair(pair: Sequence[str], one: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    return f"{pair[0]} in {one['name']} and {pair[1]} in {other['name']}"


def _pins(one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[Difference]:
    """Each side is held to the first of the other record: there is one in most."""
    clients = one["client"]["vllm"], other["client"]["vllm"]
    if clients[0] != clients[1]:
        yield Difference("pins", f"vllm bench serve is that of {' and '.join(clients)}")
    for ours, theirs in zip(one["sides"], other["sides"], strict=False):
        if all({"subject", "engine"} <= side.keys() for side in (ours, theirs)):
            versions = [each["engine"]["vllm"] for each in (ours, theirs)]
            if versions[0] != versions[1]:
                yield Difference("pins", f"vLLM is {' and '.join(versions)}")
            for what in differences_of_subjects(ours["subject"], theirs["subject"]):
                yield Difference("pins", what)
        else:
            yield Difference("pins", "what a server that was there before runs is not known")
