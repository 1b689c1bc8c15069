"""The one base of every error that vpatch raises on purpose.

Subclasses stand beside the code that raises them. Exit codes: 1 findings that need a person, 2
wrong use or a wrong declaration, 3 a fault of vpatch itself (anything that is not a `VpatchError`).
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class ExitCode(IntEnum):
    """How a command ends."""

    CLEAN = 0
    FINDINGS = 1
    USAGE = 2
    FAULT = 3
    INTERRUPTED = 130


class VpatchError(Exception):
    """What went wrong, where, and what to do next."""

    exit_code = ExitCode.FINDINGS

    def __init__(self, what: str, *, where: str | None = None, todo: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.todo = todo

    def __str__(self) -> str:
        parts = [f"{self.where}: {self.what}" if self.where else self.what]
        if self.todo:
            parts.append(f"  next: {self.todo}")
        return "\n".join(parts)


class UsageError(VpatchError):
    """The command line or a declaration is wrong."""

    exit_code = ExitCode.USAGE


class ManyErrors(VpatchError):
    """Several errors of one run, reported together; the gravest exit code wins."""

    def __init__(self, errors: Sequence[VpatchError]) -> None:
        super().__init__("\n".join(str(error) for error in errors))
        self.errors = tuple(errors)
        self.exit_code = max(error.exit_code for error in errors)


def combine(errors: Sequence[VpatchError]) -> VpatchError:
    """Return what to raise for one error or more: it itself, or all of them."""
    return errors[0] if len(errors) == 1 else ManyErrors(errors)
