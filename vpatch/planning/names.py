"""Names of definitions, as keys `PATH::NAME`. To compare them needs no parser."""

from __future__ import annotations

import re

# The name in the keys of all statements: a statement has no name of its own.
STATEMENT = "<statement>"
# The name in the keys of the order of a module's statements.
ORDER = "<order>"
_NUMBER = re.compile(r"#\d+$")


def plain_name(key: str) -> str:
    """The qualified name in a key such as `PATH::NAME#2`."""
    return _NUMBER.sub("", key.partition("::")[2])
