"""What a config says about quantisation: the method, and the modules that are left out of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.checkpoint.folder import CONFIG, MODELOPT, MODELSLIM
from vpatch.checkpoint.list_entry import Entry, Matching
from vpatch.checkpoint.methods import (
    FLOAT_BITS,
    METHODS,
    MIXED,
    MODELSLIM_METHOD,
    WITH_OWN_MATCHING,
)
from vpatch.checkpoint.modules import experts_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic import JsonValue

    from vpatch.checkpoint.folder import Checkpoint
    from vpatch.checkpoint.methods import ListKey, Method

_KEYS = ("quantization_config", "compression_config")
_FLOAT = "FLOAT"


@dataclass(frozen=True)
class Ignored:
    """One list of modules that are not quantised: where it is, its entries, and how they match."""

    way: tuple[str, ...]
    entries: tuple[str, ...]
    matching: Matching

    @property
    def where(self) -> str:
        return ".".join(self.way)

    @property
    def file(self) -> str:
        """The file that it is in."""
        return self.way[0] if self.way[0].endswith(".json") else CONFIG

    @property
    def keys(self) -> tuple[str, ...]:
        """The way to it in its file."""
        return self.way if self.file == CONFIG else self.way[1:]


@dataclass(frozen=True)
class Quantisation:
    """The quantisation config, with the way to it in config.json, or the file that it is.

    `architecture` is the model that has it.
    """

    way: tuple[str, ...]
    config: dict[str, JsonValue]
    architecture: str | None = None

    @property
    def method(self) -> str:
        """Its name, spelt as vLLM spells it."""
        named = str(self.config.get("quant_method", "not named")).lower()
        return named.replace("compressed_tensors", "compressed-tensors")

    @property
    def algorithm(self) -> str | None:
        """What a config of ModelOpt says that it did, such as NVFP4."""
        algorithm = self._own.get("quant_algo")
        return algorithm.upper() if isinstance(algorithm, str) else None

    @property
    def reading(self) -> Method | None:
        """How vLLM reads this method's config; None where vpatch does not know it."""
        has_own = self.method == "fp8" and self.architecture in WITH_OWN_MATCHING
        return None if has_own else METHODS.get(self.method)

    @property
    def understood(self) -> bool:
        """Whether it is known how vLLM matches what this method leaves out."""
        return self.reading is not None

    @property
    def is_mixed(self) -> bool:
        """Whether it has ModelOpt's table of algorithms, in which each layer has its own."""
        return self.method.startswith("modelopt") and self.algorithm == MIXED

    @property
    def layer_algorithms(self) -> dict[str, str]:
        """The algorithm of each entry of that table."""
        table = self._own.get("quantized_layers")
        layers = table.items() if isinstance(table, dict) else ()
        pairs = ((name, one.get("quant_algo")) for name, one in layers if isinstance(one, dict))
        return {name: kind.upper() for name, kind in pairs if isinstance(kind, str)}

    @property
    def by_tensors(self) -> bool:
        """Whether vLLM takes from the tensors' dtypes which modules are quantised."""
        measured = self.reading.measured if self.reading else None
        return measured is not None and not self.config.get(measured)

    @property
    def blocks(self) -> tuple[str, ...]:
        """The beginnings of the names that auto-round quantises, where it says so."""
        named = self.config.get("block_name_to_quantize")
        blocks = named.split(",") if isinstance(named, str) else named
        if self.method not in {"auto-round", "inc"} or not isinstance(blocks, list):
            return ()
        return tuple(block for block in blocks if isinstance(block, str))

    @property
    def parts_to_quantise(self) -> tuple[str, ...]:
        """What is in the names of all modules that gptq quantises, where it says so."""
        named = self.config.get("modules_in_block_to_quantize")
        if self.method not in {"gptq", "gptq_marlin", "auto_gptq"} or not isinstance(named, list):
            return ()
        flat = [part for one in named for part in (one if isinstance(one, list) else [one])]
        return tuple(part for part in flat if isinstance(part, str))

    @property
    def chosen(self) -> str | None:
        """The key that names what is quantised, where the config has one."""
        if self.is_mixed:
            return ".".join((*self.way, *self._inside, "quantized_layers"))
        if self.blocks:
            return ".".join((*self.way, "block_name_to_quantize"))
        if self.parts_to_quantise:
            return ".".join((*self.way, "modules_in_block_to_quantize"))
        return None

    @property
    def _own(self) -> dict[str, JsonValue]:
        """The part of a config of ModelOpt that its older files have inside."""
        inner = self.config.get("quantization")
        return inner if isinstance(inner, dict) else self.config

    @property
    def _inside(self) -> tuple[str, ...]:
        """The way to that part."""
        return () if self._own is self.config else ("quantization",)

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
        if self.algorithm is not None:
            return (self._describe_algorithm(self.algorithm),)
        if self.method == MODELSLIM_METHOD:
            kinds = {kind for _, kind in self._table() if kind != _FLOAT}
            return tuple(sorted(kinds))
        bits = self.config.get("bits", self.config.get("w_bit"))
        group = self.config.get("group_size", self.config.get("q_group_size"))
        return (f"INT{bits} in groups of {group}",) if bits else ()

    def _describe_algorithm(self, algorithm: str) -> str:
        if self.is_mixed:
            kinds = sorted(set(self.layer_algorithms.values()))
            return f"{algorithm} ({', '.join(kinds) or 'of no layer'})"
        size = self._own.get("group_size")
        return f"{algorithm} in groups of {size}" if size else algorithm

    def quantises(self, name: str) -> bool:
        """Whether the method is for a layer of this kind: of experts, or a linear one."""
        if self.reading is None:
            return False
        return self.reading.linear if experts_of(name) is None else self.reading.experts

    def target_names(self) -> set[str]:
        """Return what the groups of compressed-tensors are for."""
        groups = self.config.get("config_groups")
        inner = groups.values() if isinstance(groups, dict) else ()
        lists = [one.get("targets") for one in inner if isinstance(one, dict)]
        return {t for some in lists if isinstance(some, list) for t in some if isinstance(t, str)}

    def targets(self, *names: str) -> bool:
        """Whether a layer with one of these names is in a group; lists are another matter.

        `names` are that in vLLM, and those of what it is made of. A target that is a word is for a
        class of layers, such as Linear, and here for each layer.
        """
        named = self.target_names()
        if self.method != "compressed-tensors" or not named:
            return True
        if any("." not in one and not one.startswith("re:") for one in named):
            return True
        return any(Entry(one, Matching.REGEX).those(names) for one in named)

    def ignored(self) -> tuple[Ignored, ...]:
        """The lists of what is left out, without those that leave out nothing."""
        lists = self.reading.lists if self.reading else ()
        named = (self._ignored(one) for one in lists)
        return tuple(one for one in named if one is not None and one.entries)

    def list_keys(self) -> list[tuple[tuple[str, ...], Matching]]:
        """Return where a list of what is left out is, or would be, and how it matches."""
        there = [(one.way, one.matching) for one in self.ignored()]
        inner = self._inside
        lists = self.reading.lists if self.reading else ()
        # ModelOpt's older files have the second key inside.
        return there or [
            ((*self.way, *inner, one.keys[-1] if inner else one.keys[0]), one.matching)
            for one in lists
            if one.keys
        ]

    def _ignored(self, key: ListKey) -> Ignored | None:
        if key.matching is Matching.TABLE:
            floats = tuple(name for name, kind in self._table() if kind == _FLOAT)
            return Ignored(self.way, floats, key.matching)
        # vLLM takes the first key of ModelOpt's that is there, and the first list of fp8's.
        named = next((name for name in key.keys if self._own.get(name)), None)
        if named is None:
            return None
        entries = tuple(_entries(key, self._own[named]))
        return Ignored((*self.way, *self._inside, named), entries, key.matching)

    def _table(self) -> Iterator[tuple[str, str]]:
        """Return the format of each tensor of ModelSlim's table."""
        for name, kind in self.config.items():
            if isinstance(kind, str) and name.endswith(".weight"):
                yield name, kind


