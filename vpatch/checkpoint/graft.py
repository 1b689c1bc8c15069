"""MTP tensors that a conversion dropped, taken from the original checkpoint."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vpatch.checkpoint import writing
from vpatch.checkpoint.errors import CheckpointError, CheckpointUnavailableError
from vpatch.checkpoint.files import FolderFiles
from vpatch.checkpoint.folder import CONFIG, INDEX, MTP_SHARD, open_checkpoint, read_json
from vpatch.checkpoint.graft_plan import lost_keys, plan_graft
from vpatch.checkpoint.inspection import inspect
from vpatch.checkpoint.shards import digest, pieces, read, write_shard
from vpatch.checkpoint.switching import announce, changing, switch
from vpatch.util.extras import require

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pydantic import JsonValue

    from vpatch.checkpoint.folder import Checkpoint
    from vpatch.checkpoint.graft_plan import Taken
    from vpatch.checkpoint.header import Shard, Tensor
    from vpatch.progress import Progress, Task


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

    The shard is written first, under a name that nothing leads to. Then config.json and the index
    are exchanged at one moment. A run that is killed leaves the old checkpoint or the new one.

    Raises:
        UsageError: the two do not belong together, or one is not a checkpoint.
        UnavailableError: a tensor must be converted, and the extra `checkpoint` is not installed.
        CheckpointError: a file is damaged, a tensor cannot be converted, or the target has another
            tensor under the same name; or what was written does not read back as it should.
    """
    its = inspect(FolderFiles(source))
    with changing(target):
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
        path = writing.free_path(mine.checkpoint.folder / MTP_SHARD) if new else None
        keys = lost_keys(mine.checkpoint, its.checkpoint)
        index = bool(new) or (mine.checkpoint.index is None and len(mine.checkpoint.shards) > 1)
        backup = None
        if keys or index:
            backup = _write(mine.checkpoint, path, new, keys, progress, index=index)
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
        hint="graft with the same --tensor-format as before, or remove these tensors first",
        code="checkpoint.graft-conflict",
    )


def _write(
    checkpoint: Checkpoint,
    path: Path | None,
    new: Sequence[Taken],
    keys: dict[tuple[str, ...], Any],
    progress: Progress,
    *,
    index: bool,
) -> Path | None:
    """Write the new shard, and exchange config and index; return the copy of the old config."""
    folder, documents, backup = checkpoint.folder, {}, None
    shards = [path.name] if path is not None else []
    announce(folder, [*shards, writing.place_of_copy(folder / CONFIG).name, INDEX])
    if index and checkpoint.index is None:
        # Until the exchange, vLLM must not read a shard that nothing leads to yet.
        writing.replace_json(folder / INDEX, _index_of(checkpoint, None, ()))
    if path is not None:
        write_shard(path, new, progress)
    if keys:
        config = read_json(folder / CONFIG)
        backup = writing.back_up(folder / CONFIG)
        writing.set_values(config, keys)
        documents[CONFIG] = writing.as_json(folder / CONFIG, config)
    if index:
        documents[INDEX] = writing.as_json(folder / INDEX, _index_of(checkpoint, path, new))
    switch(folder, documents, ())
    return backup


def _index_of(
    checkpoint: Checkpoint, path: Path | None, new: Sequence[Taken]
) -> dict[str, JsonValue]:
    sizes = {name: tensor.size for name, tensor, _ in checkpoint.tensors()}
    document = checkpoint.index or {
        "metadata": {"total_size": 0},
        "weight_map": {name: shard.path.name for name, _, shard in checkpoint.tensors()},
    }
    weights, metadata = document["weight_map"], document.get("metadata")
    if path is not None and isinstance(weights, dict):
        weights.update(dict.fromkeys(sorted(o.name for o in new), path.name))
        sizes |= {one.name: one.size for one in new}
    if isinstance(metadata, dict):
        metadata["total_size"] = sum(sizes.values())
    return document


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
