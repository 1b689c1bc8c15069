"""An audit in the formats that other tools read, by name."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from vpatch.errors import BadValueError
from vpatch.util.extras import require
from vpatch.util.source_date import source_date_epoch

if TYPE_CHECKING:
    from vpatch.commands.audit.author import Author
    from vpatch.commands.audit.result import AuditResult

VEX_REPOSITORY = "vex-repository"
FORMATS = ("openvex", "cyclonedx", "sarif", "markdown")
# Those that name their author.
AUTHORED = ("openvex", "cyclonedx", VEX_REPOSITORY)


def document_of(
    result: AuditResult, form: str, date: datetime | None = None, author: Author | None = None
) -> str:
    """Return an audit in one of `FORMATS`, dated `date` or now, or as SOURCE_DATE_EPOCH says.

    `author` is that of the document; SARIF has none.

    Raises:
        UsageError: there is no such format, or SOURCE_DATE_EPOCH is not a number of seconds.
        UnavailableError: the packages for the format are not installed.
    """
    if form not in FORMATS:
        raise BadValueError(
            f"there is no format {form!r}", hint=f"give one of {', '.join(FORMATS)}"
        )
    seconds = source_date_epoch()
    if seconds is not None:
        date = datetime.fromtimestamp(seconds, UTC)
    at = date or datetime.now(UTC).replace(microsecond=0)
    # Each format is imported where it is asked for: CycloneDX takes 0.3 s.
    if form == "openvex":
        from vpatch.commands.audit.openvex import openvex  # noqa: PLC0415

        return openvex(result, at, author)
    if form == "cyclonedx":
        require("audit", "a CycloneDX document")
        from vpatch.commands.audit.cyclonedx import cyclonedx  # noqa: PLC0415

        return cyclonedx(result, at, author)
    if form == "markdown":
        from vpatch.commands.audit.markdown import markdown  # noqa: PLC0415

        return markdown(result)
    from vpatch.commands.audit.sarif import sarif  # noqa: PLC0415

    return sarif(result)
