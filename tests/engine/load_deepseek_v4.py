"""Loads the tiny DeepSeek-V4 checkpoint with vLLM's own code, in an engine that has no GPU.

    PYTHON load_deepseek_v4.py FOLDER

It prints, as JSON on the last line, what vLLM makes of the config and of each tensor. What is
replaced is what asks for a GPU before there is anything to compute: the platform, streams, events,
the compiled modules that the platform imports, and DeepGEMM's presence. No kernel runs.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from unittest import mock

# ruff: noqa: E402 - what is imported asks for these as it is imported.
_HUMMING = ("", ".config", ".dtypes", ".layer", ".schema", ".utils", ".utils.weight")
for _name in (
    "vllm._C_stable_libtorch",
    "vllm.vllm_flash_attn",
    *("humming" + n for n in _HUMMING),
):
    sys.modules[_name] = mock.MagicMock()

import torch
from safetensors.torch import load_file
from torch.utils._python_dispatch import TorchDispatchMode
from vllm import platforms
from vllm.platforms.cpu import CpuPlatform

# `vllm._C`, which cuda.py imports, is for CPUs with AVX-512 here. This loads what this CPU can run.
CpuPlatform.import_kernels()
sys.modules.setdefault("vllm._C", mock.MagicMock())

from vllm.platforms import cuda
from vllm.platforms.interface import DeviceCapability


class Hopper(cuda.NonNvmlCudaPlatform):
    # Whatever is allocated for the device goes into memory.
    device_type = "cpu"

    @classmethod
    def get_device_capability(cls, device_id=0):
        del device_id
        return DeviceCapability(9, 0)

    @classmethod
    def get_device_name(cls, device_id=0):
        del device_id
        return "Hopper"

    @classmethod
    def get_device_total_memory(cls, device_id=0):
        del device_id
        return 80 << 30


class Spy(TorchDispatchMode):
    """Sees what is copied into the storage of what, through all views and copies on the way."""

    def __init__(self, sources, targets):
        super().__init__()
        self.names = {_place(tensor): name for name, tensor in sources.items()}
        self.targets = {_place(tensor): name for name, tensor in targets.items()}
        self.written = dict.fromkeys(targets, 0)
        self.read, self.converted = set(), set()
        self._alive = []

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        result = function(*arguments, **keywords or {})
        aten = torch.ops.aten
        if function is aten.copy_.default:
            self._write(arguments[0], arguments[1])
        elif function is aten.clone.default:
            # Where it lies must not be given to another while this looks on.
            self._alive.append(result)
            self.names[_place(result)] = self.names.get(_place(arguments[0]))
        elif function is aten._local_scalar_dense.default:
            self.read.add(self.names.get(_place(arguments[0])))
        elif function is aten.fill_.Scalar:
            self._count(arguments[0])
        return result

    def _write(self, target, source):
        name = self.names.get(_place(source))
        if self._count(target):
            self.read.add(name)
            if (target.shape, target.dtype) != (source.shape, source.dtype):
                self.converted.add(name)

    def _count(self, target):
        name = self.targets.get(_place(target))
        if name is not None:
            self.written[name] += target.numel()
        return name is not None


def _place(tensor):
    return tensor.untyped_storage().data_ptr()


def load(model, tensors, own):
    """Load the tensors, and tell which of its own were not taken, or not as they are.

    All are given, as vLLM does: those of the other model are `strange` where they are taken. `gaps`
    are parameters of which another number of elements was written than they have.
    """
    parameters = dict(model.named_parameters())
    spy = Spy(tensors, parameters)
    with spy:
        model.load_weights(iter(tensors.items()))
    gaps = {
        name: [count, parameters[name].numel()]
        for name, count in spy.written.items()
        if count != parameters[name].numel()
    }
    dtypes = {name: str(parameter.dtype) for name, parameter in parameters.items()}
    return {
        "unread": sorted(own - spy.read),
        "strange": sorted(spy.read - own - {None}),
        "converted": sorted(spy.converted),
        "gaps": gaps,
        "dtypes": dtypes,
    }


def engine_config(folder, k):
    from vllm.engine.arg_utils import EngineArgs

    speculative = {"method": "mtp", "num_speculative_tokens": k}
    arguments = EngineArgs(
        model=str(folder),
        speculative_config=speculative,
        kv_cache_dtype="fp8",
        block_size=256,
        max_model_len=1024,
        max_num_batched_tokens=1024,
        max_num_seqs=4,
        enforce_eager=True,
    )
    return arguments.create_engine_config()


def main(folder: Path) -> dict:
    from vllm.config import set_current_vllm_config
    from vllm.distributed import init_distributed_environment, initialize_model_parallel
    from vllm.model_executor.model_loader.utils import initialize_model
    from vllm.tokenizers import get_tokenizer
    from vllm.utils.torch_utils import set_default_torch_dtype

    told = {"speculative": []}
    for k in (1, 2, 3):
        config = engine_config(folder, k)
        speculative = config.speculative_config
        draft = speculative.draft_model_config
        asked = [speculative.method, speculative.num_speculative_tokens]
        told["speculative"].append([*asked, draft.architecture, draft.quantization])
    tensors = {name: t.clone() for name, t in load_file(folder / "model.safetensors").items()}
    with set_current_vllm_config(config), tempfile.TemporaryDirectory() as workdir:
        init_distributed_environment(1, 0, f"file://{workdir}/store", 0, "gloo")
        initialize_model_parallel(1, 1)
        with set_default_torch_dtype(torch.bfloat16):
            target = initialize_model(config)
            block = initialize_model(config, model_config=draft)
    of_block = {name for name in tensors if name.startswith("mtp.")}
    told["target"] = load(target, tensors, tensors.keys() - of_block)
    try:
        told["mtp"] = load(block, tensors, of_block)
    except KeyError as error:
        told["mtp"] = {"missing": error.args[0]}
    else:
        told["mtp"]["o_proj"] = o_projection(block.model.layers["3"].mtp_block.attn)
    told["cache"] = cache_groups(config)
    told["tokens"] = get_tokenizer(folder, tokenizer_mode="deepseek_v4").encode("<003><010> a")
    return told


def o_projection(attention):
    """The shape of what the block's own O projection makes of 5 tokens, or why it does not."""
    heads = torch.zeros(5, attention.n_local_heads, attention.head_dim, dtype=torch.bfloat16)
    try:
        return list(attention._o_proj(heads, torch.arange(5)).shape)
    except (AttributeError, NotImplementedError) as error:
        return f"{type(error).__name__}: {error}"


