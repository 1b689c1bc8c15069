"""The name of a wheel, in parts."""

from __future__ import annotations

from dataclasses import dataclass

from packaging.utils import parse_wheel_filename

from vpatch.errors import UsageError


@dataclass(frozen=True)
class WheelName:
    """The name of a wheel, in parts. `tail` is its build number and its tags, with .whl."""

    distribution: str
    version: str
    tail: str

    def __str__(self) -> str:
        return f"{self.distribution}-{self.version}-{self.tail}"

    @property
    def info(self) -> str:
        """The folder of its metadata."""
        return f"{self.distribution}-{self.version}.dist-info"

    @property
    def data(self) -> str:
        """The folder of files that belong elsewhere, where a wheel has some."""
        return f"{self.distribution}-{self.version}.data"


def parse_wheel_name(text: str) -> WheelName:
    """Read the name of a wheel.

    Raises:
        UsageError: it is not one.
    """
    try:
        parse_wheel_filename(text)
    except ValueError as error:
        raise UsageError(
            f"it is not the name of a wheel: {error}",
            where=text,
            hint="give the wheel the name that it has on the index",
            code="wheel.bad-name",
        ) from error
    distribution, version, tail = text.split("-", 2)
    return WheelName(distribution, version, tail)
