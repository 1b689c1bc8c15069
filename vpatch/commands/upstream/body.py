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

from vpatch.util.visible import visible

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from vpatch.declare.target import Part, Template

_HEADING = re.compile(r"^(?P<level>#{1,6}) +(?P<name>.+?) *#*$")
_BLOCK = re.compile(
    r"<!-- vpatch (?P<name>[^\n]+)\nsha256:(?P<digest>[0-9a-f]{16}) -->\n"
    r"(?P<text>.*?)\n<!-- vpatch\nend of (?P=name) -->",
    re.DOTALL,
)
_FACTS = re.compile(r"<!-- vpatch:\n(?P<facts>.*?) -->", re.DOTALL)
# Where a template has no heading for a part: below one of ours, and called as no heading can be.
_REST, _REST_HEADING = "*", "## Details"
_RULE = "---"
# Where upstream has no template.
_SECTIONS: dict[str, tuple[Part, ...]] = {
    "Purpose": ("summary", "claims"),
    "Validation": ("reproduction", "commands", "results"),
    "Details": ("cause", "not a duplicate", "limits", "assistance"),
}


@dataclass(frozen=True)
class Updated:
    """A body brought up to date; `unwritten` are parts that stay as they were, and why."""

    text: str
    unwritten: tuple[str, ...] = ()


def render(
    template: Template | None,
    text: str,
    parts: Mapping[Part, str],
    facts: Mapping[str, str],
    *,
    assisted: bool,
) -> str:
    """Fill a template's text; without one, each part gets a heading of its own.

    `facts` are for the next run: they are in a comment. Parts without text are left out.
    """
    remaining = {name: _harmless(part) for name, part in parts.items() if part}
    sections: Mapping[str, Sequence[Part]] = template.sections if template else _SECTIONS
    text = text if template else "\n\n".join(f"## {name}" for name in _SECTIONS)
    lines = text.replace("\r\n", "\n").rstrip("\n").split("\n") if text else []
    filled: list[str] = []
    rule = None
    for line, kind in zip(lines, _kinds(lines), strict=True):
        if kind == "rule" and rule is None:
            rule = len(filled)
        filled.append(line)
        chosen = [name for name in sections.get(kind.removeprefix("# "), ()) if name in remaining]
        if chosen:
            block = _block(kind.removeprefix("# "), [remaining.pop(name) for name in chosen])
            filled += ["", *block.split("\n")]
    if remaining:
        rest = [_REST_HEADING, "", *_block(_REST, list(remaining.values())).split("\n"), ""]
        # Before a template's closing rule and checklist, or at the end.
        at = len(filled) if rule is None else rule
        filled[at:at] = rest if at < len(filled) or not filled else ["", *rest]
    body = "\n".join(filled)
    if assisted and template and template.assisted:
        box = re.compile(rf"^- \[ \] (?={re.escape(template.assisted)})", re.MULTILINE)
        body = box.sub("- [x] ", body)
    noted = "\n".join(f"{name}: {value}" for name, value in facts.items())
    return f"<!-- vpatch:\n{noted} -->\n{body.strip()}\n"


def _kinds(lines: Sequence[str]) -> Iterator[str]:
    """Say of each line of a template what it is: `# HEADING`, `rule`, or nothing of note."""
    in_comment = in_code = False
    for line in lines:
        in_code ^= line.startswith("```")
        plain = not in_comment and not in_code
        heading = _HEADING.match(line) if plain else None
        in_comment = (in_comment or "<!--" in line) and "-->" not in line
        if heading:
            yield f"# {heading['name']}"
        else:
            yield "rule" if plain and line.strip() == _RULE else ""


def _harmless(part: str) -> str:
    """A part in which no marker can be read, and nothing is hidden."""
    return visible(part).replace("<!-- vpatch", "<!-\u200b- vpatch")


def update(old: str, new: str) -> Updated:
    """Put the parts of a new body into an old one, and leave all else of the old as it is."""
    fresh = {block["name"]: block[0] for block in _BLOCK.finditer(new)}
    unwritten: dict[str, str] = {}
    there: set[str] = set()

    def replaced(block: re.Match[str]) -> str:
        name = block["name"]
        there.add(name)
        if _digest(block["text"]) != block["digest"]:
            unwritten[name] = "a person wrote there"
        elif name not in fresh:
            unwritten[name] = "upstream's template has no such heading any more"
        else:
            return fresh[name]
        return block[0]

    text = _BLOCK.sub(replaced, old.replace("\r\n", "\n"))
    why = "a person removed it" if there else "nothing in the body is vpatch's"
    unwritten |= {name: why for name in fresh if name not in there}
    facts = _FACTS.search(new)
    if facts is not None:
        text, count = _FACTS.subn(lambda _: facts[0], text, count=1)
        text = text if count else f"{facts[0]}\n{text}"
    called = {_REST: "what has no heading"}
    sentences = (
        f"{called.get(name, name)}: {reason}, so it was left as it is"
        for name, reason in unwritten.items()
    )
    return Updated(text, tuple(sentences))


def facts_of(body: str) -> dict[str, str]:
    """Return what an earlier run noted in a body; nothing where it did not write it."""
    comment = _FACTS.search(body.replace("\r\n", "\n"))
    if comment is None:
        return {}
    pairs = (line.partition(": ") for line in comment["facts"].splitlines())
    return {name: value for name, _, value in pairs}


def with_fact(body: str, name: str, value: str) -> str:
    """Return a body that `render` made with one more fact for the next run."""
    return _FACTS.sub(
        lambda comment: f"<!-- vpatch:\n{comment['facts']}\n{name}: {value} -->", body, count=1
    )


def _block(name: str, texts: Sequence[str]) -> str:
    text = "\n\n".join(part.strip() for part in texts)
    start = f"<!-- vpatch {name}\nsha256:{_digest(text)} -->"
    return f"{start}\n{text}\n<!-- vpatch\nend of {name} -->"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
