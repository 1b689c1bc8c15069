"""The fusion passes on builds that lack operators, in processes of their own.

A process imports once only, and what is declared there stays. The kernels are those of
the CPU build, which has none of the fused ones.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from os import environ, pathsep
from pathlib import Path
from typing import Any

import pytest

# From 0.26 on vLLM asks for this one before it names it.
PER_BLOCK_QUANT = "rms_norm_per_block_quant"
PACKAGE = Path(importlib.util.find_spec("vllm").submodule_search_locations[0])
PASS = PACKAGE / "compilation" / "passes" / "fusion" / "rms_quant_fusion.py"
ASKED = f'hasattr(torch.ops._C, "{PER_BLOCK_QUANT}")' in PASS.read_text()
# What vLLM names on import, and its CPU build lacks.
DECLARED = {
    "_C::fused_add_rms_norm_static_fp8_quant",
    "_C::fused_qk_norm_rope",
    "_C::rms_norm_dynamic_per_token_quant",
    "_C::rms_norm_static_fp8_quant",
    "_C::silu_and_mul_quant",
} | (set() if ASKED else {f"_C::{PER_BLOCK_QUANT}"})
ON_CUDA_ALIKE = DECLARED | {"_C::silu_and_mul_per_block_quant"}
WITHOUT_KERNELS = ON_CUDA_ALIKE | {
    "_C::dynamic_per_token_scaled_fp8_quant",
    "_C::dynamic_scaled_fp8_quant",
    "_C::fused_add_rms_norm",
    "_C::rotary_embedding",
    "_C::silu_and_mul",
    "_C::static_scaled_fp8_quant",
}

# By these vLLM asks what a build can do: hasattr(torch.ops._C, NAME).
PROBES = [
    "allspark_w8a16_gemm",
    "awq_dequantize",
    "awq_gemm",
    "awq_marlin_repack",
    "cutlass_pack_scale_fp8",
    "cutlass_scaled_mm",
    "cutlass_w4a8_mm",
    "fp32_router_gemm",
    "ggml_dequantize",
    "gptq_gemm",
    "gptq_marlin_repack",
    "hadacore_transform",
    "machete_mm",
    "marlin_gemm",
    "minimax_allreduce_rms_qk",
    "mxfp8_experts_quant",
    "per_token_group_fp8_quant",
    "permute_cols",
    "scaled_fp4_quant",
    "silu_and_mul_nvfp4_quant",
]

# Runs in front of every script below.
PRELUDE = """
import gc, json, sys
import torch

def report(**found):
    print("found:" + json.dumps(found), flush=True)

def operators():
    names = torch._C._dispatch_get_all_op_names()
    return {name for name in names if name.startswith("_C::")}

def overloads(name):
    schemas = torch._C._jit_get_schemas_for_operator(name)
    return sorted(schema.overload_name for schema in schemas)

def outcome(call):
    try:
        return repr(call())
    except Exception as error:
        return f"{type(error).__name__}: {error}"

def import_fusion_modules():
    from importlib import import_module
    from importlib.util import find_spec
    for name in (
        "act_quant_fusion", "allreduce_rms_fusion", "attn_quant_fusion",
        "mla_attn_quant_fusion", "mla_rope_kvcache_cat_fusion", "qk_norm_rope_fusion",
        "rms_quant_fusion", "rope_kvcache_fusion", "sequence_parallelism",
    ):
        if find_spec(f"vllm.compilation.passes.fusion.{name}"):
            import_module(f"vllm.compilation.passes.fusion.{name}")
"""

# A platform of another chip: it looks like CUDA, and its kernels are those of the CPU
# build. With them comes, as late as may be, the operator REGISTERED.
PLATFORM = """
import os
import torch
from vllm.platforms.cpu import CpuPlatform
from vllm.platforms.interface import PlatformEnum

library = None

def fill(result, *rest):
    result.fill_(7)

class OtherPlatform(CpuPlatform):
    _enum = PlatformEnum.OOT

    def is_cuda_alike(self):
        return True

    @classmethod
    def import_kernels(cls):
        global library
        if "NO_KERNELS" not in os.environ:
            super().import_kernels()
        schema = os.environ.get("REGISTERED")
        if schema and library is None:
            library = torch.library.Library("_C", "FRAGMENT")
            library.define(schema)
            library.impl(schema.partition("(")[0], fill, "CPU")

