"""A checkpoint, looked at: all that its headers tell, before anybody has an opinion."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from vpatch.checkpoint.folder import read_checkpoint
from vpatch.checkpoint.fused import run_time_modules
from vpatch.checkpoint.ignore import judge, left_out
from vpatch.checkpoint.modules import FLOATS, inside_layer, modules_of
from vpatch.checkpoint.mtp import find_mtp
from vpatch.checkpoint.quantisation import quantisation_of
from vpatch.checkpoint.schemes import TRUNK

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vpatch.checkpoint.files import Files
    from vpatch.checkpoint.folder import Checkpoint
    from vpatch.checkpoint.fused import RunTime
    from vpatch.checkpoint.ignore import JudgedList
    from vpatch.checkpoint.modules import Module
    from vpatch.checkpoint.mtp import Mtp
    from vpatch.checkpoint.quantisation import Quantisation


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

    @cached_property
    def by_dtype(self) -> dict[str, Amount]:
        """The tensors of each dtype, the most bytes first."""
        return _amounts((tensor.dtype, tensor.size) for _, tensor, _ in self.checkpoint.tensors())

    @cached_property
    def left_out(self) -> set[str]:
        """Modules that the quantisation config leaves out, by their names in vLLM."""
        return left_out(self.judged)

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
        own = {name.rpartition(".")[0] for name in self.mtp.names}
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

    def built_quantised(self) -> list[str]:
        """Name unquantised modules of MTP layers that vLLM will build quantised.

        They are those that are quantised in every trunk layer, and the projections that join a
        layer to the trunk where vLLM builds these by the config. Modules that the config leaves out
        by their names in vLLM are not among them.
        """
        if self.quantisation is None or not self.quantisation.understood:
            return []
        return [
            name
            for name, module in self.mtp_modules.items()
            if module.format in FLOATS
            and self.run_time_names.get(name) not in self.left_out
            and self._is_covered(name)
        ]

    def _is_covered(self, name: str) -> bool:
        scheme = self.mtp.scheme
        if scheme is not None and name.rpartition(".")[2] in scheme.configured:
            return self.quantisation is not None and self.quantisation.targets(
                self.run_time_names[name]
            )
        inner = inside_layer(scheme.layer, name) if scheme else None
        formats = () if inner is None else self.trunk_formats.get(inner, ())
        return bool(formats) and not any(kind in FLOATS for kind in formats)


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
    return Inspection(checkpoint, modules, mtp, quantisation, judged)
