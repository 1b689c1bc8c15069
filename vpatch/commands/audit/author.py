"""Who answers for a document: its author, as a person or an organisation names itself."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

from vpatch.errors import BadValueError

_FORM = re.compile(r"(?P<name>[^<>\n]*[^<>\s])(?:\s*<(?P<email>[^<>@\s]+@[^<>@\s]+)>)?")


@dataclass(frozen=True)
class Author:
    """The author of a document, by name, and by address if there is one."""

    name: str
    email: str | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `NAME` or `NAME <ADDRESS>`.

        Raises:
            UsageError: it is neither.
        """
        match = _FORM.fullmatch(text.strip())
        if match is None or not text.isprintable():
            raise BadValueError(
                f"{text!r} is not the name of an author",
                hint="write --author 'NAME' or --author 'NAME <ADDRESS>'",
            )
        return cls(match["name"].strip(), match["email"])

    def __str__(self) -> str:
        return f"{self.name} <{self.email}>" if self.email else self.name
