"""MTP tensors that a conversion dropped, taken from the original checkpoint."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vpatch.checkpoint.errors import CheckpointError, CheckpointUnavailableError
from vpatch.checkpoint.files import FolderFiles
from vpatch.checkpoint.folder import CONFIG, INDEX, open_checkpoint, read_json
from vpatch.checkpoint.graft_plan import lost_keys, plan_graft
from vpatch.checkpoint.inspection import inspect
from vpatch.checkpoint.shards import digest, pieces, read, write_shard
from vpatch.checkpoint.switching import settle
from vpatch.checkpoint.writing import alone_in, back_up, replace_json
from vpatch.util.extras import require

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from vpatch.checkpoint.folder import Checkpoint
    from vpatch.checkpoint.graft_plan import Taken
    from vpatch.checkpoint.header import Shard, Tensor
    from vpatch.progress import Progress, Task

SHARD = "model-mtp.safetensors"


@dataclass(frozen=True)
class Grafted:
    """What was done. `written` and `there`: names of tensors; `size` is the bytes of `written`.

    `converted` counts tensors by their dtypes before and after. `keys` are those of the config
    that were lost. `backup` is a copy of the config from before, where that was changed.
    """

    written: tuple[str, ...]
    there: tuple[str, ...]
    size: int
    shard: Path | None
    converted: dict[tuple[str, str], int]
    keys: tuple[str, ...]
    backup: Path | None
    index: bool

    @property
    def changed(self) -> bool:
        return bool(self.written or self.keys or self.index)


def graft(target: Path, source: Path, *, as_trunk: bool, progress: Progress) -> Grafted:
    """Give a checkpoint the MTP tensors of another: a new shard, the config's keys, the index.

    Each file is written beside and renamed, the index last, so that a killed run leaves a
    checkpoint without them, and a second run does what is left to do.

    Raises:
        UsageError: the two do not belong together, or one is not a checkpoint.
        UnavailableError: a tensor must be converted, and the extra `checkpoint` is not installed.
        CheckpointError: a file is damaged, a tensor cannot be converted, or the target has another
            tensor under the same name; or what was written does not read back as it should.
    """
    its = inspect(FolderFiles(source))
    with alone_in(target):
        settle(target)
        mine = inspect(FolderFiles(target))
        taken = plan_graft(mine, its, as_trunk=as_trunk)
        if any(one.dtype != one.tensor.dtype for one in taken):
            require("checkpoint", "a graft that converts tensors")
        present = {name: (shard, tensor) for name, tensor, shard in mine.checkpoint.tensors()}
        there = [one for one in taken if one.name in present]
        if there:
            task = progress.start("Comparing what is there", total=sum(o.size for o in there))
            for one in there:
                _check_equal(one, *present[one.name], task)
            task.done()
        new = [one for one in taken if one.name not in present]
        path = _free_name(mine.checkpoint) if new else None
        if path is not None:
            write_shard(path, new, progress)
        keys = lost_keys(mine.checkpoint, its.checkpoint)
        backup = _write_config(target, keys) if keys else None
        index = bool(new) or (mine.checkpoint.index is None and len(mine.checkpoint.shards) > 1)
        if index:
            _write_index(mine.checkpoint, path, new)
        _read_back(target, taken)
    return Grafted(
        tuple(one.name for one in new),
        tuple(one.name for one in there),
        sum(one.size for one in new),
        path,
        dict(Counter((o.tensor.dtype, o.dtype) for o in new if o.tensor.dtype != o.dtype)),
        tuple(".".join(way) for way in keys),
        backup,
        index,
    )


def _check_equal(one: Taken, shard: Shard, tensor: Tensor, task: Task) -> None:
    same = (tensor.dtype, tensor.shape) == (one.dtype, one.tensor.shape)
    if same and digest(read(shard, tensor), task) == digest(pieces(one)):
        return
    what = "another value" if same else f"{tensor.dtype}{list(tensor.shape)}"
    raise CheckpointError(
        f"{one.name} is there already, with {what}, and would be {one.dtype}"
        f"{list(one.tensor.shape)}",
        where=str(shard.path),
        hint="graft with the same --as as before, or remove these tensors first",
        code="checkpoint.graft-conflict",
    )


def _free_name(checkpoint: Checkpoint) -> Path:
    """Return where the new shard goes: where a killed run left one, or where there is none."""
    used = {shard.path.name for shard in checkpoint.shards}
    number = 1
    while (name := SHARD if number == 1 else f"model-mtp-{number}.safetensors") in used:
        number += 1
    return checkpoint.folder / name


def _write_config(folder: Path, keys: dict[tuple[str, ...], Any]) -> Path:
    config = read_json(folder / CONFIG)
    backup = back_up(folder / CONFIG)
    for way, value in keys.items():
        inner = config
        for key in way[:-1]:
            inner = inner[key]
        inner[way[-1]] = value
    replace_json(folder / CONFIG, config)
    return backup


def _write_index(checkpoint: Checkpoint, path: Path | None, new: Sequence[Taken]) -> None:
    sizes = {name: tensor.size for name, tensor, _ in checkpoint.tensors()}
    document = checkpoint.index or {
        "metadata": {"total_size": 0},
        "weight_map": {name: shard.path.name for name, _, shard in checkpoint.tensors()},
    }
    if path is not None:
        document["weight_map"].update(dict.fromkeys(sorted(o.name for o in new), path.name))
        sizes |= {one.name: one.size for one in new}
    if isinstance(document.get("metadata"), dict):
        document["metadata"]["total_size"] = sum(sizes.values())
    replace_json(checkpoint.folder / INDEX, document)


def _read_back(target: Path, taken: Sequence[Taken]) -> None:
    after = open_checkpoint(target)
    lacking = {one.name for one in taken} - after.names()
    if lacking or after.missing:
        raise CheckpointUnavailableError(
            f"the index does not list {min(lacking or set(after.missing))} although it was written",
            where=str(target / INDEX),
            hint="find out who else writes to the checkpoint",
            code="checkpoint.in-use",
        )
