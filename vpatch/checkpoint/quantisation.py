"""What a config says about quantisation: the method, and the modules that are left out of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from vpatch.checkpoint.folder import MODELOPT
from vpatch.util.matching import PatternFaultError, check, matching

if TYPE_CHECKING:
    from collections.abc import Collection

    from pydantic import JsonValue

    from vpatch.checkpoint.folder import Checkpoint

_KEYS = ("quantization_config", "compression_config")
# A longer pattern does not name modules, and a match of it might never end.
_LONGEST = 20_000


class Matching(Enum):
    """How vLLM compares an entry of a list with the name of a module."""

    REGEX = "equal, or as a regular expression after re:"
    EXACT = "equal"
    INSIDE = "somewhere in the name"
    DYNAMIC = "as a regular expression after -:"


# As read in vLLM's compressed_tensors/utils.py, quant_utils.py, awq.py and gptq_utils.py.
_LISTS = {
    "compressed-tensors": (("ignore", Matching.REGEX),),
    "fp8": (("ignored_layers", Matching.EXACT), ("modules_to_not_convert", Matching.EXACT)),
    "deepseek_v4_fp8": (
        ("ignored_layers", Matching.EXACT),
        ("modules_to_not_convert", Matching.EXACT),
    ),
    "awq": (("modules_to_not_convert", Matching.INSIDE),),
    "awq_marlin": (("modules_to_not_convert", Matching.INSIDE),),
    "gptq": (("dynamic", Matching.DYNAMIC),),
    "gptq_marlin": (("dynamic", Matching.DYNAMIC),),
}


@dataclass(frozen=True)
class Ignored:
    """One list of modules that are not quantised: where it is, its entries, and how they match."""

    way: tuple[str, ...]
    entries: tuple[str, ...]
    matching: Matching

    @property
    def where(self) -> str:
        return ".".join(self.way)


@dataclass(frozen=True)
class Quantisation:
    """The quantisation config, with the way to it in config.json, or the file that it is."""

    way: tuple[str, ...]
    config: dict[str, JsonValue]

    @property
    def method(self) -> str:
        return str(self.config.get("quant_method", "not named"))

    @property
    def understood(self) -> bool:
        """Whether it is known how vLLM matches what this method leaves out."""
        return self.method in _LISTS

    @property
    def bits(self) -> tuple[str, ...]:
        """What it stores matrices as, in words, such as INT4 in groups of 128."""
        groups = self.config.get("config_groups")
        if isinstance(groups, dict):
            weights = [g.get("weights") for g in groups.values() if isinstance(g, dict)]
            return tuple(dict.fromkeys(_describe(w) for w in weights if isinstance(w, dict)))
        if self.method in {"fp8", "deepseek_v4_fp8"}:
            match self.config.get("weight_block_size"):
                case [rows, columns]:
                    return (f"FP8 in blocks of {rows} x {columns}",)
            return ("FP8",)
        bits = self.config.get("bits", self.config.get("w_bit"))
        group = self.config.get("group_size", self.config.get("q_group_size"))
        return (f"INT{bits} in groups of {group}",) if bits else ()

    def targets(self, name: str) -> bool:
        """Whether a linear layer of that name in vLLM is in a group; lists are another matter."""
        groups = self.config.get("config_groups")
        if not isinstance(groups, dict):
            return True
        lists = [g.get("targets") for g in groups.values() if isinstance(g, dict)]
        named = {t for some in lists if isinstance(some, list) for t in some if isinstance(t, str)}
        return "Linear" in named or any(Entry(t, Matching.REGEX).those([name]) for t in named)

    def ignored(self) -> tuple[Ignored, ...]:
        lists = []
        for key, kind in _LISTS.get(self.method, ()):
            entries = self.config.get(key)
            if kind is Matching.DYNAMIC and isinstance(entries, dict):
                entries = [e for e in entries if e.startswith("-:")]
            if isinstance(entries, list) and entries:
                texts = tuple(e for e in entries if isinstance(e, str))
                lists.append(Ignored((*self.way, key), texts, kind))
        return tuple(lists)


def quantisation_of(checkpoint: Checkpoint) -> Quantisation | None:
    """Return the quantisation config of config.json, of its text model, or of ModelOpt's file."""
    for way, config in (
        ((), checkpoint.config),
        (("text_config",), checkpoint.config.get("text_config")),
    ):
        for key in _KEYS:
            inner = config.get(key) if isinstance(config, dict) else None
            if isinstance(inner, dict) and inner:
                return Quantisation((*way, key), inner)
    if checkpoint.modelopt is not None:
        return Quantisation((MODELOPT,), {"quant_method": "modelopt", **checkpoint.modelopt})
    return None


class Entry:
    """An entry of a list, made ready to be compared with many names."""

    def __init__(self, text: str, kind: Matching) -> None:
        self.text = text
        self.matching = kind
        self.fault: str | None = None
        self._pattern: str | None = None
        sign = {Matching.REGEX: "re:", Matching.DYNAMIC: "-:"}.get(kind)
        if sign is not None and text.startswith(sign):
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
                return matching(self._pattern, names)
            except PatternFaultError as error:
                self.fault = str(error)
                return []
        if self.matching is Matching.INSIDE:
            return [name for name in names if self.text in name]
        # Lists have thousands of names, and checkpoints tens of thousands of modules.
        return [self.text] if self.text in names else []


def _describe(weights: dict[str, JsonValue]) -> str:
    kind = {"int": "INT", "float": "FP"}.get(str(weights.get("type")), "")
    bits = weights.get("num_bits", "?")
    text = f"{kind}{bits}" if kind else f"{bits} bits"
    match weights.get("strategy"), weights.get("group_size"), weights.get("block_structure"):
        case "group", group, _:
            return f"{text} in groups of {group}"
        case "block", _, [rows, columns]:
            return f"{text} in blocks of {rows} x {columns}"
        case str(strategy), _, _:
            return f"{text} by {strategy}"
        case _:
            return text
