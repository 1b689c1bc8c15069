"""How the core tells of long work, without knowing who listens: the command line draws it."""

from __future__ import annotations

from typing import Protocol


class Task(Protocol):
    def resize(self, total: int) -> None:
        """Say the size, where it became known only after the start."""

    def advance(self, amount: int) -> None:
        """Count `amount` further units as done."""

    def describe(self, item: str) -> None:
        """Say what the task is at. A terminal shows it, and a log does not."""

    def done(self) -> None:
        """Mark the task as finished."""


class Progress(Protocol):
    """Is told of the steps of a run that take long, and of notes for the user."""

    def start(self, what: str, *, total: int | None = None, unit: str = "bytes") -> Task:
        """Begin a task; `total` is its size where that is known, in bytes or another unit.

        The unit is in the singular, but for bytes.
        """

    def note(self, message: str) -> None:
        """Say something that the user should know and that is not an error."""


class Silent:
    """Nobody listens. Serves as both `Progress` and `Task`."""

    def start(
        self,
        what: str,  # noqa: ARG002
        *,
        total: int | None = None,  # noqa: ARG002
        unit: str = "bytes",  # noqa: ARG002
    ) -> Silent:
        return self

    def resize(self, total: int) -> None:
        pass

    def advance(self, amount: int) -> None:
        pass

    def describe(self, item: str) -> None:
        pass

    def done(self) -> None:
        pass

    def note(self, message: str) -> None:
        pass