def register():
    return "other_platform.OtherPlatform"
"""

REAL = (
    "rms_norm_static_fp8_quant(Tensor! result, Tensor input, Tensor weight, "
    "Tensor scale, float epsilon) -> ()"
)


class Ended(Exception):
    """A process died; says of what."""


def run(folder: Path, script: str, **environment: str) -> dict[str, Any]:
    """Run a script in a new Python and return what it reported."""
    (folder / "script.py").write_text(PRELUDE + script)
    path = pathsep.join([str(folder), environ.get("PYTHONPATH", "")])
    ended = subprocess.run(
        [sys.executable, str(folder / "script.py")],
        cwd=folder,
        env={
            **environ,
            **environment,
            "PYTHONPATH": path,
            "VLLM_LOGGING_LEVEL": "INFO",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if ended.returncode != 0:
        raise Ended(ended.stdout.strip()[-3000:])
    (line,) = (line for line in ended.stdout.splitlines() if line.startswith("found:"))
    found: dict[str, Any] = json.loads(line.removeprefix("found:"))
    return found | {"output": ended.stdout}


def install_platform(folder: Path) -> None:
    """Put the platform where vLLM finds it, by its entry point."""
    (folder / "other_platform.py").write_text(PLATFORM)
    metadata = folder / "other_platform-1.0.dist-info"
    metadata.mkdir()
    about = "Metadata-Version: 2.1\nName: other-platform\nVersion: 1.0\n"
    (metadata / "METADATA").write_text(about)
    (metadata / "entry_points.txt").write_text(
        "[vllm.platform_plugins]\nother = other_platform:register\n"
    )


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What is there after the fusion modules were imported on the CPU platform."""
    script = """
import vllm._custom_ops
before = operators()
import_fusion_modules()
new = sorted(operators() - before)
gc.collect()

x = torch.ones(2, 64)
def declared():
    torch.ops._C.silu_and_mul_quant(torch.empty(2, 32), x, torch.ones(1))

from torch._higher_order_ops import auto_functionalized
from torch._subclasses import FakeTensorMode
def traced():
    with FakeTensorMode():
        return auto_functionalized(
            torch.ops._C.silu_and_mul_quant.default,
            result=torch.empty(2, 32), input=torch.empty(2, 64), scale=torch.empty(1),
        )[1].shape

report(
    new=new,
    kept=sorted(operators() - before),
    called=outcome(declared),
    traced=outcome(traced),
    real=outcome(lambda: torch.ops._C.silu_and_mul(torch.empty(2, 32), x)),
    overloads=overloads("_C::silu_and_mul"),
)
"""
    return run(tmp_path_factory.mktemp("imported"), script)


def test_fusion_modules_import(imported: dict[str, Any]) -> None:
    assert set(imported["new"]) == DECLARED


def test_no_probe_is_declared(imported: dict[str, Any]) -> None:
    assert not {name.removeprefix("_C::") for name in imported["new"]} & set(PROBES)


def test_declarations_outlive_a_garbage_collection(imported: dict[str, Any]) -> None:
    assert imported["kept"] == imported["new"]


def test_call_of_a_declared_operator_raises(imported: dict[str, Any]) -> None:
    assert (
        "NotImplementedError: _C::silu_and_mul_quant is not in this build"
        in imported["called"]
    )
    assert "fuse_act_quant" in imported["called"]


def test_declared_operator_can_be_traced(imported: dict[str, Any]) -> None:
    assert imported["traced"] == "torch.Size([2, 32])"


def test_operators_of_the_build_stay_as_they_are(imported: dict[str, Any]) -> None:
    assert imported["real"] == "None"
    assert imported["overloads"] == [""]


def test_what_was_declared_is_logged_once(imported: dict[str, Any]) -> None:
    lines = [
        line for line in imported["output"].splitlines() if "lacks operators" in line
    ]
    assert len(lines) == 1
    assert all(name.removeprefix("_C::") in lines[0] for name in DECLARED)


