"""The O projection in every shape, on a CPU, with the GPU kernels replaced."""

from __future__ import annotations

import ast
import importlib.util
import os
import sys
from dataclasses import replace
from itertools import product
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch
from o_proj_reference import Case, assert_near, projected, random_case, turned_back
from torch import nn

from vllm.config import VllmConfig, set_current_vllm_config
from vllm.distributed import (
    cleanup_dist_env_and_memory,
    init_distributed_environment,
    initialize_model_parallel,
)
from vllm.model_executor.layers.linear import ColumnParallelLinear, RowParallelLinear
from vllm.models.deepseek_v4.common.rope import build_deepseek_v4_rope
from vllm.models.deepseek_v4.nvidia import flashinfer_sparse, flashmla
from vllm.models.deepseek_v4.nvidia.ops import o_proj

HIDDEN = 96
WRAPPER = "DeepseekV4MultiHeadLatentAttentionWrapper"
EXAMPLES = Path(__file__).parent / "examples"
# Every shape of a release, as the examples show it after the patch.
SHAPES = {
    path.parts[len(EXAMPLES.parts)]: path
    for path in sorted(EXAMPLES.glob("needed-0.*/after/**/*.py"))
}


class Linear(nn.Module):
    """A linear layer as the O projection sees it: named parameters, and a call."""

    def __init__(self, **parameters: torch.Tensor) -> None:
        super().__init__()
        for name, value in parameters.items():
            setattr(self, name, nn.Parameter(value, requires_grad=False))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


@pytest.fixture(scope="module", autouse=True)
def one_rank(tmp_path_factory):
    """A process group of one, which vLLM's parallel layers ask for."""
    with set_current_vllm_config(VllmConfig()):
        store = tmp_path_factory.mktemp("store") / "file"
        init_distributed_environment(1, 0, f"file://{store}", 0, "gloo")
        initialize_model_parallel(1)
        yield
        cleanup_dist_env_and_memory()


@pytest.fixture(autouse=True)
def kernels(monkeypatch):
    """Put recorders in the place of the two GPU kernels; they fill what they return."""
    calls: list[tuple[str, tuple, dict]] = []

    def fused_inv_rope_fp8_quant(o, *args, **kwargs):
        calls.append(("quant", (o, *args), kwargs))
        return torch.tensor(7), torch.tensor(8)

    def fp8_einsum(*args, **kwargs):
        calls.append(("einsum", args, kwargs))
        args[3].copy_(torch.arange(args[3].numel()).reshape(args[3].shape))

    monkeypatch.setattr(o_proj, "fused_inv_rope_fp8_quant", fused_inv_rope_fp8_quant)
    monkeypatch.setattr(o_proj, "fp8_einsum", fp8_einsum)
    return calls


def project(case: Case, wo_a: nn.Module, wo_b: nn.Module | None = None, function=None):
    """Call the O projection as the attention layers do."""
    return (function or o_proj.deep_gemm_fp8_o_proj)(
        case.o,
        case.positions,
        case.cos_sin_cache,
        wo_a,
        wo_b or Linear(),
        n_groups=case.n_groups,
        heads_per_group=case.heads_per_group,
        nope_dim=case.nope_dim,
        rope_dim=case.rope_dim,
        o_lora_rank=case.rank,
        einsum_recipe=(1, 128, 128),
        tma_aligned_scales=False,
    )


def layers(case: Case) -> tuple[ColumnParallelLinear, RowParallelLinear, torch.Tensor]:
    """wo_a and wo_b as vLLM builds them where they are not quantised; wo_b's weight."""
    wo_a = ColumnParallelLinear(
        case.weight.shape[1],
        case.weight.shape[0],
        bias=False,
        return_bias=False,
        params_dtype=torch.bfloat16,
        prefix="model.layers.0.attn.wo_a",
    )
    wo_a.is_bmm = True
    wo_a.bmm_batch_size = case.n_groups
    wo_b = RowParallelLinear(
        case.weight.shape[0],
        HIDDEN,
        bias=False,
        return_bias=False,
        params_dtype=torch.bfloat16,
        prefix="model.layers.0.attn.wo_b",
    )
    generator = torch.Generator().manual_seed(1)
    weight_b = (
        torch.randn(wo_b.weight.shape, generator=generator)
        / wo_b.weight.shape[1] ** 0.5
    )
    wo_a.weight.data.copy_(case.weight)
    wo_b.weight.data.copy_(weight_b)
    # On the CPU alone this packs the weight; wo_a is read as it was loaded.
    wo_b.quant_method.process_weights_after_loading(wo_b)
    return wo_a, wo_b, weight_b.to(torch.bfloat16)


