"""A checkpoint, looked at: all that its headers tell, before anybody has an opinion."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from vpatch.checkpoint.drafts import draft_of
from vpatch.checkpoint.expectation import MATRICES, LeftOut, left_out_modules
from vpatch.checkpoint.folder import read_checkpoint
from vpatch.checkpoint.fused import naming_of, run_time_modules
from vpatch.checkpoint.ignore import judge
from vpatch.checkpoint.modules import (
    FLOATS,
    LINEAR_LAYERS,
    experts_of,
    inside_layer,
    modules_of,
    split_name,
)
from vpatch.checkpoint.mtp import find_mtp
from vpatch.checkpoint.quantisation import quantisation_of
from vpatch.checkpoint.schemes import TRUNK

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vpatch.checkpoint.drafts import CheckpointDraft
    from vpatch.checkpoint.files import Files
    from vpatch.checkpoint.folder import Checkpoint
    from vpatch.checkpoint.fused import RunTime
    from vpatch.checkpoint.ignore import JudgedList
    from vpatch.checkpoint.modules import Module
    from vpatch.checkpoint.mtp import Mtp
    from vpatch.checkpoint.quantisation import Quantisation

_GPTQ = ("gptq", "gptq_marlin", "auto_gptq")


@dataclass(frozen=True)
class Amount:
    """How many tensors, and how many bytes they have together."""

    tensors: int
    size: int


@dataclass(frozen=True)
class Inspection:
    checkpoint: Checkpoint
    modules: dict[str, Module]
    mtp: Mtp
    quantisation: Quantisation | None
    judged: tuple[JudgedList, ...]
    draft: CheckpointDraft | None = None

    @cached_property
    def by_dtype(self) -> dict[str, Amount]:
        """The tensors of each dtype, the most bytes first."""
        return _amounts((tensor.dtype, tensor.size) for _, tensor, _ in self.checkpoint.tensors())

    @cached_property
    def run_time(self) -> dict[str, RunTime]:
        """What each module on disk that has a matrix becomes in vLLM, or becomes a part of."""
        disk = [name for name, module in self.modules.items() if module.format is not None]
        run_time = run_time_modules(self.checkpoint, self.mtp, disk)
        return {name: one for one in run_time for name in one.disk}

    @cached_property
    def run_time_names(self) -> dict[str, str]:
        """What vLLM calls the module that each one on disk becomes, or becomes a part of."""
        return {name: one.name for name, one in self.run_time.items()}

    @cached_property
    def mtp_modules(self) -> dict[str, Module]:
        own = {split_name(name)[0] for name in self.mtp.names}
        return {name: module for name, module in self.modules.items() if name in own}

    @cached_property
    def trunk_formats(self) -> dict[str, Counter[str]]:
        """The formats of each matrix inside a trunk layer, by its name there."""
        formats: dict[str, Counter[str]] = defaultdict(Counter)
        for name, module in self.modules.items():
            inner = inside_layer(TRUNK, name)
            if inner is not None and module.format and name not in self.mtp_modules:
                formats[inner][module.format] += 1
        return formats

    def formats(self, *, mtp: bool) -> dict[str, Amount]:
        """The formats of matrices in MTP layers, or in the trunk's, the most bytes first."""
        return _amounts(
            (module.format, sum(tensor.size for tensor in module.tensors.values()))
            for name, module in self.modules.items()
            if module.format and (name in self.mtp_modules) is mtp and (mtp or TRUNK.match(name))
        )

    @cached_property
    def unquantised(self) -> LeftOut:
        """What vLLM leaves unquantised by the config, by the names in vLLM."""
        if self.quantisation is None:
            return LeftOut(frozenset(), frozenset())
        naming = naming_of(self.checkpoint.architecture)
        modules = dict.fromkeys(self.run_time.values())
        return left_out_modules(self.quantisation, naming, modules)

    def built_quantised(self) -> list[str]:
        """Name unquantised modules of MTP layers that vLLM will build quantised.

        They are those that are quantised in every trunk layer, and the projections that join a
        layer to the trunk where vLLM builds these by the config. What the config leaves out in any
        release is not among them, and nothing is where vLLM goes by the tensors' dtypes. GPTQ does
        not for experts: `get_moe_quant_method` asks for `dynamic` alone.
        """
        quantisation = self.quantisation
        if quantisation is None:
            return []
        experts_alone = quantisation.by_tensors
        if experts_alone and quantisation.method not in _GPTQ:
            return []
        return [
            name
            for name, module in self.mtp_modules.items()
            if module.format in FLOATS
            and name in self.run_time_names
            and (not experts_alone or experts_of(name) is not None)
            and quantisation.quantises(name)
            and self.run_time_names[name] not in self.unquantised.ever
            and self.is_targeted(name, quantisation)
            and self._is_covered(name, quantisation)
        ]

    def is_targeted(self, name: str, quantisation: Quantisation) -> bool:
        """Whether a group of the config is for a module, under any of its names."""
        one = self.run_time[name]
        # vLLM asks for the matrices of the first expert, however they are stored.
        layers = {experts_of(each) for each in (one.name, *one.disk)} - {None}
        first = (f"{layer}.0.{matrix}" for layer in layers for matrix in MATRICES)
        return quantisation.targets(one.name, *one.parts, *one.disk, *first)

    def leaves_out_head(self) -> bool:
        """Whether the config says of a linear layer of the MTP head that it is unquantised."""
        names = [
            self.run_time_names[name]
            for name, module in self.mtp_modules.items()
            if module.format in FLOATS and name in self.run_time_names
        ]
        return bool(self.unquantised.always.intersection(names))

    def has_dspark_parts(self, draft: CheckpointDraft) -> bool:
        """Whether the stages have what joins them to the trunk, and what chooses the tokens."""
        first, last = f"mtp.{draft.stages[0]}.main_proj.", f"mtp.{draft.stages[-1]}.markov_head."
        names = self.checkpoint.every_name()
        return all(any(name.startswith(start) for name in names) for start in (first, last))

    @property
    def in_config(self) -> bool:
        """Whether config.json says how it is quantised, and not another file."""
        return self.quantisation is not None and not self.quantisation.way[0].endswith(".json")

    def _is_covered(self, name: str, quantisation: Quantisation) -> bool:
        scheme = self.mtp.scheme
        last = name.rpartition(".")[2]
        if scheme is not None and last in scheme.configured:
            by_four = "FP4" in (quantisation.algorithm or "")
            return not (by_four and last in scheme.not_by_modelopt)
        if scheme is not None and (experts := experts_of(name)) is not None:
            # They may be one by one in the trunk, and in one tensor here.
            layer = inside_layer(scheme.layer, experts)
            formats = self._trunk_experts.get(layer or "")
            return bool(formats) and not any(kind in FLOATS for kind in formats or ())
        inner = inside_layer(scheme.layer, name) if scheme else None
        if inner is None or inner not in self.trunk_formats:
            return False
        if not any(kind in FLOATS for kind in self.trunk_formats[inner]):
            return True
        # Where a list names each layer of the trunk, it may have forgotten the head.
        return last in LINEAR_LAYERS and self._trunk_floats[inner] <= self.unquantised.always

    @cached_property
    def _trunk_experts(self) -> dict[str, set[str]]:
        """The formats of experts in the trunk, by the layer that has them, inside a trunk layer."""
        formats: dict[str, set[str]] = defaultdict(set)
        for name, module in self.modules.items():
            layer = inside_layer(TRUNK, experts_of(name) or "")
            if layer is not None and module.format and name not in self.mtp_modules:
                formats[layer].add(module.format)
        return formats

    @cached_property
    def _trunk_floats(self) -> dict[str, set[str]]:
        """The unquantised modules of the trunk, by their names inside a layer."""
        floats: dict[str, set[str]] = defaultdict(set)
        for name, module in self.modules.items():
            inner = inside_layer(TRUNK, name)
            if inner is not None and module.format in FLOATS and name not in self.mtp_modules:
                floats[inner].add(self.run_time_names[name])
        return floats


def _amounts(sizes: Iterable[tuple[str, int]]) -> dict[str, Amount]:
    """Count what is of each kind, and add up its bytes; the most bytes first."""
    counts: Counter[str] = Counter()
    totals: Counter[str] = Counter()
    for kind, size in sizes:
        counts[kind] += 1
        totals[kind] += size
    return {kind: Amount(counts[kind], total) for kind, total in totals.most_common()}


def inspect(files: Files) -> Inspection:
    """Read what there is to read; no tensor is.

    Raises:
        VpatchError: what is there is no checkpoint, or a damaged one.
    """
    return inspect_checkpoint(read_checkpoint(files))


def inspect_checkpoint(checkpoint: Checkpoint) -> Inspection:
    """Look at what was read, or at what a checkpoint shall become."""
    modules = modules_of(checkpoint)
    mtp = find_mtp(checkpoint, modules)
    quantisation = quantisation_of(checkpoint)
    lists = quantisation.ignored() if quantisation else ()
    judged = tuple(judge(checkpoint, mtp, modules, one) for one in lists)
    return Inspection(checkpoint, modules, mtp, quantisation, judged, draft_of(checkpoint))
