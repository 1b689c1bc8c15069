"""What a graft takes from a source, and in which format: decided before a byte is written."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vpatch.checkpoint.errors import CheckpointError
from vpatch.checkpoint.folder import as_count
from vpatch.checkpoint.header import BITS, Tensor
from vpatch.checkpoint.modules import FLOATS, inside_layer
from vpatch.checkpoint.schemes import KEYS, TRUNK
from vpatch.errors import UsageError

if TYPE_CHECKING:
    from vpatch.checkpoint.folder import Checkpoint
    from vpatch.checkpoint.header import Shard
    from vpatch.checkpoint.inspection import Inspection
    from vpatch.checkpoint.schemes import Scheme

_SIZES = ("hidden_size", "num_hidden_layers", "vocab_size")


@dataclass(frozen=True)
class Taken:
    """One tensor: where it is in the source, and the dtype that it shall have."""

    name: str
    shard: Shard
    tensor: Tensor
    dtype: str

    @property
    def size(self) -> int:
        """Its bytes in the new dtype."""
        return self.tensor.size * BITS[self.dtype] // BITS[self.tensor.dtype]


def plan_graft(target: Inspection, source: Inspection, *, as_trunk: bool) -> tuple[Taken, ...]:
    """Choose the source's MTP tensors, in their own format or in that of the target's trunk.

    Raises:
        UsageError: the two are not of one model, or the source has no MTP tensors either.
        CheckpointError: shards are missing, or a tensor has no equal in the trunk's format.
    """
    _check_same(target.checkpoint, source.checkpoint)
    scheme = source.mtp.scheme
    if scheme is None:
        hint = "name the checkpoint that the conversion was made of"
        raise _wrong_source(source.checkpoint, "it has no MTP tensors", hint)
    _check_outer(scheme, target, source)
    wanted = set(source.mtp.names)
    # A conversion that drops the last shard may leave it in the index.
    lost = [f for f, names in target.checkpoint.missing.items() if not wanted >= set(names)]
    if lost:
        raise _not_all_there(target.checkpoint, tuple(lost))
    gone = [f for f, names in source.checkpoint.missing.items() if wanted & set(names)]
    if gone:
        raise _not_all_there(source.checkpoint, tuple(gone))
    if source.mtp.missing:
        raise CheckpointError(
            f"it lacks MTP tensors itself: {', '.join(source.mtp.missing[:4])}",
            where=str(source.checkpoint.folder),
            hint="fetch it again",
            code="checkpoint.incomplete",
        )
    formats = _Trunk(target.checkpoint) if as_trunk else None
    taken = []
    for name, tensor, shard in source.checkpoint.tensors():
        if name in wanted:
            dtype = formats.dtype(scheme, name, tensor) if formats else tensor.dtype
            taken.append(Taken(name, shard, tensor, dtype))
    return tuple(taken)


def lost_keys(target: Checkpoint, source: Checkpoint) -> dict[tuple[str, ...], Any]:
    """Return what the source's config says of MTP and the target's does not, by the way to it."""
    keys: dict[tuple[str, ...], Any] = {}
    for way, config in (
        ((), source.config),
        *(((key,), value) for key, value in source.config.items() if isinstance(value, dict)),
    ):
        if way and way[0].startswith(("quantization", "compression")):
            continue
        there = target.config.get(way[0]) if way else target.config
        place, known = (way, there) if isinstance(there, dict) else ((), target.config)
        for key, value in config.items():
            speaks = key in KEYS or "mtp" in key or "nextn" in key
            lost = known.get(key) is None or (key in KEYS and known[key] == 0 and as_count(value))
            if speaks and lost and value is not None:
                keys[(*place, key)] = value
    return keys


class _Trunk:
    """The dtypes of a trunk, by the names of tensors inside a layer."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._folder = str(checkpoint.folder)
        self._inside: dict[str, Counter[str]] = defaultdict(Counter)
        floats: Counter[str] = Counter()
        for name, tensor, _ in checkpoint.tensors():
            inner = inside_layer(TRUNK, name)
            if inner is not None:
                self._inside[inner][tensor.dtype] += 1
            if tensor.dtype in FLOATS:
                floats[tensor.dtype] += tensor.size
        self._usual = floats.most_common(1)[0][0] if floats else None

    def dtype(self, scheme: Scheme, name: str, tensor: Tensor) -> str:
        """Return the dtype of what is alike in the trunk, or else of most of its floats."""
        inner = inside_layer(scheme.layer, name)
        alike = None if inner is None else self._inside.get(inner)
        wanted = alike.most_common(1)[0][0] if alike else self._usual
        if wanted == tensor.dtype or (tensor.dtype not in FLOATS and not alike and inner is None):
            return tensor.dtype
        if tensor.dtype in FLOATS and (wanted not in FLOATS) and self._usual in FLOATS:
            # The trunk quantised what is alike: its floats are the nearest there is.
            wanted = self._usual
        if tensor.dtype not in FLOATS or wanted not in FLOATS:
            raise CheckpointError(
                f"{name} is {tensor.dtype} and cannot be made {wanted or 'a float'}: only "
                f"{', '.join(FLOATS)} are converted into each other",
                where=self._folder,
                hint="graft it with --tensor-format source, or dequantise the source",
                code="checkpoint.cannot-convert",
            )
        return str(wanted)


def _check_same(target: Checkpoint, source: Checkpoint) -> None:
    for one in (target, source):
        if not one.config:
            raise _wrong_source(one, "it has no config.json", "fetch it with the rest")
    if target.folder.resolve() == source.folder.resolve():
        raise _wrong_source(target, "it is its own source", "give --from the original")
    mine, its = target.language, source.language
    differing = [
        f"{key} {mine[key]} and {its[key]}"
        for key in _SIZES
        if key in mine and key in its and mine[key] != its[key]
    ]
    if target.architecture and source.architecture and target.architecture != source.architecture:
        differing.append(f"{target.architecture} and {source.architecture}")
    if differing:
        what = f"the two are not of one model: {', '.join(differing)}"
        hint = "give --from the checkpoint that the conversion was made of"
        raise _wrong_source(source, what, hint)


def _check_outer(scheme: Scheme, target: Inspection, source: Inspection) -> None:
    """Check that the names of layers after the trunk begin as those of the trunk."""
    if not scheme.behind:
        return
    before = {m["outer"] for name in target.modules if (m := TRUNK.match(name))}
    its = {m["outer"] for name in source.mtp.names if (m := TRUNK.match(name))}
    if before and not its <= before:
        what = f"its layers are called {min(its)}layers.N, and the target's {min(before)}layers.N"
        hint = "give --from a checkpoint with the target's names"
        raise _wrong_source(source.checkpoint, what, hint)


def _wrong_source(checkpoint: Checkpoint, what: str, hint: str) -> UsageError:
    where = str(checkpoint.folder)
    return UsageError(what, where=where, hint=hint, code="checkpoint.wrong-source")


def _not_all_there(checkpoint: Checkpoint, files: tuple[str, ...]) -> CheckpointError:
    return CheckpointError(
        f"shards are missing: {', '.join(files[:4])}",
        where=str(checkpoint.folder),
        hint="fetch them; of the source, those with MTP tensors are enough",
        code="checkpoint.incomplete",
    )