def cache_groups(config):
    """The layers that share a table of blocks, as the engine would lay them out."""
    from vllm.v1.core.kv_cache_utils import get_kv_cache_config_from_groups, get_kv_cache_groups

    layers = config.compilation_config.static_forward_context
    asked = {
        name: layer.get_kv_cache_spec(config)
        for name, layer in layers.items()
        if hasattr(layer, "get_kv_cache_spec")
    }
    groups = get_kv_cache_groups(config, {n: spec for n, spec in asked.items() if spec})
    laid_out = get_kv_cache_config_from_groups(config, groups, 1 << 30)
    assert laid_out.num_blocks > 0
    return [sorted(group.layer_names) for group in groups]


if __name__ == "__main__":
    platforms._current_platform = Hopper()
    for _name in ("cutlass_scaled_mm_supports_fp8", "cutlass_scaled_mm_supports_block_fp8"):
        torch.library.define(f"_C::{_name}", "(int capability) -> bool")
        torch.library.impl(f"_C::{_name}", "default", lambda _: True)
    torch.library.define("_C::silu_and_mul_with_clamp", "() -> ()")
    with (
        mock.patch("torch.cuda.Stream"),
        mock.patch("torch.cuda.Event"),
        mock.patch("vllm.utils.import_utils.has_deep_gemm", return_value=True),
    ):
        sys.stdout.write(json.dumps(main(Path(sys.argv[1]))) + "\n")
