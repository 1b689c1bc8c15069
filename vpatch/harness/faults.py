"""What a log says of the end of an engine, where that is one of the things that are known."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from vpatch.engine.process import last_lines
from vpatch.harness.measured import Fault, StartHangs
from vpatch.logs.explanations import explained
from vpatch.logs.vllm_format import split_prefix
from vpatch.util.visible import without_colours

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_DIED = "a worker died"
# In the order in which they explain more: a full disk also kills a worker.
_CAUSES = (
    ("the disk is full", re.compile(r"No space left on device|Errno 28")),
    ("the port is in use", re.compile(r"address already in use", re.IGNORECASE)),
    (
        "out of memory",
        re.compile(
            r"OutOfMemoryError|out of memory|MemoryError|Cannot allocate memory|"
            r"No available memory for the cache blocks|less than desired GPU memory utilization",
            re.IGNORECASE,
        ),
    ),
    (
        _DIED,
        re.compile(r"died unexpectedly|EngineDeadError|Engine core proc \S+ died|WorkerProc.*died"),
    ),
)
# As a traceback ends: with the name of the class, at the beginning of the line.
_ERROR = re.compile(r"(?:[a-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt): \S.*")
# A mere remark, such as "so as not to run out of memory", does not name a cause.
_SAID = re.compile(r"\b(?:DEBUG|INFO|WARNING) \d\d-\d\d ")
# torch writes it before each line of a traceback, where there is a process group.
_RANK = re.compile(r"^\s*\[rank\d+\]:")
_SCANNED = 2000
_SHOWN = 15


def fault(kind: str, what: str, log: Path) -> Fault:
    """Return a fault with what the end of the log says of it."""
    lines = last_lines(log, _SCANNED)
    cause = _cause(lines)
    known = explained(cause) if cause else None
    return Fault(
        kind, what, f"{known.meaning}: {cause}" if known else cause, tuple(lines[-_SHOWN:])
    )


def start_hangs(what: str, log: Path) -> Fault:
    """Return the fault of a start that took too long."""
    failure = fault("does not start", what, log)
    return StartHangs(failure.kind, failure.what, failure.cause, failure.ending)


def _cause(lines: Iterable[str]) -> str | None:
    lines = list(lines)
    messages = [split_prefix(without_colours(line))[1] for line in lines]
    texts = [_RANK.sub("", message).strip() for message in messages]
    raised = [text for text in texts if _ERROR.match(text)]
    grave = [text for text, line in zip(texts, lines, strict=True) if not _SAID.search(line)]
    for name, pattern in _CAUSES:
        if any(pattern.search(text) for text in grave):
            own = [text for text in raised if pattern.search(text)]
            # Why a worker died is what it raised itself: that it died is what the others raise.
            others = [text for text in raised if text not in own]
            causes = (others or own) if name == _DIED else own
            return f"{name}: {causes[0]}" if causes else name
    # The first: those after it are its echoes in other processes.
    return raised[0] if raised else None
