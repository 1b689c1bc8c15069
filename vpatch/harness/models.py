"""Checkpoints: synthetic ones, made on the spot, and those of somebody's, found and digested."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from vpatch.engine import PAYLOAD
from vpatch.errors import BadValueError, UnavailableError, UsageError
from vpatch.harness.model_digest import digest_of_checkpoint
from vpatch.harness.sandbox import run_in
from vpatch.util.home import expanded

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vpatch.declare.smoke import Model
    from vpatch.harness.sandbox import Sandbox

_SCRIPTS = {"deepseek-v4": "tiny_deepseek_v4.py"}
# Of a shape that has no choice of it, all drafts are accepted.
_ACCEPTANCE = {"deepseek-v4": "all", "quantised-trunk": "all"}
_MAKING_SECONDS = 600.0
# What standard plans start a tiny model with. Without dynamo, which compiles a sampler, a start on
# a CPU takes half the time.
TINY_FLAGS = {
    "enforce-eager": True,
    "max-model-len": 512,
    "max-num-seqs": 8,
    "gpu-memory-utilization": 0.3,
}
TINY_ENVIRONMENT = {"VLLM_CPU_KVCACHE_SPACE": "1", "TORCHDYNAMO_DISABLE": "1"}


class ModelError(UsageError):
    """A checkpoint that somebody named is not on this machine."""

    code = "harness.no-such-model"


class ModelNotFetchedError(ModelError):
    """A checkpoint of the Hub is not in the cache of the Hub's client on this machine."""

    code = "harness.model-not-fetched"

    def with_lines(self, lines: Iterable[str]) -> ModelNotFetchedError:
        """Return the same error with further lines that say more."""
        # Lines may quote a file of somebody else: it must not look like a line of ours.
        shown = ["".join(c if c.isprintable() else "?" for c in line) for line in lines]
        what = "\n    ".join([f"{self.what};", *shown])
        return ModelNotFetchedError(what, where=self.where, hint=self.hint)


@dataclass(frozen=True)
class PreparedModel:
    """A folder with a model. `digest` is of the names and bytes of what vLLM may load.

    `acceptance` is that of a synthetic one whose every token is known, as tiny_tokens has it.
    """

    name: str
    folder: Path
    described: str
    digest: str
    acceptance: str | None = None


def locate(model: Model) -> Path | None:
    """Return where a checkpoint lies; None for a synthetic one, which is made when it is needed.

    Raises:
        ModelError: it is not on this machine. vpatch does not fetch it: it may have 150 GB.
    """
    if model.checkpoint is None:
        return None
    folder = expanded(model.checkpoint)
    if folder.is_dir():
        return _with_config(folder.resolve())
    if model.checkpoint.startswith((".", "/", "~")) or model.checkpoint.count("/") != 1:
        raise ModelError("there is no such folder", where=model.checkpoint, hint="correct --model")
    return _with_config(_in_hub_cache(model.checkpoint, model.revision or "main"))


def seen_folder(folder: Path) -> Path:
    """Return the folder that has all of a checkpoint's bytes: a snapshot of the hub has links."""
    repository = folder.parent.parent
    return repository if folder.parent.name == "snapshots" else folder


def prepare(
    name: str, model: Model, sandbox: Sandbox, workdir: Path, memory: Path | None = None
) -> PreparedModel:
    """Make a synthetic checkpoint in a work folder, or digest the one that is there.

    `memory` is the cache's folder that remembers the digests of large files.

    Raises:
        ModelError: it is not on this machine.
        UnavailableError: it cannot be made.
    """
    folder = locate(model)
    if folder is not None:
        where = str(model.checkpoint)
        if not expanded(where).is_dir():
            where += f"@{folder.name}"  # a snapshot's folder is called after its commit
        return PreparedModel(name, folder, where, digest_of_checkpoint(folder, memory))
    kind = str(model.synthetic)
    folder = workdir / name
    log = workdir / f"{name}.log"
    command: list[str | Path] = [sandbox.python, writer_of(kind), folder, kind]
    ended = run_in(sandbox, command, workdir=workdir, log=log, timeout=_MAKING_SECONDS)
    if ended.code != 0:
        raise UnavailableError(
            f"the synthetic checkpoint {name} cannot be made:\n{ended.ending}",
            where=str(folder),
            hint="free space in the folder for temporary files, or name another with TMPDIR",
            code="harness.model-not-made",
        )
    digest = digest_of_checkpoint(folder, None)
    return PreparedModel(name, folder, f"synthetic: {kind}", digest, acceptance_of(model))


def writer_of(kind: str) -> Path:
    """Return the script that writes a synthetic checkpoint: `PYTHON SCRIPT FOLDER KIND`."""
    return PAYLOAD / _SCRIPTS.get(kind, "tiny_mtp.py")


def acceptance_of(model: Model) -> str | None:
    """Return which drafts of a synthetic model are accepted; None of somebody's checkpoint."""
    kind = model.synthetic
    return _ACCEPTANCE.get(kind, kind) if kind is not None else None


def given(checkpoint: str) -> Model:
    """Return the model of `--model PATH_OR_ID`, also ID@REVISION."""
    from vpatch.declare.smoke import Model  # noqa: PLC0415 - pydantic is not needed for the rest

    place, _, revision = checkpoint.partition("@")
    if not place:
        raise BadValueError("--model is empty", hint="give a folder or an id, as org/name")
    if expanded(checkpoint).is_dir():
        return Model.model_validate({"checkpoint": checkpoint})
    return Model.model_validate({"checkpoint": place, "revision": revision or None})


def _with_config(folder: Path) -> Path:
    if not (folder / "config.json").is_file():
        raise ModelError(
            "it has no config.json", where=str(folder), hint="name the folder of a checkpoint"
        )
    return folder


def _in_hub_cache(repository: str, revision: str) -> Path:
    """Find a snapshot in the cache of the Hugging Face hub, laid out as its documentation says."""
    caches = os.environ.get("XDG_CACHE_HOME") or expanded("~/.cache")
    home = os.environ.get("HF_HOME") or Path(caches, "huggingface")
    hub = Path(os.environ.get("HF_HUB_CACHE") or Path(home, "hub"))
    place = hub / f"models--{repository.replace('/', '--')}"
    named = place / "refs" / revision
    commit = (
        named.read_text(encoding="ascii", errors="replace").strip() if named.is_file() else revision
    )
    snapshot = place / "snapshots" / commit
    if not snapshot.is_dir():
        raise ModelNotFetchedError(
            f"the checkpoint {repository} ({revision}) is not on this machine",
            where=str(place),
            hint=f"fetch it (hf download {repository} --revision {revision}), or give --model PATH",
        )
    return snapshot
