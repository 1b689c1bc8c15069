"""Which modules of MTP layers are quantised, and how: decided before a byte is written."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from vpatch.checkpoint.errors import CheckpointError, CheckpointUnavailableError
from vpatch.checkpoint.fused import naming_of
from vpatch.checkpoint.modules import FLOATS, any_expert, inside_layer
from vpatch.checkpoint.quantiser import Job
from vpatch.checkpoint.schemes import TRUNK
from vpatch.checkpoint.trunk_format import trunk_format
from vpatch.checkpoint.writing import holder_of
from vpatch.errors import UsageError

if TYPE_CHECKING:
    from vpatch.checkpoint.header import Shard, Tensor
    from vpatch.checkpoint.ignore import Judged
    from vpatch.checkpoint.inspection import Inspection
    from vpatch.checkpoint.modules import Module
    from vpatch.checkpoint.quantiser import GroupMatch, Quantiser

_MATRIX = 2
# vLLM never quantises these in an MTP layer, or shares them with the trunk.
_SHARED = ("embed_tokens", "emb", "head", "lm_head")


@dataclass(frozen=True)
class QuantisePlan:
    """What is quantised.

    `lists` are the config's lists of unquantised modules that change, by the way to each;
    `dropped` are entries that go, and `added` those that come. `floats` stay unquantised.
    `formats` has compressed-tensors' format of each group.
    """

    jobs: tuple[Job, ...]
    formats: dict[str, str]
    lists: dict[tuple[str, ...], list[Any]]
    dropped: tuple[str, ...]
    added: tuple[str, ...]
    floats: tuple[str, ...]


def plan_quantise(inspection: Inspection, quantiser: Quantiser) -> QuantisePlan:
    """Choose the unquantised modules of MTP layers that the trunk's config covers.

    A module is quantised if vLLM builds it by the config, a target of the config names it, and its
    like in the trunk is quantised. An entry that leaves out nothing but MTP layers is dropped if
    it leaves out such a module.

    Raises:
        UsageError: there are no MTP layers, or the trunk's format cannot be written.
        CheckpointError: a module does not fit the format.
    """
    _check_head(inspection)
    return _Planner(inspection, quantiser).plan()


class _Planner:
    def __init__(self, inspection: Inspection, quantiser: Quantiser) -> None:
        self._inspection = inspection
        self._quantiser = quantiser
        self._where = str(inspection.checkpoint.folder)
        self._format = trunk_format(inspection)
        try:
            self._formats = quantiser.schemes(self._format.groups, self._format.kind)
        except CheckpointUnavailableError:
            raise
        except CheckpointError as error:
            raise UsageError(
                f"compressed-tensors {quantiser.version} does not write its format: {error.what}",
                where=self._where,
                hint="give --engine a Python with a newer vLLM, or leave the MTP layers out",
                code="checkpoint.unsupported-format",
            ) from error
        self._twins = self._find_twins()
        self._run = inspection.run_time

    def plan(self) -> QuantisePlan:
        candidates = [name for name in self._inspection.mtp_modules if self._is_candidate(name)]
        entries, dropped = self._remaining_entries(candidates)
        matches = self._match(candidates, entries)
        chosen = {
            name: match.group
            for name in candidates
            if (match := matches[name]).group is not None
            and not match.ignored
            and (name not in self._twins or self._twins[name].quantised)
        }
        self._check_fused(chosen)
        # The trunk's list has the like of these, which vLLM would build quantised here.
        exempt = [
            name
            for name in candidates
            if matches[name].group is not None
            and not matches[name].ignored
            and name not in chosen
            and matches[self._twins[name].name].ignored
        ]
        added = [n for name in exempt for n in dict.fromkeys((self._run[name].name, name))]
        jobs = [self._job(name, group, matches) for name, group in chosen.items()]
        layouts = self._quantiser.layout(jobs)
        jobs = [replace(job, outputs=outputs) for job, outputs in zip(jobs, layouts, strict=True)]
        for job in jobs:
            self._check_like_trunk(job)
        return QuantisePlan(
            tuple(jobs),
            self._formats,
            self._changed_lists(entries, added) if dropped or added else {},
            tuple(dropped),
            tuple(added),
            tuple(name for name in candidates if name not in chosen),
        )

    def _find_twins(self) -> dict[str, Module]:
        """Return what has a module's name in a trunk layer, a quantised one if there is any."""
        trunk: dict[str, Module] = {}
        mtp = self._inspection.mtp_modules
        for name, module in self._inspection.modules.items():
            inner = inside_layer(TRUNK, name)
            if inner is None or not module.format or name in mtp:
                continue
            if inner not in trunk or (module.quantised and not trunk[inner].quantised):
                trunk[inner] = module
        scheme = self._inspection.mtp.scheme
        twins = {}
        for name in mtp:
            inner = inside_layer(scheme.layer, name) if scheme else None
            twins[name] = trunk.get(any_expert(name) if inner is None else inner)
        return {name: twin for name, twin in twins.items() if twin is not None}

    def _is_candidate(self, name: str) -> bool:
        """Whether it has an unquantised matrix, and vLLM builds it by the config."""
        module, scheme = self._inspection.modules[name], self._inspection.mtp.scheme
        last = name.rpartition(".")[2]
        if module.format not in FLOATS or last in _SHARED or scheme is None:
            return False
        if len(module.tensors["weight"].shape) != _MATRIX:
            return False
        return last not in scheme.glue or last in scheme.configured

    def _remaining_entries(
        self, candidates: list[str]
    ) -> tuple[dict[tuple[str, ...], list[Any]], list[str]]:
        """Return the lists of the config without the entries that are about MTP layers alone."""
        wanted = {n for n in candidates if n in self._twins and self._twins[n].quantised}
        entries: dict[tuple[str, ...], list[Any]] = {}
        dropped: list[str] = []
        for judged in self._inspection.judged:
            gone = {one.entry for one in judged.entries if self._is_about(one, wanted)}
            dropped += [one.entry for one in judged.entries if one.entry in gone]
            now = self._value(judged.ignored.way)
            entries[judged.ignored.way] = [
                one for one in now if not isinstance(one, str) or one not in gone
            ]
        return entries, dropped

    def _is_about(self, entry: Judged, wanted: set[str]) -> bool:
        mtp = set(self._inspection.mtp_modules)
        run = {self._run[name].name for name in mtp if name in self._run}
        hits = set(entry.disk) | {
            name for one in entry.run for name in mtp if name in self._run
            if self._run[name].name == one
        }  # fmt: skip
        return mtp.issuperset(entry.disk) and run.issuperset(entry.run) and bool(hits & wanted)

    def _match(
        self, candidates: list[str], entries: dict[tuple[str, ...], list[Any]]
    ) -> dict[str, GroupMatch]:
        twins = {self._twins[name].name for name in candidates if name in self._twins}
        names = [*candidates, *sorted(twins)]
        ignore = [one for values in entries.values() for one in values if isinstance(one, str)]
        matches = self._quantiser.match([self._names(name) for name in names], ignore)
        return dict(zip(names, matches, strict=True))

    def _names(self, name: str) -> list[str]:
        """Return all names by which a config may mean a module."""
        run = self._run[name]
        parts = [p for p, disk in zip(run.parts, run.disk, strict=False) if disk == name]
        return list(dict.fromkeys([run.name, *parts, name]))

    def _check_fused(self, chosen: dict[str, str]) -> None:
        for one in dict.fromkeys(self._run[name] for name in chosen):
            kinds = {chosen.get(name) for name in one.disk}
            if len(kinds) > 1:
                raise _cannot_convert(
                    self._where,
                    f"{', '.join(one.disk)} are one module in vLLM ({one.name}), and the config "
                    "would quantise only some of them, or each in another way",
                    hint="correct the lists of config.json: see vpatch checkpoint ignore-names",
                )

    def _job(self, name: str, group: str, matches: dict[str, GroupMatch]) -> Job:
        shard, tensor = self._weights[name]
        like = self._like(name, group, matches)
        own = self._format.renamed.get("weight_scale", "weight_scale")
        scale = like[own].dtype if own in like and like[own].dtype in FLOATS else tensor.dtype
        cast = {}
        if own in like and like[own].dtype == "F8_E8M0" and self._format.power_of_two:
            cast["weight_scale"] = "F8_E8M0"
        if "weight_shape" in like:
            cast["weight_shape"] = like["weight_shape"].dtype
        together: tuple[tuple[Shard, Tensor], ...] = ()
        match self._format.groups[group]["weights"]:
            case {"strategy": "tensor_group"}:
                together = tuple(self._weights[other] for other in self._partners(name))
        return Job(
            name, shard, tensor, group, scale, self._format.renamed, cast,
            self._format.power_of_two, together,
        )  # fmt: skip

    @cached_property
    def _weights(self) -> dict[str, tuple[Shard, Tensor]]:
        return {
            name.rpartition(".")[0]: (shard, tensor)
            for name, tensor, shard in self._inspection.checkpoint.tensors()
            if name.endswith(".weight") and name.rpartition(".")[0] in self._inspection.mtp_modules
        }

    def _like(self, name: str, group: str, matches: dict[str, GroupMatch]) -> dict[str, Tensor]:
        """Return the tensors of its like in the trunk, or of another module of its group."""
        twins = [self._twins[name]] if name in self._twins else list(self._twins.values())
        for twin in twins:
            if twin.quantised and twin.name in matches and matches[twin.name].group == group:
                return twin.tensors
        return {}

    def _partners(self, name: str) -> list[str]:
        """Return the other modules that become one with it in vLLM."""
        parent, _, last = name.rpartition(".")
        for fused in naming_of(self._inspection.checkpoint.architecture).fused:
            if last in fused.parts:
                names = [f"{parent}.{part}" for part in fused.parts if part != last]
                return [one for one in names if one in self._weights]
        return []

    def _check_like_trunk(self, job: Job) -> None:
        twin = self._twins.get(job.module)
        if twin is None:
            return
        dtypes = {one.name.rpartition(".")[2]: one.dtype for one in job.outputs}
        there = {name: t.dtype for name, t in twin.tensors.items() if name != "bias"}
        if dtypes != there:
            what = f"{job.module} would become {_list(dtypes)}, and {twin.name} has {_list(there)}"
            hint = "quantise it with the tool that quantised the trunk"
            raise _cannot_convert(self._where, what, hint=hint)

    def _changed_lists(
        self, entries: dict[tuple[str, ...], list[Any]], added: list[str]
    ) -> dict[tuple[str, ...], list[Any]]:
        if added:
            # They are only added for a list that has their like in the trunk.
            first = next(iter(entries))
            entries[first] += [name for name in added if name not in entries[first]]
        return {way: values for way, values in entries.items() if values != self._value(way)}

    def _value(self, way: tuple[str, ...]) -> list[Any]:
        return list(holder_of(self._inspection.checkpoint.config, way)[way[-1]])