def _entries(key: ListKey, value: JsonValue) -> Iterator[str]:
    if isinstance(value, list):
        texts = (one for one in value if isinstance(one, str))
        yield from (one for one in texts if key.patterns in {None, one.startswith("re:")})
        return
    for name, options in value.items() if isinstance(value, dict) else ():
        if key.matching is Matching.DYNAMIC and name.startswith("-:"):
            yield name
        elif key.matching is Matching.CONFIGURED and isinstance(options, dict):
            bits = options.get("bits")
            if isinstance(bits, int) and bits >= FLOAT_BITS:
                yield name


def quantisation_of(checkpoint: Checkpoint) -> Quantisation | None:
    """Return the quantisation config of config.json, of its text model, or of a file of its own."""
    for way, config in (
        ((), checkpoint.config),
        (("text_config",), checkpoint.config.get("text_config")),
        # _CONFIG_ATTRS_MAPPING of transformers_utils/config.py
        (("llm_config",), checkpoint.config.get("llm_config")),
    ):
        for key in _KEYS:
            inner = config.get(key) if isinstance(config, dict) else None
            if isinstance(inner, dict) and inner:
                return Quantisation((*way, key), inner, checkpoint.architecture)
    if checkpoint.modelopt is not None:
        return Quantisation((MODELOPT,), {"quant_method": "modelopt", **checkpoint.modelopt})
    if checkpoint.modelslim is not None:
        return Quantisation(
            (MODELSLIM,), {"quant_method": MODELSLIM_METHOD, **checkpoint.modelslim}
        )
    return None


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
