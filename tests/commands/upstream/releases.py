"""Real trees of vLLM, from the user's own index and cache."""

from __future__ import annotations

import os

from vpatch.progress import Silent
from vpatch.source.cache import Cache, default_cache_folder
from vpatch.source.pip_settings import read_pip_settings
from vpatch.source.resolve import open_tree
from vpatch.source.spec import PypiSpec


def release(version):
    return open_tree(
        PypiSpec("vllm", version),
        cache=Cache(default_cache_folder()),
        settings=read_pip_settings(os.environ),
        offline=False,
        progress=Silent(),
    )
