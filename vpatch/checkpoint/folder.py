"""The folder of a checkpoint: its config, its index, and the headers of its shards."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vpatch.checkpoint.errors import CheckpointError
from vpatch.checkpoint.files import FolderFiles, read_object
from vpatch.checkpoint.header import Shard, Tensor, read_shard
from vpatch.errors import UsageError, combine

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from pathlib import Path

    from pydantic import JsonValue

    from vpatch.checkpoint.files import Files

CONFIG = "config.json"
PARAMS = "params.json"
"""The config of a checkpoint in Mistral's own format."""
_CONSOLIDATED = "consolidated"
"""What the names of tensors in Mistral's own format begin with."""
_SENTENCES = "modules.json"
"""What sentence-transformers says of a model that makes embeddings, and vLLM reads too."""
INDEX = "model.safetensors.index.json"
MTP_SHARD = "model-mtp.safetensors"
"""The shard that vpatch makes for MTP layers."""
MODELOPT = "hf_quant_config.json"
"""ModelOpt's quantisation config, which vLLM reads as well."""
MODELSLIM = "quant_model_description.json"
"""ModelSlim's table of formats, which vllm-ascend reads, and vLLM itself does not."""
_PICKLES = (".bin", ".pt", ".pth", ".ckpt")
# Some models have their language model's config in one of these.
_NESTED = ("text_config", "llm_config", "language_config")
# Enough to wait for a server with, and few enough for it.
_THREADS = 8
# Of layers, for instance: all of them are gone through.
_MOST = 100_000
# Each is a request, or two. The largest models have 200.
_MOST_SHARDS = 2000


@dataclass(frozen=True)
class Checkpoint:
    """What the files of a checkpoint tell without their data.

    `folder` is where it is, or what the user typed for a repository of the Hub.
    `modelopt` and `modelslim` are what a quantisation config in a file of its own has. `missing`
    has each shard that the index names and that is not there, with the tensors in it; `absent` the
    tensors that the index promises and whose shard has them not; `unlisted` the shards that the
    index does not name: vLLM does not read those. `has_params`: it has Mistral's params.json, and
    `has_consolidated` its tensors beside it. `pools`: it is one of sentence-transformers.
    """

    folder: Path
    config: dict[str, JsonValue]
    index: dict[str, JsonValue] | None
    shards: tuple[Shard, ...]
    modelopt: dict[str, JsonValue] | None = None
    modelslim: dict[str, JsonValue] | None = None
    missing: dict[str, tuple[str, ...]] = field(default_factory=dict)
    absent: tuple[str, ...] = ()
    unlisted: tuple[str, ...] = ()
    has_params: bool = False
    has_consolidated: bool = False
    pools: bool = False

    @property
    def language(self) -> dict[str, JsonValue]:
        """The config of the language model, which may be inside another one."""
        for key in _NESTED:
            inner = self.config.get(key)
            if isinstance(inner, dict):
                return {**self.config, **inner}
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

    def place_of(self, key: str) -> str:
        """Return where the model's config has a key of the language model, or would have it."""
        for nested in _NESTED:
            inner = self.config.get(nested)
            if isinstance(inner, dict) and key not in self.config:
                has_model = "num_hidden_layers" in inner and "num_hidden_layers" not in self.config
                return f"{nested}.{key}" if key in inner or has_model else key
        return key

    def tensors(self) -> Iterator[tuple[str, Tensor, Shard]]:
        for shard in self.shards:
            for name, tensor in shard.tensors.items():
                yield name, tensor, shard

    def names(self) -> set[str]:
        return {name for shard in self.shards for name in shard.tensors}

    def every_name(self) -> set[str]:
        """Return the names of tensors, with those in shards that are missing."""
        return self.names() | {name for names in self.missing.values() for name in names}


def open_checkpoint(folder: Path) -> Checkpoint:
    """Read a checkpoint of a folder, with the errors of `read_checkpoint`."""
    return read_checkpoint(FolderFiles(folder))


def read_checkpoint(files: Files) -> Checkpoint:
    """Read a checkpoint's JSON files, and the headers of its shards.

    Raises:
        UsageError: the folder does not exist, or has no safetensors checkpoint.
        CheckpointError: a file is damaged, or the index names a file that cannot be a shard.
        CheckpointUnavailableError: a file cannot be read.
    """
    if files.root.suffix == ".gguf" and files.root.is_file():
        raise of_gguf(files.root, has_config=(files.root.parent / CONFIG).is_file())
    names = files.names()
    _check_kind(files.root, names)
    config = read_object(files, CONFIG) if CONFIG in names else {}
    there = sorted(name for name in names if name.endswith(".safetensors"))
    index = read_object(files, INDEX) if INDEX in names else None
    others = [name for name in there if not name.startswith(_CONSOLIDATED)]
    if PARAMS in names and CONFIG in names and index is None and others:
        there = others  # the same tensors twice, and config.json names those of the others
    if not there and index is None:
        raise _no_tensors(files.root, names)
    listed = _list_shards(files.root, index) if index is not None else dict.fromkeys(there, ())
    if len(listed) > _MOST_SHARDS:
        raise CheckpointError(
            f"it has {len(listed)} shards, more than the limit of {_MOST_SHARDS}",
            where=str(files.root),
            hint="do not use this checkpoint: no model has so many",
            code="checkpoint.too-many-shards",
        )
    shards = _read_shards(files, [name for name in listed if name in names])
    _check_once(shards)
    inside = {shard.path.name: shard.tensors for shard in shards}
    return Checkpoint(
        files.root,
        config,
        index,
        tuple(shards),
        read_object(files, MODELOPT) if MODELOPT in names else None,
        read_object(files, MODELSLIM) if MODELSLIM in names else None,
        {name: names for name, names in listed.items() if name not in inside},
        tuple(
            name for file, tensors in inside.items() for name in listed[file] if name not in tensors
        ),
        tuple(name for name in there if name not in listed),
        PARAMS in names,
        any(name.startswith(_CONSOLIDATED) and name.endswith(".safetensors") for name in names),
        _SENTENCES in names,
    )


