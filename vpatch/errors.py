"""The base class of every error that vpatch raises on purpose.

Subclasses are defined beside the code that raises them. Each error has a stable `code`, such as
`source.index-unreachable`, which scripts and tests may rely on; the English text may change.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

# Where the hints of two errors are compared, the place of each.
_PLACE = "\0"
_In = TypeVar("_In")
_Out = TypeVar("_Out")


class ExitCode(IntEnum):
    """How a command ends."""

    CLEAN = 0
    FINDINGS = 1
    USAGE = 2
    FAULT = 3
    ENVIRONMENT = 4
    INTERRUPTED = 130


# A script may retry after ENVIRONMENT alone. So an error that a retry cannot cure goes before it.
_PRECEDENCE = (ExitCode.FAULT, ExitCode.USAGE, ExitCode.FINDINGS, ExitCode.ENVIRONMENT)


class VpatchError(Exception):
    """What went wrong, where, and what to do next.

    Attributes:
        what: a sentence.
        where: the file, line, package or address; None where there is no single one.
        hint: what to do next.
        code: the stable name of the error, `area.what-happened`.
        exit_code: how the command ends.
    """

    exit_code = ExitCode.FINDINGS
    code = "error"

    def __init__(
        self, what: str, *, where: str | None = None, hint: str | None = None, code: str = ""
    ) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.hint = hint
        # A class has a code for all of its errors, or gives a code to each one.
        self.code = code or self.code

    def __str__(self) -> str:
        parts = [f"{self.where}: {self.what}" if self.where else self.what]
        if self.hint:
            parts.append(f"  next: {self.hint}")
        return "\n".join(parts)


class UsageError(VpatchError):
    """The command line or a declaration is wrong."""

    exit_code = ExitCode.USAGE
    code = "usage"


class BadValueError(UsageError):
    """The value of an option or an argument is wrong."""

    code = "cli.bad-value"


class MissingOptionError(UsageError):
    """An option or an argument is missing."""

    code = "cli.missing-option"


class ConflictingOptionsError(UsageError):
    """Options exclude each other."""

    code = "cli.conflicting-options"


class UnusedOptionError(UsageError):
    """An option would have no effect."""

    code = "cli.unused-option"


class UnavailableError(VpatchError):
    """Something outside vpatch is missing or does not answer: network, index, Docker, disk.

    The same command may succeed later, or on another machine.
    """

    exit_code = ExitCode.ENVIRONMENT
    code = "unavailable"


class ManyErrors(VpatchError):
    """Several errors of one run, reported together.

    Its exit code is the first of these that an error has: a fault, usage, findings, environment.
    """

    code = "vpatch.several-errors"

    def __init__(self, errors: Sequence[VpatchError]) -> None:
        super().__init__("\n".join(str(error) for error in errors))
        self.errors = tuple(errors)
        self.exit_code = min((error.exit_code for error in errors), key=_PRECEDENCE.index)


def collect(make: Callable[[_In], _Out], items: Iterable[_In]) -> list[_Out]:
    """Make something of each item.

    Raises:
        VpatchError: of an item, or of several: all of them, once all items were tried.
    """
    results: list[_Out] = []
    errors: list[VpatchError] = []
    for item in items:
        try:
            results.append(make(item))
        except VpatchError as error:
            errors.append(error)
    if errors:
        raise combine(errors)
    return results


def distinct(errors: Iterable[VpatchError]) -> list[VpatchError]:
    """Return errors in their order, and each of those that say the same once."""
    return list({str(error): error for error in errors}.values())


def by_cause(errors: Sequence[VpatchError]) -> list[VpatchError]:
    """Return errors in their order, and those with one cause at several places as one of them.

    The place may be in the hint: it is left out to compare them.
    """
    groups: dict[tuple[str, ...], list[VpatchError]] = {}
    for error in errors:
        where, hint = error.where or "", error.hint or ""
        key = (error.code, error.what, hint.replace(where, _PLACE) if where else hint)
        groups.setdefault(key if where else (*key, str(len(groups))), []).append(error)
    return [group[0] if len(group) == 1 else _joined(group) for group in groups.values()]


def _joined(errors: Sequence[VpatchError]) -> VpatchError:
    first = errors[0]
    places = list(dict.fromkeys(str(error.where) for error in errors))
    hint = first.hint and first.hint.replace(str(first.where), " ".join(places))
    joined = VpatchError(first.what, where=", ".join(places), hint=hint, code=first.code)
    joined.__cause__ = first.__cause__
    return joined


def combine(errors: Sequence[VpatchError]) -> VpatchError:
    """Return what to raise for one error or more: it itself, or all of them."""
    return errors[0] if len(errors) == 1 else ManyErrors(errors)
