# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: Copyright contributors to the vLLM project
"""Helpers of `torch.accelerator` that vLLM calls, and an older PyTorch lacks.

They came with PyTorch 2.8 to 2.10, while a plugin may be bound to the PyTorch of its
chip. Each has an older counterpart in the module of the device, such as `torch.cuda`,
which is looked up when the helper is called. What PyTorch has is left alone.
`empty_host_cache` is not among them, as vLLM calls it in a try.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import ModuleType
from typing import Any

import torch

from vllm.logger import init_logger

logger = init_logger(__name__)

# The names in torch.accelerator, and in the module of a device. A device is a
# torch.device, str, int or None; memory is in bytes, get_memory_info is (free, total).
_COUNTERPARTS = {
    "device_index": "device",
    "empty_cache": "empty_cache",
    "get_memory_info": "mem_get_info",
    "max_memory_allocated": "max_memory_allocated",
    "memory_allocated": "memory_allocated",
    "memory_reserved": "memory_reserved",
    "memory_stats": "memory_stats",
    "reset_peak_memory_stats": "reset_peak_memory_stats",
}


def provide_accelerator_helpers() -> None:
    """Add to `torch.accelerator` what it lacks."""
    accelerator = getattr(torch, "accelerator", None)
    if accelerator is None:
        return
    missing = [name for name in _COUNTERPARTS if not hasattr(accelerator, name)]
    for name in missing:
        is_context = name == "device_index"
        helper = _device_index if is_context else _forward(_COUNTERPARTS[name])
        setattr(accelerator, name, helper)
    if missing:
        logger.warning(
            "PyTorch %s lacks helpers of torch.accelerator, which are taken from the "
            "module of the device: %s.",
            torch.__version__,
            ", ".join(missing),
        )


def _device_module() -> ModuleType:
    """The module of what PyTorch is built for, and torch.cuda where that is nothing."""
    accelerator = torch.accelerator.current_accelerator()
    module: ModuleType = torch.get_device_module(accelerator or "cuda")
    return module


def _forward(name: str) -> Callable[..., Any]:
    def helper(*args: Any, **kwargs: Any) -> Any:
        return getattr(_device_module(), name)(*args, **kwargs)

    helper.__name__ = helper.__qualname__ = name
    return helper


def _device_index(device: int | None, /) -> AbstractContextManager[Any]:
    """Make a device the current one within a block; None leaves it as it is."""
    return nullcontext() if device is None else _device_module().device(device)
