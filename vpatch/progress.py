"""How the core tells of long work, without knowing who listens: the command line draws it."""

from __future__ import annotations

from typing import Protocol


class Task(Protocol):
    def resize(self, total: int) -> None:
        """Say the size in bytes, where it became known only after the start."""

    def advance(self, amount: int) -> None:
        """Count `amount` further units (bytes of a download) as done."""

    def done(self) -> None:
        """Mark the task as finished."""


class Progress(Protocol):
    """Is told of the steps of a run that take long, and of notes for the user."""

    def start(self, what: str, *, total: int | None = None) -> Task:
        """Begin a task; `total` is its size in bytes where that is known."""

    def note(self, message: str) -> None:
        """Say something that the user should know and that is not an error."""


class Silent:
    """Nobody listens. Serves as both `Progress` and `Task`."""

    def start(self, what: str, *, total: int | None = None) -> Silent:  # noqa: ARG002
        return self

    def resize(self, total: int) -> None:
        pass

    def advance(self, amount: int) -> None:
        pass

    def done(self) -> None:
        pass

    def note(self, message: str) -> None:
        pass