@pytest.mark.parametrize("process", ["main", "spawned"])
def test_pass_manager_imports_on_a_platform_like_cuda(
    tmp_path: Path, process: str
) -> None:
    install_platform(tmp_path)
    script = f"""
def look(queue=None):
    from vllm.platforms import current_platform
    assert current_platform.is_cuda_alike() and not current_platform.is_cuda()
    import vllm._custom_ops
    before = operators()
    try:
        import vllm.compilation.passes.pass_manager
        found = {{"new": sorted(operators() - before)}}
    except Exception as error:
        if queue is None:
            raise
        found = {{"died": f"{{type(error).__name__}}: {{error}}"}}
    queue.put(found) if queue else report(**found)

if __name__ == "__main__":
    if {process == "main"}:
        look()
    else:
        from vllm.utils.system_utils import get_mp_context
        context = get_mp_context()
        assert context.get_start_method() == "spawn"
        queue = context.Queue()
        worker = context.Process(target=look, args=(queue,))
        worker.start()
        found = queue.get(timeout=300)
        worker.join()
        assert "died" not in found, found["died"]
        report(**found)
"""
    found = run(tmp_path, script, VLLM_WORKER_MULTIPROC_METHOD="spawn")
    assert set(found["new"]) == ON_CUDA_ALIKE


def test_pass_manager_imports_without_any_kernels(tmp_path: Path) -> None:
    install_platform(tmp_path)
    script = """
import vllm.compilation.passes.pass_manager
report(new=sorted(operators()))
"""
    assert set(run(tmp_path, script, NO_KERNELS="1")["new"]) == WITHOUT_KERNELS


def test_kernels_that_the_platform_loads_late_come_first(tmp_path: Path) -> None:
    """Only a fusion pass is imported, which sees to it that the kernels are loaded."""
    install_platform(tmp_path)
    script = """
before = operators()
import vllm.compilation.passes.fusion.rms_quant_fusion
result = torch.zeros(2)
torch.ops._C.rms_norm_static_fp8_quant(result, result, result, result, 1e-6)
report(result=result.tolist(), overloads=overloads("_C::rms_norm_static_fp8_quant"))
"""
    found = run(tmp_path, script, REGISTERED=REAL)
    assert found["result"] == [7, 7]
    assert found["overloads"] == [""]
    (line,) = (
        line for line in found["output"].splitlines() if "lacks operators" in line
    )
    assert " rms_norm_static_fp8_quant" not in line
    assert "fused_add_rms_norm_static_fp8_quant" in line


@pytest.mark.parametrize(
    "first", ["vllm._custom_ops", "vllm.compilation.passes.pass_manager"]
)
def test_fp4_quantisation_without_its_out_overload(tmp_path: Path, first: str) -> None:
    install_platform(tmp_path)
    base = (
        "scaled_fp4_quant(Tensor input, Tensor input_scale, bool is_sf_swizzled_layout)"
        " -> (Tensor, Tensor)"
    )
    script = f"""
import {first}
import vllm._custom_ops
import vllm.compilation.passes.fusion.allreduce_rms_fusion as fusion
x = torch.ones(2, 16)
def out():
    torch.ops._C.scaled_fp4_quant.out(x, x, True, output=x, output_scale=x)
def traced():
    from torch._subclasses import FakeTensorMode
    with FakeTensorMode() as mode:
        fake = mode.from_tensor(x)
        made = torch.ops._C.scaled_fp4_quant(fake, fake, False)
        torch.ops._C.scaled_fp4_quant.out(
            fake, fake, False, output=made[0], output_scale=made[1]
        )
        return [tuple(t.shape) for t in made]
report(
    overloads=overloads("_C::scaled_fp4_quant"),
    out=outcome(out),
    named=str(fusion.STATIC_FP4_QUANT_OP),
    traced=outcome(traced),
)
"""
    found = run(tmp_path, script, REGISTERED=base)
    assert found["overloads"] == ["", "out"]
    assert (
        "NotImplementedError: _C::scaled_fp4_quant.out is not in this build"
        in found["out"]
    )
    assert found["named"] == "_C.scaled_fp4_quant.out"
    assert found["traced"] == "[(2, 8), (2, 1)]"