def _check_head(inspection: Inspection) -> None:
    mtp, folder = inspection.mtp, str(inspection.checkpoint.folder)
    if mtp.scheme is None:
        raise UsageError(
            "it has no MTP tensors",
            where=folder,
            hint=f"vpatch checkpoint graft-mtp {folder} --from ORIGINAL",
            code="checkpoint.no-mtp",
        )
    if inspection.checkpoint.missing:
        raise CheckpointError(
            f"shards are missing: {', '.join(list(inspection.checkpoint.missing)[:4])}",
            where=folder,
            hint="fetch them",
            code="checkpoint.incomplete",
        )
    own = set(mtp.names)
    for name, tensor, _ in inspection.checkpoint.tensors():
        if name in own and len(tensor.shape) > _MATRIX and ".experts." in name:
            raise _cannot_convert(
                folder,
                f"{name} has all experts in one tensor, {list(tensor.shape)}, and a quantised "
                "trunk has a module for each expert",
                hint="split it into one matrix for each expert first",
            )


def _cannot_convert(where: str, what: str, *, hint: str) -> CheckpointError:
    return CheckpointError(what, where=where, hint=hint, code="checkpoint.cannot-convert")


def _list(kinds: dict[str, str]) -> str:
    return ", ".join(f"{name} {dtype}" for name, dtype in sorted(kinds.items()))
