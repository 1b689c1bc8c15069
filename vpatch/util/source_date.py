"""SOURCE_DATE_EPOCH, with which builds give the same bytes: https://reproducible-builds.org."""

from __future__ import annotations

import os

from vpatch.errors import UsageError

# The last second that Python's dates have. A longer text may have thousands of digits.
_LATEST = 253402300799
_LONGEST = 12


def source_date_epoch() -> int | None:
    """Return the seconds since 1970 that the environment names; None where it names none.

    Raises:
        UsageError: it is not a number, or no date has it.
    """
    text = os.environ.get("SOURCE_DATE_EPOCH")
    if text is None:
        return None
    plain = text.isascii() and text.isdigit() and len(text) <= _LONGEST
    if not plain or int(text) > _LATEST:
        raise UsageError(
            f"SOURCE_DATE_EPOCH is {text!r}, not a number of seconds since 1970",
            hint="set it to what `git log -1 --format=%ct` prints, or unset it",
            code="util.bad-source-date-epoch",
        )
    return int(text)