def read_json(path: Path) -> dict[str, JsonValue]:
    """Read a file that has one JSON object.

    Raises:
        CheckpointError: it cannot be read, or has something else.
    """
    return read_object(FolderFiles(path.parent), path.name)


def as_count(value: object) -> int | None:
    """Return a value of a config that counts something; None for what cannot be a count."""
    valid = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST
    return value if valid and isinstance(value, int) else None


def _read_shards(files: Files, names: Iterable[str]) -> list[Shard]:
    def read(name: str) -> Shard | CheckpointError:
        try:
            return read_shard(files, name)
        except CheckpointError as error:
            return error

    with ThreadPoolExecutor(_THREADS) as pool:
        outcomes = list(pool.map(read, names))
    errors = [one for one in outcomes if isinstance(one, CheckpointError)]
    if errors:
        raise combine(errors)
    return [one for one in outcomes if isinstance(one, Shard)]


def _list_shards(folder: Path, index: dict[str, JsonValue]) -> dict[str, tuple[str, ...]]:
    """Return the shards of an index, each with the tensors that it should have."""
    where = str(folder / INDEX)
    weights = index.get("weight_map")
    if not isinstance(weights, dict):
        raise CheckpointError("it has no weight_map", where=where, hint="fetch it again")
    shards: dict[str, list[str]] = {}
    for tensor, file in weights.items():
        # A shard lies in the folder itself, whatever it may be a link to.
        if not isinstance(file, str) or file in {"", ".", ".."} or set(file) & set("/\\\0"):
            what = f"it says that {tensor} is in {file!r}, which is not a file of this folder"
            hint = "do not use this checkpoint: such an index is wrong, or malicious"
            raise _unsafe_index(where, what, hint)
        if not file.endswith(".safetensors"):
            what = f"it says that {tensor} is in {file}, which is not a safetensors file"
            hint = "convert the checkpoint to safetensors: vpatch unpickles nothing"
            raise _unsafe_index(where, what, hint)
        shards.setdefault(file, []).append(tensor)
    return {file: tuple(names) for file, names in sorted(shards.items())}


def _unsafe_index(where: str, what: str, hint: str) -> CheckpointError:
    return CheckpointError(what, where=where, hint=hint, code="checkpoint.unsafe-index")


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


def _check_kind(folder: Path, names: Collection[str]) -> None:
    """Refuse adapters and pipelines: they have safetensors files and are not language models."""
    kinds = (
        (
            "adapter_config.json",
            "it is a LoRA adapter, and has no model of its own",
            "name the checkpoint that the adapter is for, or merge them first",
        ),
        (
            "model_index.json",
            "it is a pipeline of diffusers, and not a language model",
            "name the folder of a language model in it, such as text_encoder",
        ),
    )
    for name, what, hint in kinds:
        if name in names and CONFIG not in names:
            raise _wrong_format(folder, what, hint)


def _no_tensors(folder: Path, names: Iterable[str]) -> UsageError:
    files = sorted(names)
    # A download of a sharded one may have only its index.
    pickles = [name for name in files if name.removesuffix(".index.json").endswith(_PICKLES)]
    if pickles:
        what = f"its tensors are in a pickle ({pickles[0]}), which could run any code when read"
        hint = "convert it to safetensors on a machine where that is safe"
        return _wrong_format(folder, f"{what}; nothing was unpickled", hint)
    if any(name.endswith(".gguf") for name in files):
        return of_gguf(folder, has_config=CONFIG in files)
    return _wrong_format(
        folder, "there are no safetensors files", "name the folder of a checkpoint"
    )


def of_gguf(where: Path, *, has_config: bool) -> UsageError:
    """Return the error for a checkpoint in GGUF."""
    what = "it is in GGUF, which vpatch does not read"
    if not has_config:
        what += ", and there is no config.json"
    # The method gguf is in the registries up to 0.23.0; docs/features/quantization/gguf.md of later
    # releases names the plugin.
    hint = (
        "name the checkpoint that it was made of; vLLM itself reads GGUF up to 0.23.0, and later "
        "releases with vllm-gguf-plugin"
    )
    return _wrong_format(where, what, hint)


def _wrong_format(folder: Path, what: str, hint: str) -> UsageError:
    return UsageError(what, where=str(folder), hint=hint, code="checkpoint.wrong-format")
