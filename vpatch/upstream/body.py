"""The body of a pull request: upstream's template, with parts of ours between markers.

vpatch writes between its own markers only, and there only what it wrote itself: a marker has the
digest of what follows, so that what a person changed is known, and kept. A marker is a comment of
two lines, as vLLM's bot removes those of one (.github/workflows/new_pr_bot.yml).
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vpatch.declare.target import Part, Template

_HEADING = re.compile(r"^(?P<level>#{1,6}) +(?P<name>.+?) *#*$")
_BLOCK = re.compile(
    r"<!-- vpatch (?P<name>[^\n]+)\nsha256:(?P<digest>[0-9a-f]{16}) -->\n"
    r"(?P<text>.*?)\n<!-- vpatch\nend of (?P=name) -->",
    re.DOTALL,
)
_FACTS = re.compile(r"<!-- vpatch:\n(?P<facts>.*?) -->", re.DOTALL)
# Where a template has no heading for it.
_REST = "Details"


@dataclass(frozen=True)
class Updated:
    """A body brought up to date; `kept` are parts that a person changed, `gone` removed."""

    text: str
    kept: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()


def render(
    template: Template | None,
    text: str,
    parts: Mapping[Part, str],
    facts: Mapping[str, str],
    *,
    assisted: bool,
) -> str:
    """Fill a template's text; without one, the parts stand below headings of their own.

    `facts` are for the next run: they stand in a comment. Parts without text are left out.
    """
    left = {name: part for name, part in parts.items() if part}
    lines: list[str] = []
    in_comment = in_code = False
    for line in text.replace("\r\n", "\n").rstrip("\n").split("\n") if text else ():
        lines.append(line)
        in_code ^= line.startswith("```")
        found = None if in_comment or in_code else _HEADING.match(line)
        in_comment = (in_comment or "<!--" in line) and "-->" not in line
        wanted = template.sections.get(found["name"], ()) if template and found else ()
        chosen = [name for name in wanted if name in left]
        if found and chosen:
            lines += ["", _block(found["name"], [left.pop(name) for name in chosen])]
    body = "\n".join(lines)
    if assisted and template and template.assisted:
        box = re.compile(rf"^- \[ \] (?={re.escape(template.assisted)})", re.MULTILINE)
        body = box.sub("- [x] ", body)
    if left:
        body = _before_the_end(body, f"## {_REST}\n\n{_block(_REST, list(left.values()))}")
    noted = "\n".join(f"{name}: {value}" for name, value in facts.items())
    return f"<!-- vpatch:\n{noted} -->\n{body.lstrip()}\n"


def update(old: str, new: str) -> Updated:
    """Put the parts of a new body into an old one, and leave all else of the old as it is."""
    fresh = {found["name"]: found[0] for found in _BLOCK.finditer(new)}
    kept: list[str] = []
    there: set[str] = set()

    def replaced(found: re.Match[str]) -> str:
        name = found["name"]
        there.add(name)
        if _digest(found["text"]) != found["digest"]:
            kept.append(name)
            return found[0]
        return fresh.get(name, found[0])

    text = _BLOCK.sub(replaced, old.replace("\r\n", "\n"))
    facts = _FACTS.search(new)
    if facts is not None:
        text, count = _FACTS.subn(lambda _: facts[0], text)
        text = text if count else f"{facts[0]}\n{text}"
    return Updated(text, tuple(kept), tuple(name for name in fresh if name not in there))


def facts_of(body: str) -> dict[str, str]:
    """Return what an earlier run noted in a body; nothing where it did not write it."""
    found = _FACTS.search(body.replace("\r\n", "\n"))
    if found is None:
        return {}
    pairs = (line.partition(": ") for line in found["facts"].splitlines())
    return {name: value for name, _, value in pairs}


def with_fact(body: str, name: str, value: str) -> str:
    """Return a body that `render` made with one more fact for the next run."""
    return _FACTS.sub(
        lambda found: f"<!-- vpatch:\n{found['facts']}\n{name}: {value} -->", body, count=1
    )


def _block(name: str, texts: Sequence[str]) -> str:
    text = "\n\n".join(part.strip() for part in texts)
    start = f"<!-- vpatch {name}\nsha256:{_digest(text)} -->"
    return f"{start}\n{text}\n<!-- vpatch\nend of {name} -->"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _before_the_end(body: str, section: str) -> str:
    """Put a section before a template's closing rule and checklist, or at the end."""
    rule = re.search(r"^---$", body, re.MULTILINE)
    if rule is None:
        return f"{body}\n\n{section}" if body else section
    return f"{body[: rule.start()]}{section}\n\n{body[rule.start() :]}"
