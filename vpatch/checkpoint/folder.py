"""The folder of a checkpoint: its config, its index, and the headers of its shards."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from vpatch.checkpoint.header import (
    CheckpointError,
    CheckpointUnavailableError,
    Shard,
    Tensor,
    read_shard,
)
from vpatch.errors import UsageError, combine
from vpatch.util.untrusted import parse_json

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CONFIG = "config.json"
INDEX = "model.safetensors.index.json"
MODELOPT = "hf_quant_config.json"
"""ModelOpt's quantisation config, which vLLM reads as well."""
_PICKLES = (".bin", ".pt", ".pth", ".ckpt")
# Some models have their language model's config in one of these.
_NESTED = ("text_config", "llm_config", "language_config")
_LARGEST_JSON = 256_000_000
_REMEDY = "fetch it again, or correct it"
# Of layers, for instance: all of them are gone through.
_MOST = 100_000


@dataclass(frozen=True)
class Checkpoint:
    """What the files of a checkpoint tell without their data.

    `modelopt` is what a quantisation config in a file of its own has. `missing` has each shard that
    the index names and that is not there, with the tensors in it; `absent` the tensors that the
    index promises and whose shard has them not; `unlisted` the shards that are there and that the
    index does not name: vLLM does not read those.
    """

    folder: Path
    config: dict[str, Any]
    index: dict[str, Any] | None
    shards: tuple[Shard, ...]
    modelopt: dict[str, Any] | None = None
    missing: dict[str, tuple[str, ...]] = field(default_factory=dict)
    absent: tuple[str, ...] = ()
    unlisted: tuple[str, ...] = ()

    @property
    def language(self) -> dict[str, Any]:
        """The config of the language model, which may be inside another one."""
        for key in _NESTED:
            if isinstance(self.config.get(key), dict):
                return {**self.config, **self.config[key]}
        return self.config

    @property
    def architecture(self) -> str | None:
        """The first of the config's architectures: the one that vLLM goes by."""
        named = self.config.get("architectures")
        return named[0] if isinstance(named, list) and named and isinstance(named[0], str) else None

    @property
    def layers(self) -> int | None:
        """How many layers the trunk has, by the config."""
        return as_count(self.language.get("num_hidden_layers"))

    def tensors(self) -> Iterator[tuple[str, Tensor, Shard]]:
        for shard in self.shards:
            for name, tensor in shard.tensors.items():
                yield name, tensor, shard

    def names(self) -> set[str]:
        return {name for shard in self.shards for name in shard.tensors}


def open_checkpoint(folder: Path) -> Checkpoint:
    """Read a checkpoint's JSON files, and the headers of its shards.

    Raises:
        UsageError: the folder does not exist, or has no safetensors checkpoint.
        CheckpointError: a file is damaged, or the index names a file that cannot be a shard.
        CheckpointUnavailableError: a file cannot be read.
    """
    if not folder.is_dir():
        raise UsageError(
            "there is no such folder",
            where=str(folder),
            hint="name the folder of a checkpoint",
            code="checkpoint.no-such-folder",
        )
    config = read_json(folder / CONFIG) if (folder / CONFIG).exists() else {}
    there = sorted(path.name for path in folder.glob("*.safetensors"))
    index = read_json(folder / INDEX) if (folder / INDEX).exists() else None
    if not there and index is None:
        raise _no_tensors(folder)
    listed = _listed(folder, index) if index is not None else dict.fromkeys(there, ())
    present = [name for name in listed if (folder / name).exists()]
    shards, errors = [], []
    for name in present:
        try:
            shards.append(read_shard(folder / name))
        except CheckpointError as error:
            errors.append(error)
    if errors:
        raise combine(errors)
    _check_once(shards)
    inside = {shard.path.name: shard.tensors for shard in shards}
    return Checkpoint(
        folder,
        config,
        index,
        tuple(shards),
        read_json(folder / MODELOPT) if (folder / MODELOPT).exists() else None,
        {name: names for name, names in listed.items() if name not in inside},
        tuple(
            n
            for file, names in listed.items()
            if file in inside
            for n in names
            if n not in inside[file]
        ),
        tuple(name for name in there if name not in listed),
    )


def read_json(path: Path) -> dict[str, Any]:
    """Read a file that has one JSON object.

    Raises:
        CheckpointError: it cannot be read, or has something else.
    """
    try:
        if not path.is_file():
            raise CheckpointError("it is not a regular file", where=str(path), hint=_REMEDY)
        if path.stat().st_size > _LARGEST_JSON:
            raise CheckpointError("it is too large", where=str(path), hint=_REMEDY)
        found = parse_json(path.read_bytes())
    except OSError as error:
        raise CheckpointUnavailableError(
            f"it cannot be read: {error.strerror or error}",
            where=str(path),
            hint="check the disk and the permissions",
        ) from error
    except ValueError as error:
        raise CheckpointError(f"it is not JSON: {error}", where=str(path), hint=_REMEDY) from error
    if not isinstance(found, dict):
        raise CheckpointError("it is not a JSON object", where=str(path), hint=_REMEDY)
    return found


def as_count(value: object) -> int | None:
    """Return a value of a config that counts something; None for what cannot be a count."""
    valid = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST
    return value if valid and isinstance(value, int) else None


def _listed(folder: Path, index: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    """Return the shards of an index, each with the tensors that it should have."""
    where = str(folder / INDEX)
    weights = index.get("weight_map")
    if not isinstance(weights, dict):
        raise CheckpointError("it has no weight_map", where=where, hint="fetch it again")
    found: dict[str, list[str]] = {}
    for tensor, file in weights.items():
        # A shard lies in the folder itself, whatever it may be a link to.
        if not isinstance(file, str) or file in {"", ".", ".."} or set(file) & set("/\\\0"):
            raise CheckpointError(
                f"it says that {tensor} is in {file!r}, which is not a file of this folder",
                where=where,
                hint="do not use this checkpoint: such an index is wrong, or malicious",
                code="checkpoint.unsafe-index",
            )
        if not file.endswith(".safetensors"):
            raise CheckpointError(
                f"it says that {tensor} is in {file}, which is not a safetensors file",
                where=where,
                hint="convert the checkpoint to safetensors: vpatch unpickles nothing",
                code="checkpoint.unsafe-index",
            )
        found.setdefault(file, []).append(tensor)
    return {file: tuple(names) for file, names in sorted(found.items())}


def _check_once(shards: list[Shard]) -> None:
    seen: dict[str, Shard] = {}
    for shard in shards:
        for name in shard.tensors:
            if name in seen:
                raise CheckpointError(
                    f"{name} is in {seen[name].path.name} as well as in {shard.path.name}",
                    where=str(shard.path.parent),
                    hint="remove the superfluous shard",
                )
            seen[name] = shard


def _no_tensors(folder: Path) -> UsageError:
    files = sorted(path.name for path in folder.iterdir())
    pickles = [name for name in files if name.endswith(_PICKLES)]
    if pickles:
        return UsageError(
            f"its tensors are in a pickle ({pickles[0]}), which could run any code when read; "
            "nothing was unpickled",
            where=str(folder),
            hint="convert it to safetensors on a machine where that is safe",
            code="checkpoint.wrong-format",
        )
    if any(name.endswith(".gguf") for name in files):
        return UsageError(
            "it is in GGUF, which vpatch does not read",
            where=str(folder),
            hint="name the checkpoint that it was made of",
            code="checkpoint.wrong-format",
        )
    return UsageError(
        "there are no safetensors files",
        where=str(folder),
        hint="name the folder of a checkpoint",
        code="checkpoint.wrong-format",
    )
