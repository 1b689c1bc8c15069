# ruff: noqa: E501 - the code of a change is on one line
"""Changes as people carry them, each as the lines of a function before and after.

They are of the kinds that 26 public repositories carry: written anew, so that no code of others is
in here. `old` becomes `new` in `MODULE`.
"""

from __future__ import annotations

MODULE = '''\
"""A worker."""

import os
from dataclasses import dataclass

from engine.config import CacheConfig, ModelConfig
from engine.logger import init_logger
from engine.ops import attend, rotate

logger = init_logger(__name__)

MAX_LEN = 4096
KINDS = ["dense", "moe"]
NAMES = {
    "dense": "DenseModel",
    "moe": "MoeModel",
}


@dataclass
class Limits:
    tokens: int = 8192
    seqs: int = 256


class Worker:
    """Runs a model."""

    supports_graphs = False

    def __init__(self, config: ModelConfig, cache: CacheConfig, device="cuda"):
        self.config = config
        self.cache = cache
        self.device = device
        self.proj = Linear(config.hidden, config.hidden, bias=False)
        self.head = Linear(
            config.hidden,
            config.vocab,
            bias=False,
        )

        # Graphs need the memory first.
        if self.supports_graphs and device == "cuda":
            self.graphs = capture(self)

    def load(self, path):
        files = sorted(os.listdir(path))
        for name in files:
            if name.endswith(".bin"):
                weights = read(os.path.join(path, name))
                self.assign(weights)
        return len(files)

    def step(self, batch, *, sample=True):
        hidden = self.proj(batch.tokens)
        hidden = rotate(hidden, batch.positions)
        out = attend(hidden, self.cache, scale=self.config.scale)
        logits = self.head(out)
        if sample:
            return logits.argmax(-1)
        return logits

    def close(self):
        try:
            release(self.device)
        except OSError:
            logger.warning("not released")


def make(config, cache):
    kind = KINDS[0] if config.experts == 0 else KINDS[1]
    return NAMES[kind], Worker(config, cache)
'''
PAIRS: dict[str, tuple[str, str]] = {
    "name a layer": (
        "bias=False)\n        self.head",
        'bias=False, prefix="proj")\n        self.head',
    ),
    "name a layer over lines": (
        "            config.vocab,\n            bias=False,\n",
        '            config.vocab,\n            bias=False,\n            prefix="head",\n',
    ),
    "raise a limit": ("MAX_LEN = 4096", "MAX_LEN = 131072"),
    "raise a default of a dataclass": ("tokens: int = 8192", "tokens: int = 16384"),
    "switch a flag of a class": ("supports_graphs = False", "supports_graphs = True"),
    "widen a gate": ('device == "cuda":', 'device in ("cuda", "rocm"):'),
    "close a gate": ("if self.supports_graphs and", "if False and self.supports_graphs and"),
    "take another default": ('device="cuda"):', 'device="cpu"):'),
    "accept a further argument": ("*, sample=True)", "*, sample=True, mask=None)"),
    "accept an annotated argument": (
        '(self, config: ModelConfig, cache: CacheConfig, device="cuda"):',
        '(\n        self, config: ModelConfig, cache: CacheConfig, device="cuda", rank: int = 0\n    ):',
    ),
    "accept any argument": ("def make(config, cache):", "def make(config, cache, **kwargs):"),
    "hand on an argument": (
        "scale=self.config.scale)",
        "scale=self.config.scale, mask=batch.mask)",
    ),
    "guard an attribute": ("self.config.scale", 'getattr(self.config, "scale", 1.0)'),
    "convert a type": ("attend(hidden,", "attend(hidden.float(),"),
    "call another function": (
        "rotate(hidden, batch.positions)",
        "rotate_neox(hidden, batch.positions)",
    ),
    "import a further name": ("import attend, rotate\n", "import attend, rotate, rotate_neox\n"),
    "import a module": ("import os\n", "import os\nimport time\n"),
    "import behind a gate": (
        "logger = init_logger(__name__)\n",
        (
            "logger = init_logger(__name__)\n\ntry:\n    import native\n"
            "except ImportError:\n    native = None\n"
        ),
    ),
    "log a line": (
        "        logits = self.head(out)\n",
        '        logits = self.head(out)\n        logger.debug("%d tokens", len(batch.tokens))\n',
    ),
    "return early": (
        "        files = sorted(os.listdir(path))\n",
        (
            "        if not os.path.isdir(path):\n            return 0\n"
            "        files = sorted(os.listdir(path))\n"
        ),
    ),
    "skip some files": (
        "        for name in files:\n",
        '        for name in files:\n            if name.startswith("."):\n                continue\n',
    ),
    "read another kind of file": ('endswith(".bin")', 'endswith((".bin", ".pt"))'),
    "set an attribute set apart": (
        "        # Graphs need the memory first.\n",
        "        self.steps = 0\n\n        # Graphs need the memory first.\n",
    ),
    "add a helper": (
        "\n\ndef make(",
        '\n\ndef on_rocm():\n    """Whether this is ROCm."""\n    return torch.version.hip is not None\n\n\ndef make(',
    ),
    "add a method": (
        "    def close(self):",
        "    def reset(self):\n        self.cache.clear()\n\n    def close(self):",
    ),
    "add a class": (
        "\n\nclass Worker:",
        "\n\nclass WorkerError(Exception):\n    pass\n\n\nclass Worker:",
    ),
    "derive from a mixin": ("class Worker:", "class Worker(Mixin):"),
    "decorate a method": ("    def step(", "    @torch.inference_mode()\n    def step("),
    "catch more": ("except OSError:", "except (OSError, RuntimeError):"),
    "wrap a statement": (
        "        out = attend(hidden, self.cache, scale=self.config.scale)\n",
        "        with record():\n            out = attend(hidden, self.cache, scale=self.config.scale)\n",
    ),
    "wrap several statements": (
        "        hidden = self.proj(batch.tokens)\n        hidden = rotate(hidden, batch.positions)\n",
        (
            "        if batch.tokens is not None:\n            hidden = self.proj(batch.tokens)\n"
            "            hidden = rotate(hidden, batch.positions)\n"
        ),
    ),
    "one statement into two": (
        "        logits = self.head(out)\n",
        "        out = out.contiguous()\n        logits = self.head(out)\n",
    ),
    "take a statement away": ("        hidden = rotate(hidden, batch.positions)\n", ""),
    "take a branch away": ("        if sample:\n            return logits.argmax(-1)\n", ""),
    "take a keyword away": (", scale=self.config.scale)", ")"),
    "register a model": (
        '    "moe": "MoeModel",\n',
        '    "moe": "MoeModel",\n    "hybrid": "HybridModel",\n',
    ),
    "list a kind": ('KINDS = ["dense", "moe"]', 'KINDS = ["dense", "moe", "hybrid"]'),
    "another branch": (
        "            return logits.argmax(-1)\n        return logits\n",
        "            return logits.argmax(-1)\n        else:\n            return logits\n",
    ),
    "reword a comment": ("# Graphs need the memory first.", "# Graphs take memory: first of all."),
    "reword a docstring": ('"""Runs a model."""', '"""Runs one model on one device."""'),
}