def assert_same(one: torch.Tensor, other: torch.Tensor) -> None:
    """Accept that a CPU adds up in another order where a matrix lies otherwise."""
    torch.testing.assert_close(one, other, rtol=2.0**-7, atol=2.0**-10)
    assert (one == other).double().mean() > 0.98


# --- an unquantised wo_a --------------------------------------------------------------


@pytest.mark.parametrize("tokens", [0, 1, 9])
def test_unquantised_layers(tokens, kernels):
    case = random_case(tokens, tokens=tokens)
    wo_a, wo_b, weight_b = layers(case)
    result = project(case, wo_a, wo_b)
    z = projected(case).to(torch.bfloat16).double()
    assert result.shape == (tokens, HIDDEN)
    assert_near(result, z @ weight_b.double().T)
    assert kernels == []


@pytest.mark.parametrize(
    "backend",
    [
        flashmla.DeepseekV4FlashMLAAttention,
        flashinfer_sparse.DeepseekV4FlashInferMLAAttention,
    ],
)
def test_both_backends(backend):
    case = random_case(3, tokens=5)
    wo_a, wo_b, weight_b = layers(case)
    layer = SimpleNamespace(
        rotary_emb=SimpleNamespace(cos_sin_cache=case.cos_sin_cache),
        wo_a=wo_a,
        wo_b=wo_b,
        n_local_groups=case.n_groups,
        n_local_heads=case.o.shape[1],
        nope_head_dim=case.nope_dim,
        rope_head_dim=case.rope_dim,
        o_lora_rank=case.rank,
        _einsum_recipe=(1, 128, 128),
        _tma_aligned_scales=False,
    )
    z = projected(case).to(torch.bfloat16).double()
    assert_near(backend._o_proj(layer, case.o, case.positions), z @ weight_b.double().T)


@pytest.mark.parametrize(
    ("n_groups", "heads_per_group", "nope_dim", "rope_dim"),
    [
        (1, 1, 448, 64),
        (8, 8, 448, 64),
        (2, 16, 192, 64),
        (3, 5, 96, 32),
        (4, 1, 0, 128),
    ],
)
def test_random_shapes(n_groups, heads_per_group, nope_dim, rope_dim):
    for tokens, spare_heads in product((0, 1, 2, 17), (0, 7)):
        case = random_case(
            tokens,
            tokens=tokens,
            n_groups=n_groups,
            heads_per_group=heads_per_group,
            nope_dim=nope_dim,
            rope_dim=rope_dim,
            rank=24,
            spare_heads=spare_heads,
        )
        assert case.o.is_contiguous() is (spare_heads == 0 or tokens < 2)
        grouped = case.weight.view(n_groups, 24, -1)
        for weight in (case.weight, grouped):
            assert_near(project(case, Linear(weight=weight)), projected(case))


def test_the_rotation_is_not_rounded_on_its_way():
    """With ones on the diagonal the heads come out, which tell float32 from bf16."""
    case = random_case(5, tokens=64, n_groups=2, heads_per_group=2, rank=1024)
    case = replace(case, weight=torch.eye(1024, dtype=torch.bfloat16).repeat(2, 1))
    heads = project(case, Linear(weight=case.weight)).reshape(case.o.shape)
    exact = turned_back(case)
    assert torch.equal(heads[..., :448], case.o[..., :448])
    # Float32 and float64 differ where a value is all but in the middle of two of bf16.
    same = (heads == exact.to(torch.bfloat16)).double().mean()
    assert same > 0.9999
    assert_near(heads, exact)


