"""Write how the library's patches were proven, release by release, into the page on known shapes.

mkdocs calls `on_page_markdown` for each page; mkdocs.yml names this file under `hooks`.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from packaging.version import Version

from vpatch.library.catalog import installed
from vpatch.library.shapes import Shapes, read_shapes
from vpatch.planning.proven import proof_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MARK = "<!-- proofs -->"
_TREE = "vllm"
_CELLS = {
    "behaviour": "by behaviour",
    "example": "by example",
    "not asked": "not asked",
    "contradicted": "contradicted",
}


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put the table in place of the mark; other pages stay as they are."""
    return markdown.replace(MARK, table(_recorded())) if MARK in markdown else markdown


def _recorded() -> dict[str, Shapes]:
    folders = [path for path in sorted(installed("patches").iterdir()) if path.is_dir()]
    found = {path.name: read_shapes(path) for path in folders}
    return {patch_id: shapes for patch_id, shapes in found.items() if shapes is not None}


def table(recorded: Mapping[str, Shapes]) -> str:
    """Return a table of releases and patches, and below it the reasons of what is not proven."""
    states: dict[str, dict[str, str]] = defaultdict(dict)
    reasons: dict[tuple[str, str], list[str]] = defaultdict(list)
    for patch_id, shapes in recorded.items():
        for shape in shapes.shapes.get(_TREE, ()):
            for release in shape.releases:
                proof = proof_of(shapes, _TREE, release)
                states[release][patch_id] = f"{shape.state}, {_CELLS[proof.by]}"
                if proof.by in {"not asked", "contradicted"}:
                    reasons[patch_id, proof.sentence].append(release)
    lines = [f"| vLLM | {' | '.join(f'`{patch_id}`' for patch_id in recorded)} |"]
    lines.append("|---" * (len(recorded) + 1) + "|")
    for release in sorted(states, key=Version):
        cells = [states[release].get(patch_id, "no shape on record") for patch_id in recorded]
        lines.append(f"| {release} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", *_reasons(reasons)])


def _reasons(reasons: Mapping[tuple[str, str], list[str]]) -> Iterator[str]:
    for (patch_id, said), releases in reasons.items():
        yield f"- `{patch_id}` in {', '.join(sorted(releases, key=Version))}: {said}."
