"""The smoke plan of a recipe: what is run on a real engine, and what must come of it."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from vpatch.declare.edits import Seconds, Text
from vpatch.declare.yamlfile import Declared

Figure = Literal[
    "acceptance-rate",
    "acceptance-length",
    "late-acceptance",
    "preemptions",
    "cached-tokens",
    "tokens-per-second",
    "speed-up",
    "load-seconds",
    "memory-gib",
    "bigram-repeats",
    "trigram-repeats",
    "4gram-repeats",
    "most-repeated-4gram",
]
ModelName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]*$")]
Threshold = Annotated[str, Field(pattern=r"^(>=|<=|>|<|==) ?\d+(\.\d+)?$")]
# As Ray reads it: a value, !value, in(A, B) or !in(A, B).
_LABEL = r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"
LabelValue = Annotated[str, Field(pattern=rf"^!?({_LABEL}|in\({_LABEL}(, ?{_LABEL})*\))$")]
Mode = Literal["offline", "server"]


def _as_json(value: Any) -> Any:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"not a value that JSON has: {error}") from error
    return value


# They are recorded, and travel to where the engine runs.
Flags = dict[Text, Annotated[Any, AfterValidator(_as_json)]]
_Tokens = Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=2)]


class RepeatedPrompt(Declared):
    """A long prompt: some tokens again and again. It ends with the last of them."""

    repeat: _Tokens
    length: int = Field(ge=2, le=1_000_000, description="the number of tokens of the prompt")

    def tokens(self) -> tuple[int, ...]:
        """Return the tokens; the first repetition is cut short, so that the end is the same."""
        times = -(-self.length // len(self.repeat))
        return (self.repeat * times)[-self.length :]


Prompt = Text | _Tokens | RepeatedPrompt


class Needs(Declared):
    """What not every machine has. It is looked for before anything is started."""

    engine: Text | None = Field(
        None, description="cpu, cuda, or the device name of a plugin's platform, such as maca"
    )
    gpus: int = Field(0, ge=0, description="NVIDIA GPUs")
    capability: Annotated[str, Field(pattern=r"^\d+\.\d+$")] | None = Field(
        None, description="the compute capability that each of them has, as 9.0 for Hopper"
    )
    memory_gib: float = Field(0, ge=0, description="of each of them, in GiB")
    cpus: Annotated[float, Field(ge=0)] | None = Field(
        None, description="CPUs of a node that are a cell's alone, with --cluster; 1"
    )
    labels: dict[Text, LabelValue] | None = Field(
        None,
        description="of a node of the cluster, as ray.io/accelerator-type: H100; with --cluster",
    )


class Model(Declared):
    """A checkpoint: a synthetic one, made on the spot, or one of somebody's."""

    synthetic: Literal["all", "none", "first", "most", "quantised-trunk", "deepseek-v4"] | None = (
        Field(
            None, description="which drafts are accepted by construction, or the shape of a model"
        )
    )
    checkpoint: Text | None = Field(None, description="a folder, or an id of the Hugging Face hub")
    revision: Text | None = Field(None, description="of the id: a commit, a tag or a branch")

    @model_validator(mode="after")
    def _one_kind(self) -> Model:
        if (self.synthetic is None) == (self.checkpoint is None):
            raise ValueError("give either synthetic or checkpoint")
        if self.revision is not None and self.checkpoint is None:
            raise ValueError("a synthetic model has no revision")
        return self


class Sampling(Declared):
    """As vLLM's SamplingParams. Output is compared with that of k = 0 where temperature is 0."""

    temperature: float = Field(0.0, ge=0)
    top_p: float | None = Field(None, gt=0, le=1)
    top_k: int | None = Field(None, ge=1)
    seed: int | None = None
    ignore_eos: bool = Field(
        default=True, description="make max-tokens tokens, whatever the model says"
    )


class Timeouts(Declared):
    """Seconds after which a cell is ended, and reported as hanging."""

    start: Seconds = Field(900, description="until it is loaded, or the server is healthy")
    token: Seconds = Field(120, description="between two signs of life")
    cell: Seconds = Field(3600, description="for all of it")
    stop: Seconds = Field(60, description="for a server to end, once it is asked to")


class CellSettings(Declared):
    """How cells run. What a cell leaves out is as in `defaults`; mappings are merged."""

    modes: tuple[Mode, ...] | None = Field(None, min_length=1, description="offline and server")
    method: Text | None = Field(None, description="of speculative decoding; mtp")
    tensor_parallel: int | None = Field(None, ge=1, description="1")
    rounds: int | None = Field(
        None, ge=1, description="how often each cell is run, in alternating order; 1"
    )
    prompts: Text | None = Field(None, description="the name of a set of prompts")
    max_tokens: int | None = Field(None, ge=2, description="of each prompt; 32")
    long_tokens: int | None = Field(
        None, ge=0, description="of one more request, offline, of the first prompt; 0 for none"
    )
    sampling: Sampling | None = None
    flags: Flags | None = Field(
        None, description="of the engine, as vllm serve spells them: enforce-eager: true"
    )
    environment: dict[Text, str] | None = None
    timeouts: Timeouts | None = None
    output_may_differ: bool | None = Field(
        None,
        description="from that of k = 0, and between answers; false. Kernels of other shapes add "
        "up in another order, and so a large model's output differs even at temperature 0",
    )
    needs: Needs | None = Field(None, description="beyond those of the plan")
    checks: dict[Figure, Threshold] | None = Field(
        None, description="thresholds of figures, as acceptance-rate: '>= 0.75'; for k > 0"
    )


class Cells(CellSettings):
    """A row of cells that differ in k, the number of speculative tokens, alone."""

    model: Text = Field(description="the name of one of `models`")
    k: tuple[Annotated[int, Field(ge=0)], ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _each_k_once(self) -> Cells:
        if len(set(self.k)) < len(self.k):
            raise ValueError("k has a number twice; for more runs of a cell give rounds")
        return self


class Imports(Declared):
    """What must be there, in the main process and in a spawned one."""

    modules: tuple[Text, ...] = Field((), description="imported in this order")
    operators: tuple[Text, ...] = Field((), description="as _C::silu_and_mul, after the modules")


class Smoke(Declared):
    needs: Needs = Needs()
    imports: Imports = Imports()
    models: dict[ModelName, Model] = Field(min_length=1)
    prompts: dict[Text, Annotated[tuple[Prompt, ...], Field(min_length=1)]] = Field(min_length=1)
    defaults: CellSettings = CellSettings()
    cells: tuple[Cells, ...]

    @model_validator(mode="after")
    def _names_are_known(self) -> Smoke:
        # Not by a least length: if all cells are wrong, the list is empty too.
        if not self.cells:
            raise ValueError("there are no cells")
        for cells in self.cells:
            if cells.model not in self.models:
                known = ", ".join(self.models)
                raise ValueError(f"model {cells.model!r} is not in models ({known})")
            prompts = cells.prompts or self.defaults.prompts
            if prompts not in self.prompts:
                known = ", ".join(self.prompts)
                raise ValueError(f"prompts {prompts!r} is not in prompts ({known})")
        return self