def test_it_undoes_what_the_rotary_embedding_does():
    """vLLM's own embedding turns heads, and the O projection turns them back."""
    config = SimpleNamespace(
        rope_theta=10000.0,
        compress_rope_theta=160000.0,
        rope_parameters={
            "rope_type": "yarn",
            "factor": 4.0,
            "original_max_position_embeddings": 2048,
        },
    )
    embedding = build_deepseek_v4_rope(
        config,
        head_dim=512,
        rope_head_dim=64,
        max_position_embeddings=2048,
        compress_ratio=4,
    )
    case = random_case(6, tokens=32, n_groups=1, heads_per_group=2, rank=1024)
    heads = case.o.contiguous()
    turned, _ = embedding.forward_native(case.positions, heads)
    case = replace(
        case,
        o=turned,
        cos_sin_cache=embedding.cos_sin_cache,
        weight=torch.eye(1024, dtype=torch.bfloat16),
    )
    back = project(case, Linear(weight=case.weight)).reshape(heads.shape)
    assert not torch.allclose(turned, heads, atol=0.5)
    torch.testing.assert_close(back, heads, rtol=2.0**-6, atol=2.0**-5)
    natively, _ = embedding.forward_native(case.positions, turned, inverse=True)
    assert torch.equal(back, natively)


def test_ranks_make_the_whole():
    """A rank of a tensor-parallel group has whole groups, and their rows of wo_a."""
    whole = random_case(7, tokens=6, n_groups=4, heads_per_group=4, spare_heads=0)
    parts = []
    for rank in range(2):
        heads, rows = (size // 2 for size in (whole.o.shape[1], whole.weight.shape[0]))
        part = replace(
            whole,
            o=whole.o[:, rank * heads : (rank + 1) * heads],
            weight=whole.weight[rank * rows : (rank + 1) * rows],
            n_groups=2,
        )
        parts.append(project(part, Linear(weight=part.weight)))
    together = project(whole, Linear(weight=whole.weight))
    assert_near(together, projected(whole))
    assert_same(torch.cat(parts, dim=1), together)


def test_wo_a_is_only_read():
    case = random_case(8, tokens=4)
    wo_a = Linear(weight=case.weight.clone())
    o, weight = case.o.clone(), wo_a.weight
    before = (set(vars(wo_a)), set(wo_a.state_dict()), weight.shape, weight.data_ptr())
    assert torch.equal(project(case, wo_a), project(case, wo_a))
    assert wo_a.weight is weight
    after = (set(vars(wo_a)), set(wo_a.state_dict()), weight.shape, weight.data_ptr())
    assert after == before
    assert torch.equal(weight, case.weight)
    assert torch.equal(case.o, o)


def test_upstream_computes_the_same(upstream):
    for tokens in (1, 6):
        case = random_case(tokens, tokens=tokens, n_groups=2, heads_per_group=2)
        ours = project(case, Linear(weight=case.weight))
        theirs = project(case, Linear(weight=case.weight), function=upstream)
        assert_near(theirs, projected(case))
        assert_same(ours, theirs)


@pytest.fixture
def upstream(monkeypatch):
    """The function of a release that has a BF16 path, with its kernel interpreted."""
    return upstream_o_proj(monkeypatch, Path(os.environ["UPSTREAM"]))


def upstream_o_proj(monkeypatch, tree: Path):
    import triton
    import triton.language as tl

    def load(name: str) -> ModuleType:
        spec = importlib.util.spec_from_file_location(
            name, tree / f"{name.replace('.', '/')}.py"
        )
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, module)
        spec.loader.exec_module(module)
        return module

    # vLLM switches Triton off where there is no GPU, interpreter or not.
    replaced = ModuleType("vllm.triton_utils")
    replaced.triton, replaced.tl, replaced.HAS_TRITON = triton, tl, True
    monkeypatch.setitem(sys.modules, "vllm.triton_utils", replaced)
    registered = {}
    monkeypatch.setattr(
        "vllm.utils.torch_utils.direct_register_custom_op",
        lambda op_name, op_func, **_: registered.update({op_name: op_func}),
    )
    load("vllm.model_executor.warmup.jit_warmup")
    load("vllm.model_executor.warmup.jit_warmup_triton_helper")
    load("vllm.models.deepseek_v4.common.ops.fused_inv_rope_fp8_quant")
    kernel = registered["fused_inv_rope_fp8_quant_kernel"]

    def rounding_kernel(o, *args):
        """Have torch round to bf16: the interpreter of Triton 3.6 cuts off."""
        out, scale = kernel(o.float(), *args)
        return out.to(o.dtype), scale

    monkeypatch.setattr(
        torch.ops.vllm,
        "fused_inv_rope_fp8_quant_kernel",
        rounding_kernel,
        raising=False,
    )
    return load("vllm.models.deepseek_v4.nvidia.ops.o_proj").deep_gemm_fp8_o_proj


# --- what is neither FP8 nor unquantised ----------------------------------------------


