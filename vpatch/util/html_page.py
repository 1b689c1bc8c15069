"""HTML pages from a template, with everything in them escaped."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def render_page(template: Path, **values: Any) -> str:
    """Fill a template of jinja2, which may include `page_style.css`.

    A name that it uses and that has no value is a fault.
    """
    # An extra has jinja2.
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # noqa: PLC0415

    environment = Environment(
        loader=FileSystemLoader([template.parent, Path(__file__).parent]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template.name).render(**values)
