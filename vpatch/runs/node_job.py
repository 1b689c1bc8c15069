"""A job of a node of a cluster, and its answer: models that travel as JSON.

What a node is to do is one type, which the driver writes and the node reads and runs. The driver
reads the answer with the type that the node wrote. The first job of each node is a look at it.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Literal, TypedDict, TypeVar

from pydantic import BaseModel

from vpatch.cluster.job import REFUSED, RESULT
from vpatch.cluster.storage import Storage
from vpatch.declare.smoke import Model
from vpatch.engine.environment import existing_engine, open_engine
from vpatch.engine.kinds import KINDS
from vpatch.errors import UnavailableError, VpatchError
from vpatch.harness.machine import Machine, this_machine
from vpatch.harness.model_digest import digest_of_checkpoint
from vpatch.harness.models import locate, seen_folder
from vpatch.harness.sandbox import inherited
from vpatch.harness.target import EngineTarget
from vpatch.progress import Silent
from vpatch.runs.node_image import ImageName, image_on_node
from vpatch.runs.packed_trees import PackedTree
from vpatch.runs.targets import image_target
from vpatch.source.cache import Cache, default_cache_folder
from vpatch.util.untrusted import parse_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from vpatch.engine.environment import Engine
    from vpatch.harness.measured import Fault
    from vpatch.harness.target import ExecutionTarget

Answer = TypeVar("Answer", bound=BaseModel)


class Refusal(BaseModel):
    """Why a node refused a job."""

    what: str
    code: str = ""


class EngineFacts(BaseModel):
    kind: str
    version: str


class NodeAnswer(BaseModel):
    """What a node answers to any job.

    `inherited` are the variables there that may change what an engine does. `hangs` says why the
    job is worth an attempt on another node.
    """

    machine: Machine
    inherited: dict[str, str]
    hangs: str | None = None


class RunAnswer(NodeAnswer):
    """What a node answers that ran something in an engine or an image."""

    engine: EngineFacts


class _RunFacts(TypedDict):
    machine: Machine
    inherited: dict[str, str]
    engine: EngineFacts


def facts_of(target: ExecutionTarget | Engine) -> _RunFacts:
    """Return what the answer of each run says, on this node."""
    engine = EngineFacts(kind=target.kind, version=target.version)
    return {"machine": this_machine(), "inherited": inherited(), "engine": engine}


class NodeJob(BaseModel):
    """What a node is to do; `do` of each kind of job names it.

    `storage` is where large files are left for the driver; None for Ray's object store.
    """

    storage: str | None = None

    @abstractmethod
    def run(self, folder: Path) -> NodeAnswer:
        """Do it on this node, in the work folder of the job; what comes back lies in `out` there.

        Raises:
            VpatchError: this node cannot do it.
        """


class EngineJob(NodeJob):
    """A job in an engine with trees laid over it, or in an image as it is.

    `engine` is a kind of engine or the path of a Python; `version` is vLLM's. `model` is the name
    of the checkpoint that the job needs, if any, and `digest` is that of the other nodes.
    """

    engine: str = ""
    image: ImageName | None = None
    version: str
    trees: list[PackedTree]
    model: str = ""
    checkpoint: Model | None = None
    digest: str | None = None

    @contextmanager
    def target(self, folder: Path, files: Sequence[Path] = ()) -> Iterator[ExecutionTarget]:
        """Open what the job runs on. Containers also see the checkpoint, and `files`."""
        with ExitStack() as stack:
            if self.image is not None:
                image, docker, gpus = image_on_node(self.image, folder, stack)
                place = None if self.checkpoint is None else locate(self.checkpoint)
                seen = [*files, *([] if place is None else [seen_folder(place)])]
                yield image_target(image, docker, seen, gpus=gpus)
            else:
                engine = stack.enter_context(self.opened())
                yield EngineTarget(engine, [tree.unpacked(folder / "sent") for tree in self.trees])

    def opened(self) -> AbstractContextManager[Engine]:
        """Open the engine; one of a kind is made where it is missing."""
        cache = default_cache_folder()
        return open_engine(self.engine, self.version, cache, Silent(), look=existing_engine)

    def refuse_another(self, digest: str, where: str) -> None:
        """Refuse a checkpoint that is not that of the other nodes."""
        if self.digest not in {None, digest}:
            raise UnavailableError(
                f"the checkpoint {self.model} is {digest} here, not {self.digest}",
                where=where,
                hint="give every node the same files",
                code="cluster.model-differs",
            )


class LookAnswer(NodeAnswer):
    """What a node says of itself.

    Attributes:
        engine: the engine that `--engine PYTHON` names there; None without that option.
        models: the digest of each checkpoint; None of one that the node does not have.
        images: the kind of the vLLM in each image that the node can run.
        problems: why the node cannot use an engine, an image, a checkpoint or the storage.
        probe: the name of the file that it wrote to the storage.
    """

    engine: EngineFacts | None
    models: dict[str, str | None]
    images: dict[str, str]
    problems: dict[str, str]
    probe: str | None = None

    def answer_probe(self, storage: str) -> None:
        """Try whether this node and the driver share a storage."""
        try:
            self.probe = Storage(storage).answer_probe()
        except VpatchError as error:
            self.problems["storage"] = error.what


class Look(NodeJob):
    """Say what a node has: checkpoints with their digests, and what its engine runs on."""

    do: Literal["look"] = "look"
    engine: str | None
    models: dict[str, Model]
    images: list[ImageName]

    def run(self, folder: Path) -> LookAnswer:
        models: dict[str, str | None] = {}
        images: dict[str, str] = {}
        problems: dict[str, str] = {}
        facts, digests = None, checkpoint_digests()
        for name, model in self.models.items():
            with _note_problem(problems, name):
                place = locate(model)
                models[name] = None if place is None else digest_of_checkpoint(place, digests)
        if self.engine is not None and self.engine not in KINDS:
            with _note_problem(problems, "engine"):
                engine = existing_engine(self.engine)
                facts = EngineFacts(kind=engine.kind, version=engine.version)
        for image in self.images:
            with _note_problem(problems, image.name), ExitStack() as stack:
                seen, _, _ = image_on_node(image, folder, stack)
                images[image.name] = seen.kind
        return LookAnswer(
            machine=this_machine(),
            inherited=inherited(),
            engine=facts,
            models=models,
            images=images,
            problems=problems,
        )


@contextmanager
def _note_problem(problems: dict[str, str], name: str) -> Iterator[None]:
    try:
        yield
    except VpatchError as error:
        problems[name] = str(error)


def checkpoint_digests() -> Path:
    """Return the folder of this node's cache that remembers the digests of large files."""
    return Cache(default_cache_folder()).answers("checkpoints")


def why_another(faults: Iterable[Fault | None]) -> str | None:
    """Say why a job is worth an attempt on another node; None if it is not."""
    return next((str(fault) for fault in faults if fault is not None and fault.hangs), None)


def text_of(message: BaseModel) -> str:
    """Return a job or an answer as JSON."""
    return json.dumps(message.model_dump(mode="json", by_alias=True, warnings=False))


def answer_in(files: Mapping[str, bytes], kind: type[Answer]) -> Answer:
    """Return the answer among the files of a job.

    Raises:
        LookupError: there is none.
        ValueError: it is of another form.
    """
    return kind.model_validate(parse_json(files[RESULT]))


def refusal_in(files: Mapping[str, bytes]) -> str | None:
    """Say why a node refused a job; None if it did not. Raises ValueError if it does not say it."""
    if REFUSED not in files:
        return None
    return Refusal.model_validate(parse_json(files[REFUSED])).what
