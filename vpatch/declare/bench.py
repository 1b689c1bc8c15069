"""The benchmark plan of a recipe: the loads that vLLM's own `vllm bench serve` puts on servers."""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import Annotated, Literal

from pydantic import Field, model_validator

from vpatch.declare.edits import Text
from vpatch.declare.smoke import Flags, Model, ModelName, Needs, Sampling, Timeouts
from vpatch.declare.yamlfile import Declared

_SECRET = re.compile(r"(^|_)(TOKEN|SECRET|PASSWORD|KEY)$")
Counts = Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(min_length=1)]


class Shape(Declared):
    """Prompts, and how long the answers are. The words are those of `vllm bench serve`."""

    dataset: Literal["random", "custom", "sharegpt", "spec_bench"] = "random"
    path: Text | None = Field(None, description="the dataset's file; random has none")
    input: int | None = Field(None, ge=1, description="tokens of a prompt; random alone has it")
    output: int = Field(ge=2, description="tokens of an answer")
    chat_template: bool = Field(
        default=True, description="put the prompts of a file into the model's chat template"
    )

    @property
    def name(self) -> str:
        if self.dataset == "random":
            return f"{self.input}/{self.output}"
        return f"{PurePath(str(self.path)).stem}/{self.output}"

    @model_validator(mode="after")
    def _of_its_kind(self) -> Shape:
        if self.dataset == "random" and (self.input is None or self.path is not None):
            raise ValueError("random prompts need input, a number of tokens, and take no path")
        if self.dataset != "random" and (self.path is None or self.input is not None):
            raise ValueError(f"{self.dataset} has path, a file on this machine, and no input")
        if self.dataset == "random" and not self.chat_template:
            raise ValueError("random prompts do not use a chat template")
        return self


class BenchCells(Declared):
    """A model, and with how many speculative tokens it is served."""

    model: Text = Field(description="the name of one of `models`")
    k: tuple[Annotated[int, Field(ge=0)], ...] = Field(min_length=1)


class Bench(Declared):
    """Every cell of `cells` meets every shape at every concurrency, `repeats` times."""

    needs: Needs = Needs()
    models: dict[ModelName, Model] = Field(min_length=1)
    shapes: tuple[Shape, ...] = Field(min_length=1)
    concurrency: Counts = Field((1, 4, 8, 16), description="requests under way at once, at most")
    prompts: int = Field(
        8, ge=1, description="for each of them: at concurrency 4, 32 prompts are sent in all"
    )
    repeats: int = Field(
        3, ge=1, description="of all of it, in alternating order; differences are judged from 3 on"
    )
    share_server: bool = Field(
        default=False,
        description="one server for all loads of a cell, instead of a new one for each load",
    )
    warm_up: bool = Field(
        default=True, description="send other prompts first, after each start of a server"
    )
    method: Text = Field("mtp", description="of speculative decoding")
    tensor_parallel: int = Field(1, ge=1)
    sampling: Sampling = Sampling()
    flags: Flags = Field(
        default_factory=dict, description="of the server, as vllm serve spells them"
    )
    environment: dict[Text, str] = Field(default_factory=dict)
    timeouts: Timeouts = Timeouts()
    cells: tuple[BenchCells, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _can_be_told_apart(self) -> Bench:
        seen: set[tuple[str, int]] = set()
        for cells in self.cells:
            if cells.model not in self.models:
                known = ", ".join(self.models)
                raise ValueError(f"model {cells.model!r} is not in models ({known})")
            for k in cells.k:
                if (cells.model, k) in seen:
                    raise ValueError(f"{cells.model} has k={k} twice; for more runs give repeats")
                seen.add((cells.model, k))
        for what, values in (
            ("concurrency", list(self.concurrency)),
            ("shapes", [shape.name for shape in self.shapes]),
        ):
            if len(set(values)) < len(values):
                raise ValueError(f"{what} has a value twice; for more runs give repeats")
        return self

    @model_validator(mode="after")
    def _answers_are_as_long_as_vllm_has_them(self) -> Bench:
        if not self.sampling.ignore_eos and any(s.dataset == "random" for s in self.shapes):
            raise ValueError(
                "answers to random prompts always have the full length: leave out "
                "sampling.ignore-eos: false, or take prompts from a file"
            )
        return self

    @model_validator(mode="after")
    def _fits_the_model(self) -> Bench:
        longest = self.flags.get("max-model-len")
        for shape in self.shapes:
            needed = (shape.input or 0) + shape.output
            if isinstance(longest, int) and needed > longest:
                raise ValueError(
                    f"{shape.name} needs {needed} tokens, and max-model-len is {longest}"
                )
        return self

    @model_validator(mode="after")
    def _nothing_is_secret(self) -> Bench:
        for name in (*self.environment, *self.flags):
            if _SECRET.search(name.upper().replace("-", "_")):
                raise ValueError(
                    f"{name} must not be in a plan, since each record has the plan: export it in "
                    "the shell that runs vpatch"
                )
        return self

    @model_validator(mode="after")
    def _prompts_are_new_to_the_server(self) -> Bench:
        caches = self.flags.get("enable-prefix-caching", True)
        from_files = [shape.name for shape in self.shapes if shape.dataset != "random"]
        meet = len(from_files) * len(self.concurrency) > 1
        if self.share_server and meet and caches:
            raise ValueError(
                f"the loads of a shared server have prompts of {from_files[0]} in common, whose "
                "prefixes it keeps: leave out share-server, or set flags.enable-prefix-caching: "
                "false"
            )
        return self
