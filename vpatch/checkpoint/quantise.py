"""MTP layers quantised as their trunk is, in place."""

from __future__ import annotations

import copy
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from vpatch.checkpoint import writing
from vpatch.checkpoint.errors import CheckpointError
from vpatch.checkpoint.files import FolderFiles
from vpatch.checkpoint.folder import CONFIG, INDEX, MTP_SHARD, read_json
from vpatch.checkpoint.graft_plan import Taken, lost_keys, plan_graft
from vpatch.checkpoint.header import Shard, Tensor
from vpatch.checkpoint.inspection import inspect, inspect_checkpoint
from vpatch.checkpoint.quantise_plan import plan_quantise
from vpatch.checkpoint.shards import write_shard
from vpatch.checkpoint.switching import announce, changing, switch
from vpatch.util.extras import require

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from pydantic import JsonValue

    from vpatch.checkpoint.folder import Checkpoint
    from vpatch.checkpoint.inspection import Inspection
    from vpatch.checkpoint.quantise_plan import QuantisePlan
    from vpatch.checkpoint.quantiser import Quantiser
    from vpatch.progress import Progress

_SUFFIX = ".safetensors"


@dataclass(frozen=True)
class Quantised:
    """What was done.

    `modules` were quantised, and `floats` stay as they are. `formats` counts the modules by
    what their matrices are stored as now. `before` and `after` are the bytes of the modules.
    `shards` are new, and `superseded` were renamed to NAME.orig. `dropped` and `added` are
    entries of the config's lists. `grafted` are tensors of another checkpoint, and `keys` those of
    its config, that were restored at the same time. `library` is compressed-tensors' version.
    """

    modules: tuple[str, ...]
    floats: tuple[str, ...]
    formats: dict[str, int]
    before: int
    after: int
    shards: tuple[Path, ...]
    superseded: tuple[str, ...]
    dropped: tuple[str, ...]
    added: tuple[str, ...]
    grafted: tuple[str, ...]
    keys: tuple[str, ...]
    backup: Path | None
    library: str

    @property
    def changed(self) -> bool:
        return bool(self.shards)


def quantise_mtp(folder: Path, quantiser: Quantiser, progress: Progress) -> Quantised:
    """Quantise the MTP layers of a checkpoint in the format of its trunk.

    New shards are written first, under names that nothing leads to. Then config.json and the index
    are exchanged at one moment. A run that is killed leaves the old checkpoint or the new one.

    Raises:
        UsageError: there are no MTP layers, or the trunk's format cannot be written.
        CheckpointError: a file is damaged, or a module cannot be quantised.
    """
    with changing(folder):
        return _quantise(inspect(FolderFiles(folder)), quantiser, progress, {}, {})


def graft_quantised(
    target: Path, source: Path, quantiser: Quantiser, progress: Progress
) -> Quantised:
    """Take the MTP layers of another checkpoint, and quantise them in the target's format.

    Nothing is written between the two. The errors are those of `graft` and of `quantise_mtp`.
    """
    its = inspect(FolderFiles(source))
    with changing(target):
        mine = inspect(FolderFiles(target))
        own = {name.rpartition(".")[0] for name in mine.checkpoint.names()}
        taken = {
            one.name: one
            for one in plan_graft(mine, its, as_trunk=True)
            if one.name.rpartition(".")[0] not in own
        }
        keys = lost_keys(mine.checkpoint, its.checkpoint) if taken else {}
        grafted = _with_tensors(mine.checkpoint, taken.values(), keys)
        return _quantise(inspect_checkpoint(grafted), quantiser, progress, taken, keys)


def _with_tensors(
    checkpoint: Checkpoint, taken: Iterable[Taken], keys: dict[tuple[str, ...], Any]
) -> Checkpoint:
    """Return a checkpoint as a graft would make it. The tensors are where they are."""
    shards: dict[Path, Shard] = {}
    for one in taken:
        shard = shards.setdefault(one.shard.path, Shard(one.shard.path, one.shard.data, {}))
        shard.tensors[one.name] = one.tensor
    config = copy.deepcopy(checkpoint.config)
    writing.set_values(config, keys)
    every = (*checkpoint.shards, *shards.values())
    return replace(checkpoint, config=config, shards=every, missing={})


