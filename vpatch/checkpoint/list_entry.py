"""An entry of a list of modules that are not quantised, and how vLLM compares it with names."""

from __future__ import annotations

import re
from enum import Enum
from fnmatch import translate
from typing import TYPE_CHECKING

from vpatch.util.matching import PatternFaultError, check, matching
from vpatch.util.matching import found_in as searching

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

# A longer pattern does not name modules, and a match of it might never end.
_LONGEST = 20_000
_WILDCARDS = frozenset("*?[")
# auto-round's configs have no sign before a pattern: vLLM takes a name with one of these for one.
_SPECIAL = frozenset(r"*+?^$()[]{}|\\")


class Matching(Enum):
    """How vLLM compares an entry of a list with the name of a module."""

    REGEX = "equal, or as a regular expression after re:"
    EXACT = "equal"
    INSIDE = "somewhere in the name"
    DYNAMIC = "as a regular expression after -:"
    WILDCARD = "equal, somewhere in the name, or with * for anything"
    COMPONENTS = "as whole components of the name"
    BEGINNING = "as one component of the name, or as its beginning"
    END = "at the end of the name"
    CONFIGURED = "equal, at the end, or as a regular expression"
    ANYWHERE = "anywhere in the name"
    LATER_REGEX = "as a regular expression after re:, from 0.26.0 on"
    TABLE = "equal, with .weight at the end"


SIGNS = {
    Matching.REGEX: "re:",
    Matching.DYNAMIC: "-:",
    Matching.CONFIGURED: "",
    Matching.LATER_REGEX: "re:",
}
"""What an entry begins with that is a pattern."""
ASKED_FOR_PARTS = (Matching.REGEX, Matching.EXACT, Matching.INSIDE, Matching.CONFIGURED)
"""What knows that a fused module is left out by the names of its parts."""


class Entry:
    """An entry of a list, made ready to be compared with many names."""

    def __init__(self, text: str, kind: Matching) -> None:
        self.text = text
        self.matching = kind
        self.fault: str | None = None
        self._pattern: str | None = None
        sign = SIGNS.get(kind)
        is_pattern = bool(_SPECIAL.intersection(text)) if sign == "" else True
        if sign is not None and is_pattern and text.startswith(sign):
            if len(text) > _LONGEST:
                self.fault = f"it is too long for a pattern: {len(text)} characters"
                return
            self._pattern = text[len(sign) :]
            try:
                check(self._pattern)
            except PatternFaultError as error:
                self.fault = str(error)

    @property
    def is_pattern(self) -> bool:
        return self._pattern is not None or self.fault is not None

    def those(self, names: Collection[str]) -> list[str]:
        """Return the names that it matches; none, and `fault` says why, where it takes too long."""
        if self.fault is not None:
            return []
        if self._pattern is not None:
            try:
                # auto-round's are searched for, anywhere in the name.
                is_searched = self.matching is Matching.CONFIGURED
                return (searching if is_searched else matching)(self._pattern, names)
            except PatternFaultError as error:
                self.fault = str(error)
                return []
        if self.matching is Matching.WILDCARD:
            return _wildcard_hits(self.text, names)
        if (compare := _COMPARISONS.get(self.matching)) is not None:
            return [name for name in names if compare(self.text, name)]
        # Lists have thousands of names, and checkpoints tens of thousands of modules.
        return [self.text] if self.text in names else []


def _wildcard_hits(text: str, names: Collection[str]) -> list[str]:
    """Compare as ModelOptQuantConfigBase.is_layer_excluded does, behind its apply_vllm_mapper."""
    if _WILDCARDS.isdisjoint(text):
        return [name for name in names if text in name]
    # `x*` becomes `x` and `x.*` there, and what has no sign is looked for anywhere in the name.
    short = text[:-1] if text.endswith("*") and not text.endswith(".*") else ""
    match = re.compile(translate(text)).match
    return [name for name in names if match(name) or (short and short in name)]


def _is_component(text: str, name: str) -> bool:
    """As torchao.py's should_skip has it."""
    return f".{text}." in f".{name}."


def _is_beginning(text: str, name: str) -> bool:
    """As bitsandbytes.py's is_layer_skipped_bnb has it."""
    return text in name.split(".") or f"{name}.".startswith(f"{text}.")


_COMPARISONS: dict[Matching, Callable[[str, str], bool]] = {
    Matching.INSIDE: lambda text, name: text in name,
    Matching.ANYWHERE: lambda text, name: text in name,
    Matching.COMPONENTS: _is_component,
    Matching.BEGINNING: _is_beginning,
    Matching.END: lambda text, name: name.endswith(text),
    Matching.CONFIGURED: lambda text, name: name == text or name.endswith(f".{text}"),
    Matching.TABLE: lambda text, name: text == f"{name}.weight",
}
