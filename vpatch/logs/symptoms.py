"""Known symptoms in a log. Which of them a patch cures is what its declaration says."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vpatch.logs.vllm_format import split_prefix
from vpatch.util.visible import without_colours

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vpatch.library.patch import Patch

# A server that is started again and again writes as ever new ones.
_PROCESSES = 256


@dataclass(frozen=True)
class Sighting:
    """A symptom in a log: the line where it first begins, and how often it is there."""

    patch: Patch
    symptom: str
    line: int
    text: str
    count: int


@dataclass(frozen=True)
class _Line:
    number: int
    text: str
    squeezed: str


def find_symptoms(log_lines: Iterable[str], patches: Iterable[Patch]) -> list[Sighting]:
    """Find what patches declare as symptoms, in the order of the log."""
    return find_in_pieces(enumerate(log_lines, start=1), patches)


def find_in_pieces(pieces: Iterable[tuple[int, str]], patches: Iterable[Patch]) -> list[Sighting]:
    """Do the same with lines that have their numbers, and may come in pieces of one number.

    White space does not count, nor do vLLM's prefixes. So a message is found that goes on in the
    next line of its process, wherever that is and wherever it was broken.
    """
    wanted = [
        (patch, symptom, squeezed)
        for patch in patches
        for symptom in patch.declaration.symptoms
        if (squeezed := _squeeze(symptom))
    ]
    longest = max((len(squeezed) for _, _, squeezed in wanted), default=1)
    sightings: dict[tuple[str, str], Sighting] = {}
    last: dict[str, _Line] = {}
    process, current = "", 0
    for number, piece in pieces:
        text = message = without_colours(piece)
        if number != current:
            process, message = split_prefix(text)
            current = number
        this = _Line(number, text.strip(), _squeeze(message))
        before = last.pop(process, this)
        tail = "" if before is this else before.squeezed
        joined = tail + this.squeezed
        for patch, symptom, squeezed in wanted:
            if squeezed not in joined:
                continue
            # What lies in the tail alone was counted with its own line.
            start = max(0, len(tail) - len(squeezed) + 1)
            count = joined.count(squeezed, start)
            if not count:
                continue
            key = patch.id, symptom
            if key in sightings:
                sightings[key] = replace(sightings[key], count=sightings[key].count + count)
            else:
                first = before if joined.index(squeezed, start) < len(tail) else this
                sightings[key] = Sighting(patch, symptom, first.number, first.text, count)
        last[process] = replace(this, squeezed=this.squeezed[-longest:])
        if len(last) > _PROCESSES:
            del last[next(iter(last))]
    return sorted(sightings.values(), key=lambda sighting: sighting.line)


def _squeeze(text: str) -> str:
    return "".join(text.split())
