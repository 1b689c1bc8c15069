"""The process that quantises: compressed-tensors, in the Python of an engine."""

from __future__ import annotations

import json
import math
import subprocess
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypedDict

from vpatch.checkpoint.errors import CheckpointError, CheckpointUnavailableError
from vpatch.checkpoint.header import BITS
from vpatch.errors import UsageError
from vpatch.util.child_environment import environment

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pydantic import JsonValue

    from vpatch.checkpoint.header import Shard, Tensor
    from vpatch.checkpoint.payload.quantise import MatrixOrder, MatrixPlace
    from vpatch.progress import Task

_SCRIPT = Path(__file__).parent / "payload" / "quantise.py"
# So many values are in memory at once: a matrix is quantised some rows at a time.
_VALUES = 2**24
_LINES = 3
# torch would compile the function that rounds to FP4, which needs a C++ compiler.
_SETTINGS = {"HF_HUB_OFFLINE": "1", "TORCHDYNAMO_DISABLE": "1"}


class GroupMatch(NamedTuple):
    """The group of the config that a module is in, if any, and whether a list leaves it out."""

    group: str | None
    ignored: bool


class MadeTensor(NamedTuple):
    """A tensor that a matrix becomes. `once`: it is the same for all rows."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    once: bool

    @property
    def size(self) -> int:
        """Its bytes."""
        return math.prod(self.shape) * BITS[self.dtype] // 8


@dataclass(frozen=True)
class Job:
    """A matrix to quantise.

    `scale` is the dtype of its scales, where that is a float. `renamed` and `cast` are the names
    and dtypes that the trunk has for what compressed-tensors makes. `together` are matrices that
    become one module in vLLM, and share a scale for all of it.
    """

    module: str
    shard: Shard
    tensor: Tensor
    group: str
    scale: str
    renamed: Mapping[str, str]
    cast: Mapping[str, str]
    power_of_two: bool = False
    together: tuple[tuple[Shard, Tensor], ...] = ()
    outputs: tuple[MadeTensor, ...] = ()

    def order(self) -> MatrixOrder:
        return {
            "name": f"{self.module}.weight",
            "group": self.group,
            "scale": self.scale,
            "rename": dict(self.renamed),
            "cast": dict(self.cast),
            "power_of_two": self.power_of_two,
            "together": [_place(*one) for one in self.together],
            **_place(self.shard, self.tensor),
        }


class _Answer(TypedDict, total=False):
    compressed_tensors: str
    formats: dict[str, str]
    matches: list[tuple[str | None, bool]]
    layouts: list[list[tuple[str, str, list[int], bool]]]
    read: int
    digests: dict[str, str]
    refused: str


class Quantiser:
    """A running process; it ends with the `with` statement.

    Raises:
        UsageError: that Python does not run, or has no compressed-tensors.
    """

    def __init__(self, python: Path, *, values: int = _VALUES) -> None:
        self.python = python
        self._values = values

    def __enter__(self) -> Self:
        self._errors = tempfile.TemporaryFile()
        try:
            self._process = subprocess.Popen(
                [self.python.absolute(), "-B", _SCRIPT, str(self._values)],
                # Python looks for modules there first, and the current folder may be anybody's.
                cwd="/",
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                text=True,
                env=environment(engine=True) | _SETTINGS,
            )
        except OSError as error:
            self._errors.close()
            raise self._cannot(str(error)) from error
        try:
            self.version = self._read()["compressed_tensors"]
        except CheckpointUnavailableError as error:
            why = self._last_lines(1)
            self.__exit__()
            raise self._cannot(why) from error
        except BaseException:
            # Ctrl-C while it imports torch: no `with` statement ends it yet.
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._stdin.close()
        self._process.kill()
        self._process.wait()
        self._stdout.close()
        self._errors.close()

    def schemes(
        self, groups: Mapping[str, dict[str, JsonValue]], kind: str | None
    ) -> dict[str, str]:
        """Take the groups of a config; return the format of each.

        Raises:
            CheckpointError: compressed-tensors does not know one, or cannot write it.
        """
        return self._ask("schemes", groups=groups, kind=kind)["formats"]

    def match(self, modules: Sequence[Sequence[str]], ignore: Sequence[str]) -> list[GroupMatch]:
        """Find the group of each module, which is given by all of its names."""
        answer = self._ask("match", modules=modules, ignore=ignore)
        return [GroupMatch(*one) for one in answer["matches"]]

    def layout(self, jobs: Sequence[Job]) -> list[tuple[MadeTensor, ...]]:
        """Return the tensors of each matrix, without a look at its values.

        Raises:
            CheckpointError: a matrix does not fit the scheme.
        """
        layouts = self._ask("layout", jobs=[job.order() for job in jobs])["layouts"]
        return [
            tuple(
                MadeTensor(f"{job.module}.{name}", dtype, tuple(shape), once)
                for name, dtype, shape, once in one
            )
            for job, one in zip(jobs, layouts, strict=True)
        ]

    def quantise(self, job: Job, file: str, at: Mapping[str, int], task: Task) -> dict[str, bytes]:
        """Write the tensors of a matrix into a file; return the digest of each.

        Raises:
            CheckpointError: a value is not a number, or no scale is large enough for it.
        """
        start = len(job.module) + 1
        answer = self._ask(
            "quantise",
            job=job.order(),
            # The process has another current folder.
            file=str(Path(file).absolute()),
            at={name[start:]: offset for name, offset in at.items()},
            once=[output.name[start:] for output in job.outputs if output.once],
        )
        while "read" in answer:
            task.advance(answer["read"])
            answer = self._read()
        return {
            f"{job.module}.{name}": bytes.fromhex(digest)
            for name, digest in answer["digests"].items()
        }

    @property
    def _stdin(self) -> Any:
        return self._process.stdin

    @property
    def _stdout(self) -> Any:
        return self._process.stdout

    def _ask(self, op: str, **order: object) -> _Answer:
        with suppress(BrokenPipeError):  # what it printed at its end says more
            self._stdin.write(f"{json.dumps({'op': op, **order})}\n")
            self._stdin.flush()
        return self._read()

    def _read(self) -> _Answer:
        line = self._stdout.readline()
        if not line:
            raise CheckpointUnavailableError(
                f"its process ended: {self._last_lines(_LINES)}",
                where=str(self.python),
                hint="see whether its memory was enough; the checkpoint is as it was",
                code="checkpoint.quantiser-ended",
            )
        answer: _Answer = json.loads(line)
        if "refused" in answer:
            raise CheckpointError(
                answer["refused"],
                hint="leave this module out of quantisation, or correct it",
                code="checkpoint.cannot-convert",
            )
        return answer

    def _last_lines(self, count: int) -> str:
        code = self._process.wait()
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return "; ".join(lines[-count:]) or f"it ended with {code}"

    def _cannot(self, why: str) -> UsageError:
        return UsageError(
            f"vpatch cannot quantise with it: {why}",
            where=str(self.python),
            hint="give --engine the Python that vLLM is installed for, or cpu",
            code="checkpoint.wrong-engine",
        )


def _place(shard: Shard, tensor: Tensor) -> MatrixPlace:
    return {
        "path": str(shard.path.absolute()),
        "offset": shard.data + tensor.begin,
        "shape": tensor.shape,
        "dtype": tensor.dtype,
    }
