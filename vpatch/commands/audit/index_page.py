"""The page of a feed: for each release and each wheel its fixes, with their diffs and tests."""

from __future__ import annotations

from collections import Counter
from html import escape
from typing import TYPE_CHECKING

from vpatch.commands.audit.judge import Status

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from vpatch.commands.audit.vex_repository import Feed, Fix, Product

_STYLE = "body{font:15px sans-serif;margin:2em}td,th{text-align:left;padding:.2em .8em .2em 0}"


def write_page(feed: Feed, files: Collection[str]) -> str:
    """Return the page as HTML; it links only to `files` of the feed."""
    return "".join(f"{line}\n" for line in _lines(feed, files))


def _lines(feed: Feed, files: Collection[str]) -> Iterator[str]:
    yield "<!doctype html>"
    yield '<html lang="en"><head><meta charset="utf-8"><title>vLLM: security fixes</title>'
    yield f"<style>{_STYLE}</style></head><body>"
    yield "<h1>vLLM: what security advisories mean</h1>"
    yield f"<p>Written on {feed.updated_at:%Y-%m-%d} by vpatch, which reads the code. The"
    yield "advisories are a selection: what is not here may concern a version all the same.</p>"
    for product in feed.products:
        yield from _section(product, files)
    yield "</body></html>"


def _section(product: Product, files: Collection[str]) -> Iterator[str]:
    counts = Counter(str(one["status"]) for one in product.statements)
    summary = ", ".join(
        f"{counts[status]} {status.replace('_', ' ')}" for status in Status if counts[status]
    )
    yield f"<h2>{escape(product.subject)}</h2>"
    yield f"<p><code>{escape(product.purl)}</code>: {summary}</p>"
    if not product.fixes:
        return
    yield "<table><tr><th>fixes</th><th>patch</th><th>diff</th><th>test</th></tr>"
    yield from (_row(fix, files) for fix in product.fixes)
    yield "</table>"


def _row(fix: Fix, files: Collection[str]) -> str:
    # A path of a file is a part of a URL: + is one in it.
    link = f'<a href="{escape(fix.diff)}">diff</a>' if fix.diff in files else "-"
    cells = (
        escape(", ".join(fix.advisories)),
        escape(fix.patch),
        link,
        escape(", ".join(fix.tests)) or "-",
    )
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