def test_accelerator_helpers_that_pytorch_lacks(tmp_path: Path) -> None:
    """PyTorch as it was at 2.6, with a CUDA that notes what is asked of it."""
    script = """
# A newer PyTorch asks for the helpers itself when these are imported.
import torch._dynamo, torch._inductor

calls = []
def noting(name, value=None):
    def call(*args):
        calls.append([name, *map(str, args)])
        return value
    return call

class Device:
    def __init__(self, device):
        self.device = device
    def __enter__(self):
        calls.append(["enter", self.device])
    def __exit__(self, *raised):
        calls.append(["exit", self.device])

for name in (
    "device_index", "empty_cache", "get_memory_info", "max_memory_allocated",
    "memory_allocated", "memory_reserved", "memory_stats", "reset_peak_memory_stats",
):
    delattr(torch.accelerator, name)
torch.cuda.device = Device
torch.cuda.empty_cache = noting("empty_cache")
torch.cuda.mem_get_info = noting("mem_get_info", (1, 2))
torch.cuda.max_memory_allocated = noting("max_memory_allocated", 3)
torch.cuda.memory_allocated = noting("memory_allocated", 4)
torch.cuda.memory_reserved = noting("memory_reserved", 5)
peak = {"allocated_bytes.all.peak": 6}
torch.cuda.memory_stats = noting("memory_stats", peak)
torch.cuda.reset_peak_memory_stats = noting("reset_peak_memory_stats")

from vllm.platforms import current_platform
from vllm.utils.mem_utils import MemorySnapshot
type(current_platform).mem_get_info = classmethod(lambda cls, device: (1, 2))
snapshot = MemorySnapshot(device=torch.device("cpu"), auto_measure=False)
snapshot.measure()
measured = [*calls]
calls.clear()

torch.accelerator.empty_cache()
free = torch.accelerator.get_memory_info(3)
with torch.accelerator.device_index(4):
    allocated = torch.accelerator.memory_allocated()
with torch.accelerator.device_index(None):
    torch.accelerator.reset_peak_memory_stats(torch.device("cuda", 2))
most = torch.accelerator.max_memory_allocated()
report(
    snapshot=[snapshot.torch_peak, snapshot.torch_memory],
    measured=measured,
    values=[free, allocated, most],
    calls=calls,
)
"""
    found = run(tmp_path, script)
    assert found["snapshot"] == [6, 5]
    # Newer releases also ask for the free memory there, and not the platform.
    measured = [call for call in found["measured"] if call[0] != "mem_get_info"]
    assert measured == [["memory_stats", "cpu"], ["memory_reserved", "cpu"]]
    assert found["values"] == [[1, 2], 4, 3]
    assert found["calls"] == [
        ["empty_cache"],
        ["mem_get_info", "3"],
        ["enter", 4],
        ["memory_allocated"],
        ["exit", 4],
        ["reset_peak_memory_stats", "cuda:2"],
        ["max_memory_allocated"],
    ]
    (line,) = (line for line in found["output"].splitlines() if "lacks helpers" in line)
    assert "device_index" in line
    assert "device_count" not in line


def test_accelerator_helpers_that_pytorch_has_stay(tmp_path: Path) -> None:
    script = """
before = dict(vars(torch.accelerator))
import vllm
after = dict(vars(torch.accelerator))
same = all(before[name] is after.get(name) for name in before)
report(same=same and before.keys() == after.keys())
"""
    assert run(tmp_path, script)["same"]


def test_import_of_vllm_loads_no_kernels(tmp_path: Path) -> None:
    script = """
import vllm
late = {"vllm._C", "vllm._C_AVX2", "vllm._C_AVX512", "vllm._custom_ops",
        "vllm.compat_ops"}
report(loaded=sorted(late & sys.modules.keys()), operators=sorted(operators()))
"""
    found = run(tmp_path, script)
    assert (found["loaded"], found["operators"]) == ([], [])


def test_cpu_platform_declares_nothing(tmp_path: Path) -> None:
    script = """
import vllm._custom_ops
before = operators()
import vllm.compilation.passes.pass_manager
report(new=sorted(operators() - before), out="_C::scaled_fp4_quant.out" in before)
"""
    found = run(tmp_path, script)
    assert (found["new"], found["out"]) == ([], False)
    assert "lacks" not in found["output"]
