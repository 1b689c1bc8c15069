"""What is so of an item in one release."""

from __future__ import annotations

from typing import Literal, NamedTuple

# "lost" is what is reached through something that is gone. "own" is the target's own.
Presence = Literal["here", "gone", "lost", "own", "unknown"]


class Fact(NamedTuple):
    """What a release has of an item.

    `what` is the kind of thing, such as "async method". `problems` are what does not fit, and
    `notes` what fits only for some callers.
    `body` is a digest of the definition, `defaults` those of its parameters, `bases` of a class.
    `runs` is None where that cannot be known, and `moved` where the name is now.
    `callers` says of problems who in vLLM gives the parameter, or "" if nobody does.
    """

    presence: Presence
    why: str = ""
    where: str = ""
    what: str = ""
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    body: str = ""
    defaults: dict[str, str] = {}  # noqa: RUF012 - of a NamedTuple, and nobody changes it
    bases: tuple[str, ...] = ()
    runs: bool | None = True
    moved: str = ""
    of_class: bool = False
    callers: dict[str, str] = {}  # noqa: RUF012 - as before
