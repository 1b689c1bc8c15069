"""An audit in the formats that other tools read, by name."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from vpatch.util.extras import require
from vpatch.util.source_date import source_date_epoch

if TYPE_CHECKING:
    from vpatch.commands.audit.result import AuditResult

FORMATS = ("openvex", "cyclonedx", "sarif")


def document_of(result: AuditResult, form: str, now: datetime) -> str:
    """Return an audit in one of `FORMATS`, dated `now` or as SOURCE_DATE_EPOCH says.

    Raises:
        UsageError: SOURCE_DATE_EPOCH is not a number of seconds.
        UnavailableError: the packages for the format are not installed.
    """
    seconds = source_date_epoch()
    at = now if seconds is None else datetime.fromtimestamp(seconds, UTC)
    # Each format is imported where it is asked for: CycloneDX takes 0.3 s.
    if form == "openvex":
        from vpatch.commands.audit.openvex import openvex  # noqa: PLC0415

        return openvex(result, at)
    if form == "cyclonedx":
        require("audit", "a CycloneDX document")
        from vpatch.commands.audit.cyclonedx import cyclonedx  # noqa: PLC0415

        return cyclonedx(result, at)
    from vpatch.commands.audit.sarif import sarif  # noqa: PLC0415

    return sarif(result)