def test_packed_weight():
    case = random_case(9, tokens=2)
    packed = Linear(weight_packed=torch.zeros(96, 256, dtype=torch.int32))
    with pytest.raises(
        TypeError, match=r"wo_a needs a weight .* but has none \(packed\?\)"
    ):
        project(case, packed)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int8, torch.float8_e5m2])
def test_another_dtype(dtype):
    case = random_case(9, tokens=2)
    with pytest.raises(TypeError, match=f"in torch.bfloat16, but has {dtype}"):
        project(case, Linear(weight=case.weight.to(dtype)))


# --- an FP8 wo_a ----------------------------------------------------------------------


def fp8_layer(case: Case, *, grouped: bool, name: str = "weight_scale_inv") -> Linear:
    weight = case.weight.to(torch.float8_e4m3fn)
    if grouped:
        weight = weight.view(case.n_groups, case.rank, -1)
    return Linear(
        weight=weight, **{name: torch.rand(case.n_groups, 1, weight.shape[-1] // 128)}
    )


def assert_fp8(
    case: Case, wo_a: Linear, scale: torch.Tensor, result: torch.Tensor, calls
) -> None:
    """The two kernels got what they always got, and wo_b what the second made."""
    (first, quant_args, quant_kwargs), (second, einsum_args, einsum_kwargs) = calls
    assert (first, second) == ("quant", "einsum")
    inputs = (case.o, case.positions, case.cos_sin_cache)
    assert len(quant_args) == len(inputs)
    assert all(
        given is wanted for given, wanted in zip(quant_args, inputs, strict=True)
    )
    assert quant_kwargs == {
        "n_groups": case.n_groups,
        "heads_per_group": case.heads_per_group,
        "nope_dim": case.nope_dim,
        "rope_dim": case.rope_dim,
        "tma_aligned_scales": False,
    }
    equation, activations, weights, z = einsum_args
    assert equation == "bhr,hdr->bhd"
    assert [int(part) for part in activations] == [7, 8]
    assert len(weights) == 2
    assert weights[0] is wo_a.weight
    assert weights[1] is scale
    assert (z.shape, z.dtype) == (
        (case.o.shape[0], case.n_groups, case.rank),
        torch.bfloat16,
    )
    assert einsum_kwargs == {"recipe": (1, 128, 128)}
    assert torch.equal(result, z.flatten(1))


@pytest.mark.parametrize("grouped", [True, False])
@pytest.mark.parametrize("tokens", [0, 1, 6])
def test_fp8_goes_the_same_way(tokens, grouped, kernels):
    case = random_case(10, tokens=tokens)
    wo_a = fp8_layer(case, grouped=grouped)
    result = project(case, wo_a)
    assert_fp8(case, wo_a, wo_a.weight_scale_inv, result, kernels)


def test_fp8_scale_under_its_other_name(kernels):
    case = random_case(11, tokens=6)
    wo_a = fp8_layer(case, grouped=True, name="weight_scale")
    result = project(case, wo_a)
    assert_fp8(case, wo_a, wo_a.weight_scale, result, kernels)


# --- the shapes of other releases, as the examples have them --------------------------


class Wrapper(nn.Module):
    """What the attention wrapper of 0.20 to 0.22 reads of itself in forward."""

    def __init__(self, case: Case, wo_a: nn.Module, wo_b: nn.Module) -> None:
        super().__init__()
        self.case = case
        self.wo_a, self.wo_b = wo_a, wo_b
        self.rotary_emb = SimpleNamespace(cos_sin_cache=case.cos_sin_cache)
        self.head_dim = case.o.shape[2]
        self.n_local_heads = case.o.shape[1]
        self.padded_heads = case.o.shape[1] + 2
        self.n_local_groups = case.n_groups
        self.nope_head_dim, self.rope_head_dim = case.nope_dim, case.rope_dim
        self.o_lora_rank = case.rank
        self.q_lora_rank = 16
        self.layer_name = "layer"
        self._tma_aligned_scales = False
        self._einsum_recipe = (1, 128, 128)

    def fused_wqa_wkv(self, hidden_states):  # read by 0.20.0 alone
        return hidden_states.new_zeros(len(hidden_states), 16 + self.head_dim), None


def load_shape(path: Path, names: dict[str, object]):
    """The function of a file that has the O projection; `names` are what it imports."""
    nodes = ast.parse(path.read_text()).body
    for node in nodes:
        if isinstance(node, ast.ClassDef) and node.name == WRAPPER:
            nodes = nodes + node.body
    functions = {node.name: node for node in nodes if isinstance(node, ast.FunctionDef)}
    name = "deep_gemm_fp8_o_proj" if "deep_gemm_fp8_o_proj" in functions else "forward"
    code = ast.Module([functions["bf16_o_proj"], functions[name]], [])
    exec(compile(code, str(path), "exec"), names)  # noqa: S102
    return name, names[name]


def run_shape(
    path: Path, case: Case, wo_a: nn.Module, monkeypatch, *, rocm=False, compiled=False
):
    """Run the O projection of `path`; its result, and the calls of what is replaced."""
    calls: list[tuple[str, tuple, dict]] = []
    padded = case.o.shape[1] + 2

    def record(name, result):
        def call(*args, **kwargs):
            calls.append((name, args, kwargs))
            return result

        return call

    def attention(*args):
        (out,) = (
            a for a in args if isinstance(a, torch.Tensor) and a.shape[1:2] == (padded,)
        )
        out.fill_(torch.nan)
        out[:, : case.o.shape[1]] = case.o

    einsum = record("einsum", None)
    monkeypatch.setattr(
        torch.ops.vllm, "deepseek_v4_attention", attention, raising=False
    )
    monkeypatch.setattr(torch.ops.vllm, "deepseek_v4_fp8_einsum", einsum, raising=False)
    names = {
        "torch": torch,
        "nn": nn,
        "fused_inv_rope_fp8_quant": record("quant", ("o_fp8", "o_scale")),
        "fp8_einsum": einsum,
        "rocm_inv_rope_einsum": record("rocm", torch.zeros(case.o.shape[0], 2, 3)),
        "current_platform": SimpleNamespace(is_rocm=lambda: rocm),
    }
    name, function = load_shape(path, names)
    if compiled:
        function = torch.compile(
            function, backend="aot_eager", fullgraph=True, dynamic=True
        )
    if name == "deep_gemm_fp8_o_proj":
        return project(case, wo_a, function=function), calls
    hidden_states = torch.zeros(case.o.shape[0], HIDDEN, dtype=torch.bfloat16)
    return function(Wrapper(case, wo_a, Linear()), case.positions, hidden_states), calls


@pytest.mark.parametrize("path", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_every_shape(path, compiled, monkeypatch):
    for tokens in (5, 0, 1):
        case = random_case(tokens, tokens=tokens)
        wo_a, _, _ = layers(case)
        result, calls = run_shape(path, case, wo_a, monkeypatch, compiled=compiled)
        assert_near(result, projected(case))
        assert calls == []


@pytest.mark.parametrize("path", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("name", ["weight_scale_inv", "weight_scale"])
def test_every_shape_with_fp8(path, name, monkeypatch):
    case = random_case(12, tokens=5)
    wo_a = fp8_layer(case, grouped=True, name=name)
    result, calls = run_shape(path, case, wo_a, monkeypatch)
    assert result.shape == (5, case.n_groups * case.rank)
    (first, quant_args, _), (second, einsum_args, _) = calls
    assert (first, second) == ("quant", "einsum")
    assert torch.equal(quant_args[0], case.o)
    # The operands stand in pairs with their scales, or one after the other.
    operands = [
        part
        for arg in einsum_args
        for part in (arg if isinstance(arg, tuple) else [arg])
    ]
    for wanted in ("o_fp8", "o_scale", wo_a.weight, getattr(wo_a, name)):
        assert sum(operand is wanted for operand in operands) == 1


@pytest.mark.parametrize("path", SHAPES.values(), ids=SHAPES)
def test_every_shape_refuses_a_packed_weight(path, monkeypatch):
    packed = Linear(weight_packed=torch.zeros(96, 256, dtype=torch.int32))
    with pytest.raises(TypeError, match=r"has none \(packed\?\)"):
        run_shape(path, random_case(9, tokens=2), packed, monkeypatch)


@pytest.mark.parametrize("shape", ["needed-0.21", "needed-0.22"])
def test_rocm_keeps_its_own_way(shape, monkeypatch):
    case = random_case(13, tokens=5)
    _, calls = run_shape(
        SHAPES[shape], case, Linear(weight=case.weight), monkeypatch, rocm=True
    )
    assert [name for name, _, _ in calls] == ["rocm"]
