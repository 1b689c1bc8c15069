"""A report of a bump becomes a file, in the form that its name ends in."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from vpatch.commands.bump.markdown import markdown
from vpatch.errors import UsageError
from vpatch.util.extras import require
from vpatch.util.files import replace_file

if TYPE_CHECKING:
    from pathlib import Path

    from vpatch.commands.bump.report import BumpReport

_PAGE = ".html"


def check_report_file(file: Path) -> None:
    """Refuse a name that says no form, before anything takes time.

    Raises:
        UsageError: it ends in neither .md nor .html.
        UnavailableError: a page needs jinja2, which is not installed.
    """
    if file.suffix not in {".md", _PAGE}:
        raise UsageError(
            "the name of a report ends in .md or .html",
            where=str(file),
            hint="give for instance --output report.html",
            code="bump.report-form",
        )
    if file.suffix == _PAGE:
        require("bump", "a report in HTML")


def write_report(report: BumpReport, file: Path) -> None:
    """Write a report to a file that `check_report_file` accepts."""
    if file.suffix == _PAGE:
        from vpatch.commands.bump.page import page  # noqa: PLC0415 - only a page needs jinja2

        replace_file(file, page(report, datetime.now(UTC)))
    else:
        replace_file(file, markdown(report))