def _quantise(
    inspection: Inspection,
    quantiser: Quantiser,
    progress: Progress,
    taken: dict[str, Taken],
    keys: dict[tuple[str, ...], Any],
) -> Quantised:
    checkpoint = inspection.checkpoint
    folder = checkpoint.folder
    plan = plan_quantise(inspection, quantiser)
    if not plan.jobs and not taken:
        return Quantised((), plan.floats, {}, 0, 0, (), (), (), (), (), (), None, quantiser.version)
    jobs = {f"{job.module}.weight": job for job in plan.jobs}
    if any(o.dtype != o.tensor.dtype for o in taken.values() if o.name not in jobs):
        require("checkpoint", "a graft that converts tensors")
    mtp = set(inspection.mtp.names)
    own = [shard for shard in checkpoint.shards if shard.path.parent == folder]
    affected = [shard for shard in own if jobs.keys() & shard.tensors]
    home = writing.free_path(folder / MTP_SHARD)
    parts: dict[Path, list[Taken]] = {home: [taken[name] for name in taken if name not in jobs]}
    for shard in affected:
        for name, tensor in shard.tensors.items():
            if name not in jobs:
                rest = writing.free_path(folder / f"{shard.path.stem}-trunk{_SUFFIX}")
                path = home if name in mtp else rest
                parts.setdefault(path, []).append(Taken(name, shard, tensor, tensor.dtype))
    _check_after(inspection, plan)
    copy_of_config = writing.place_of_copy(folder / CONFIG).name
    announce(folder, [*(path.name for path in parts), copy_of_config, INDEX])
    if checkpoint.index is None:
        # Until the exchange, vLLM must not read shards that nothing leads to yet.
        writing.replace_json(folder / INDEX, _index(own, {}))
    written = [
        write_shard(path, copies, progress, plan.jobs if path == home else (), quantiser)
        for path, copies in parts.items()
    ]
    gone = {shard.path for shard in affected}
    remaining = [shard for shard in own if shard.path not in gone]
    index = _index([*remaining, *written], checkpoint.index or {})
    config = read_json(folder / CONFIG)
    writing.set_values(config, {**keys, **plan.lists})
    backup = writing.back_up(folder / CONFIG) if keys or plan.lists else None
    contents = {CONFIG: config, INDEX: index}
    documents = {name: writing.as_json(folder / name, one) for name, one in contents.items()}
    switch(folder, documents, [path.name for path in sorted(gone)])
    return Quantised(
        tuple(job.module for job in plan.jobs),
        plan.floats,
        dict(Counter(plan.formats[job.group] for job in plan.jobs)),
        sum(job.tensor.size for job in plan.jobs),
        sum(output.size for job in plan.jobs for output in job.outputs),
        tuple(shard.path for shard in written),
        tuple(path.name + writing.ORIGINAL for path in sorted(gone)),
        plan.dropped,
        plan.added,
        tuple(taken),
        tuple(".".join(way) for way in keys),
        backup,
        quantiser.version,
    )


def _check_after(inspection: Inspection, plan: QuantisePlan) -> None:
    """Check that vLLM will build the head as it is going to be stored."""
    gone = {f"{job.module}.weight" for job in plan.jobs}
    shards = [
        Shard(one.path, one.data, {n: t for n, t in one.tensors.items() if n not in gone})
        for one in inspection.checkpoint.shards
    ]
    tensors = {
        one.name: Tensor(one.dtype, one.shape, 0, one.size) for j in plan.jobs for one in j.outputs
    }
    config = copy.deepcopy(inspection.checkpoint.config)
    writing.set_values(config, plan.lists)
    new = Shard(inspection.checkpoint.folder / MTP_SHARD, 0, tensors)
    after = inspect_checkpoint(
        replace(inspection.checkpoint, config=config, shards=(*shards, new), absent=())
    )
    names = after.run_time_names
    for module in after.built_quantised():
        raise _differs(inspection, f"{names[module]} quantised, and {module} stays unquantised")
    for job in plan.jobs:
        if names[job.module] in after.unquantised.always:
            raise _differs(inspection, f"{names[job.module]} unquantised: a list leaves it out")


def _differs(inspection: Inspection, what: str) -> CheckpointError:
    return CheckpointError(
        f"vLLM would build {what}",
        where=str(inspection.checkpoint.folder),
        hint="correct the lists of config.json: see vpatch checkpoint ignore-names",
        code="checkpoint.cannot-convert",
    )


def _index(shards: Sequence[Shard], document: dict[str, JsonValue]) -> dict[str, JsonValue]:
    names = {name: shard for shard in shards for name in shard.tensors}
    metadata = document.get("metadata")
    size = sum(shard.tensors[name].size for name, shard in names.items())
    return {
        **document,
        "metadata": {**(metadata if isinstance(metadata, dict) else {}), "total_size": size},
        "weight_map": {name: names[name].path.name for name in sorted(names)},
    }
