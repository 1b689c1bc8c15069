"""What vpatch says of a checkpoint: one record for each thing."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CheckpointFinding:
    """`kind` is a fixed word for programs. The rest is only worth knowing.

    `modules` are all that it is about, by their names in vLLM. `pattern` is a regular expression
    that matches these names. It matches the name of no module for which the opposite holds.
    """

    kind: str
    what: str
    hint: str | None = None
    fault: bool = True
    modules: tuple[str, ...] = ()
    pattern: str | None = None
