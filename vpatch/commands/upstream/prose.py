"""Text that was declared in lines of some width, for where lines are broken otherwise."""

from __future__ import annotations

import re
import textwrap

# Lines that are never joined: lists, tables, quotes, headings, code.
_KEPT = re.compile(r"\s*([-*+>|#]|\d+\.\s|```)|\s{4}")
_FENCE = "```"


def unwrapped(text: str) -> str:
    """Join the lines of each paragraph: GitHub shows every line break of a comment as one."""
    lines: list[str] = []
    in_code = may_join = False
    for line in text.strip().splitlines():
        fence = line.lstrip().startswith(_FENCE)
        plain = not in_code and not fence and line.strip() and not _KEPT.match(line)
        if plain and may_join:
            lines[-1] += f" {line.strip()}"
        else:
            lines.append(line.rstrip())
        in_code ^= fence
        # The second line of an item of a list goes on with it as well.
        may_join = not in_code and not fence and bool(line.strip()) and not _is_alone(line)
    return "\n".join(lines)


def wrapped(text: str, width: int) -> str:
    """Break paragraphs at a width, as a commit's message is."""
    parts = []
    for line in unwrapped(text).splitlines():
        if _KEPT.match(line) or not line:
            parts.append(line)
        else:
            parts.append(textwrap.fill(line, width, break_long_words=False, break_on_hyphens=False))
    return "\n".join(parts)


def _is_alone(line: str) -> bool:
    mark = _KEPT.match(line)
    return mark is not None and (mark[1] is None or mark[1] in {"|", "#", ">"})
