"""Whether records may be compared, and what differs if not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from vpatch.commands.bench.cells import LETTERS
from vpatch.evidence.subject import differences as differences_of_subjects
from vpatch.evidence.subject import subject_trees_of_records
from vpatch.util.digest import short_digest
from vpatch.util.plural import shortened

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from vpatch.commands.bench.schema import BenchRecord, PlanRecord, PointRecord, Side

Kind = Literal["model", "prompts", "flags", "pins"]
# What of a plan shapes the requests, and what the servers, by its keys.
_OF_REQUESTS = ("sampling", "warm-up", "share-server")
_OF_SERVERS = ("method", "tensor-parallel", "flags", "environment")
_UNKNOWN = "not known"
_SHOWN = 6


@dataclass(frozen=True)
class Difference:
    """What two records do not have in common; `kind` is the word of `--despite` for it."""

    kind: Kind
    what: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.what}"


class LoadPlace(NamedTuple):
    """A place in the matrix, but for side and repeat."""

    model: str
    k: int
    shape: str
    concurrency: int


def aligned(records: Sequence[BenchRecord]) -> list[BenchRecord]:
    """Return records whose models of the same bytes have the first record's names for them.

    A name is often that of a folder, and the folders of two machines are two.
    """
    first, *rest = records
    by_digest = {
        model.digest: name for name, model in first.models.items() if model.digest is not None
    }
    return [first, *(_rename_models(record, by_digest) for record in rest)]


def _rename_models(record: BenchRecord, by_digest: Mapping[str, str]) -> BenchRecord:
    names = {
        name: name if model.digest is None else by_digest.get(model.digest, name)
        for name, model in record.models.items()
    }
    if len(set(names.values())) < len(names):
        return record  # it has the same bytes twice, and names tell them apart
    models = {names[name]: model for name, model in record.models.items()}
    points = [
        point.model_copy(update={"model": names.get(point.model, point.model)})
        for point in record.points
    ]
    return record.model_copy(update={"models": models, "points": points})


def differences(one: BenchRecord, other: BenchRecord) -> list[Difference]:
    """Say what of two records must be the same and is not; their machines need not be."""
    return [
        *_models(one, other),
        *(Difference("prompts", what) for what in _of_plans(one, other, _OF_REQUESTS)),
        *(Difference("prompts", what) for what in _prompts(one, other)),
        *(Difference("flags", what) for what in _of_plans(one, other, _OF_SERVERS)),
        *_pins(one, other),
    ]


def in_common(records: Sequence[BenchRecord]) -> set[LoadPlace]:
    """Return the places in the matrix that all records have."""
    return set.intersection(*({_place(point) for point in record.points} for record in records))


def joined(records: Sequence[BenchRecord], differing: Sequence[str]) -> BenchRecord:
    """Return one record with the sides of several, called A, B and so on; only what all have.

    `differing` is what they still differ in. It is shown wherever the record is shown.
    """
    common = in_common(records)
    sides: list[Side] = []
    points: list[PointRecord] = []
    notes = [f"they differ in {what}" for what in differing]
    for record in records:
        before = len(sides)
        sides += [
            side.model_copy(
                update={"name": LETTERS[before + number], "what": f"{record.name}: {side.what}"}
            )
            for number, side in enumerate(record.sides)
        ]
        points += [
            point.model_copy(update={"side": before + point.side})
            for point in record.points
            if _place(point) in common
        ]
        alone = dict.fromkeys(_place(p) for p in record.points if _place(p) not in common)
        if alone:
            notes.append(f"left out, since {record.name} alone has it: {_in_words(list(alone))}")
        runs = len(record.points)
        if runs < record.planned:
            notes.append(f"{record.name} broke off after {runs} of {record.planned} runs")
    notes += _environments(sides)
    return records[0].model_copy(
        update={
            "name": " against ".join(record.name for record in records),
            "notes": notes,
            "planned": len(points),
            "sides": sides,
            "points": points,
        }
    )


def picked(record: BenchRecord, names: Sequence[str]) -> BenchRecord:
    """Return a record with some of its sides, which keep their letters, in this order."""
    places = [[side.name for side in record.sides].index(name) for name in names]
    points = [
        point.model_copy(update={"side": places.index(point.side)})
        for point in record.points
        if point.side in places
    ]
    sides = [record.sides[place] for place in places]
    return record.model_copy(update={"sides": sides, "points": points, "planned": len(points)})


def _place(point: PointRecord) -> LoadPlace:
    return LoadPlace(point.model, point.k, point.shape, point.concurrency)


def _in_words(places: Sequence[LoadPlace]) -> str:
    """Places in the matrix, but not a page of them."""
    words = [f"{model} k={k} {shape} c={c}" for model, k, shape, c in places]
    return ", ".join(shortened(words, _SHOWN))


def _environments(sides: Sequence[Side]) -> Iterator[str]:
    """What reached the servers of some sides from outside, and not those of the first."""
    first = sides[0].inherited
    for side in sides[1:]:
        theirs = side.inherited
        for name in sorted(first.keys() | theirs.keys()):
            if first.get(name) != theirs.get(name):
                pair = [repr(e[name]) if name in e else "not set" for e in (theirs, first)]
                yield f"the environment's {name} is {pair[0]} in {side.name} and {pair[1]} in A"


def _models(one: BenchRecord, other: BenchRecord) -> Iterator[Difference]:
    ours, theirs = one.models, other.models
    for name in [name for name in ours if name in theirs]:
        our_digest, their_digest = ours[name].digest, theirs[name].digest
        if our_digest is None or their_digest is None:
            yield Difference("model", f"the files of {name} on a server that ran are not known")
        elif our_digest != their_digest:
            digests = f"{short_digest(our_digest)} and {short_digest(their_digest)}"
            yield Difference("model", f"{name} is {digests}")
    if not ours.keys() & theirs.keys():
        yield Difference("model", f"{', '.join(ours)} and {', '.join(theirs)}")


def _prompts(one: BenchRecord, other: BenchRecord) -> Iterator[str]:
    """What tells the prompts of one place in the matrix from those of the other record."""
    of_one, of_other = _shapes(one.plan), _shapes(other.plan)
    for name in [name for name in of_one if of_one[name] != of_other.get(name, of_one[name])]:
        yield f"the shape {name} is {of_one[name]} and {of_other[name]}"
    ours, theirs = one.datasets, other.datasets
    for name in [name for name in ours if ours[name] != theirs.get(name, ours[name])]:
        yield f"the file of {name} is another"
    loads, other_loads = (
        {(*_place(point), point.repeat): point for point in record.points}
        for record in (one, other)
    )
    pairs = [(load, other_loads[place]) for place, load in loads.items() if place in other_loads]
    if any(load.prompts != again.prompts for load, again in pairs):
        yield "the number of prompts of a load: other prompts were sent"
    if any(load.seed != again.seed for load, again in pairs):
        yield "the seeds of a load: other prompts were sent"


def _shapes(plan: PlanRecord) -> dict[str, str]:
    """The shapes of a plan by their names, in words; where a file lies does not matter."""
    words = {}
    for shape in plan.shapes:
        template = "" if shape.chat_template else " without a chat template"
        of = f"{shape.input} tokens" if shape.path is None else f"a file{template}"
        words[shape.name] = f"{shape.dataset}, {of}"
    return words


def _of_plans(
    one: BenchRecord,
    other: BenchRecord,
    keys: Sequence[str],
) -> Iterator[str]:
    for key in keys:
        ours, theirs = (getattr(each.plan, key.replace("-", "_")) for each in (one, other))
        if isinstance(ours, dict) and isinstance(theirs, dict):
            for name in sorted(ours.keys() | theirs.keys()):
                pair = [repr(each[name]) if name in each else "not set" for each in (ours, theirs)]
                if pair[0] != pair[1]:
                    yield f"{name} is {_pair(pair, one, other)}"
            continue
        pair = [repr(_UNKNOWN if each is None else each) for each in (ours, theirs)]
        if pair[0] != pair[1]:
            yield f"{key} is {_pair(pair, one, other)}"


def _pair(pair: Sequence[str], one: BenchRecord, other: BenchRecord) -> str:
    return f"{pair[0]} in {one.name} and {pair[1]} in {other.name}"


def _pins(one: BenchRecord, other: BenchRecord) -> Iterator[Difference]:
    """Each side is held to the first of the other record: there is one in most."""
    clients = one.client.vllm, other.client.vllm
    if clients[0] != clients[1]:
        yield Difference("pins", f"vllm bench serve is that of {' and '.join(clients)}")
    for ours, theirs in zip(one.sides, other.sides, strict=False):
        if (
            ours.subject is None
            or ours.engine is None
            or theirs.subject is None
            or theirs.engine is None
        ):
            yield Difference("pins", "what a server that was there before runs is not known")
            continue
        if ours.engine.vllm != theirs.engine.vllm:
            yield Difference("pins", f"vLLM is {ours.engine.vllm} and {theirs.engine.vllm}")
        subjects = map(subject_trees_of_records, (ours.subject, theirs.subject))
        for what in differences_of_subjects(*subjects):
            yield Difference("pins", what)
