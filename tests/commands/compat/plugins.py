"""A small vLLM, a plugin for it, and what a next release may do to it."""

from __future__ import annotations

CORE = "vllm/core.py"
UTILS = "vllm/utils.py"
CONFIG = "vllm/config.py"
ENVS = "vllm/envs.py"
LAZY = "vllm/lazy/__init__.py"
VLLM = {
    CORE: b'''from abc import ABC, abstractmethod

from vllm.config import Config


class Worker(ABC):
    def __init__(self, config: Config, rank: int = 0):
        self.config = config
        self.seen = 0

    @abstractmethod
    def load(self):
        """Load the model."""

    def run(self, batch):
        return batch + 1

    async def stop(self):
        return None

    @property
    def size(self):
        return 1


class Runner(Worker):
    def load(self):
        return None

    def step(self, batch, *, fast=False):
        return self.run(batch)
''',
    UTILS: b"""def launch(config, mode="fast"):
    return config, mode


def close(handle):
    handle.close()
""",
    CONFIG: b"""from dataclasses import dataclass, field


@dataclass
class Config:
    depth: int
    width: int = 4
    names: list = field(default_factory=list)
""",
    ENVS: b"""environment_variables = {
    "VLLM_SPEED": lambda: 1,
}


def __getattr__(name):
    if name in environment_variables:
        return environment_variables[name]()
    raise AttributeError(name)
""",
    LAZY: b"""import importlib

_WHERE = {"Lazy": ".real"}


def __getattr__(name):
    if name in _WHERE:
        return getattr(importlib.import_module(_WHERE[name], __name__), name)
    raise AttributeError(name)
""",
    "vllm/plugins.py": b'GROUP = "vllm.general_plugins"\n',
    "vllm/lazy/real.py": b"class Lazy:\n    pass\n",
}
PLUGIN = b"""import vllm.utils
from vllm import envs
from vllm.config import Config
from vllm.core import Runner, Worker
from vllm.lazy import Lazy
from vllm.utils import close, launch


class MyWorker(Runner):
    def __init__(self, config: Config):
        super().__init__(config, rank=1)
        self.depth = config.depth

    def load(self):
        return None

    def run(self, batch):
        return self.seen + batch

    async def stop(self):
        return self.config.width

    def step(self, batch, *, fast=False):
        return super().step(batch, fast=fast)


class Bare(Worker):
    def load(self):
        return None


def start(config: Config):
    launch(config, mode="slow")
    close(config)
    return envs.VLLM_SPEED


def my_launch(config, mode="fast"):
    return config


vllm.utils.launch = my_launch
Runner.step = MyWorker.step
DEFAULT = Config(3, width=2)
"""


def write_plugin(folder, files=None, requires="vllm==0.50.0"):
    """Write a project with the plugin, which declares what it requires."""
    plugin = folder / "plugin"
    for path, text in {"my_plugin/__init__.py": PLUGIN, **(files or {})}.items():
        (plugin / path).parent.mkdir(parents=True, exist_ok=True)
        (plugin / path).write_bytes(text)
    dependency = f'dependencies = ["{requires}"]\n' if requires else ""
    (plugin / "pyproject.toml").write_text(f'[project]\nname = "my-plugin"\n{dependency}')
    return plugin


def mutated(changes):
    files = dict(VLLM)
    for path, before, after in changes:
        if before is None and after is None:
            del files[path]
        elif before is None:
            files[path] = after
        else:
            assert before in files[path], before
            files[path] = files[path].replace(before, after)
    return files
