"""The O projection as a release has it, with its kernels replaced.

Until 0.22 it is a part of a method, later a function of its own. The function is taken
out of its file, since the module around it needs a GPU. test_behaviour.py asks more of
the releases for which it is written.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from o_proj_reference import Case, assert_near, projected, random_case, turned_back
from torch import nn

import vllm

WRAPPER = "DeepseekV4MultiHeadLatentAttentionWrapper"
FUNCTION = "deep_gemm_fp8_o_proj"
PACKAGE = Path(vllm.__file__).parent
PLACES = (
    "models/deepseek_v4/nvidia/ops/o_proj.py",
    "models/deepseek_v4/attention.py",
    "model_executor/layers/deepseek_v4_attention.py",
)


class Linear(nn.Module):
    """A linear layer as the O projection sees it: named parameters, and a call."""

    def __init__(self, **parameters: torch.Tensor) -> None:
        super().__init__()
        for name, value in parameters.items():
            setattr(self, name, nn.Parameter(value, requires_grad=False))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


class Wrapper(nn.Module):
    """What the attention wrapper of 0.20 to 0.22 reads of itself in forward."""

    def __init__(self, case: Case, wo_a: nn.Module) -> None:
        super().__init__()
        self.wo_a, self.wo_b = wo_a, Linear()
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


def functions_of(path: Path) -> dict[str, ast.FunctionDef]:
    nodes = ast.parse(path.read_text()).body
    for node in nodes:
        if isinstance(node, ast.ClassDef) and node.name == WRAPPER:
            nodes = nodes + node.body
    return {node.name: node for node in nodes if isinstance(node, ast.FunctionDef)}


def place() -> tuple[Path, str]:
    """Find the file with the O projection, and the name of the function in it."""
    for name in PLACES:
        path = PACKAGE / name
        if path.is_file():
            known = functions_of(path)
            if FUNCTION in known:
                return path, FUNCTION
            if "forward" in known:
                return path, "forward"
    raise AssertionError("this release has no O projection of DeepSeek-V4")


def run(case: Case, wo_a: nn.Module, monkeypatch):
    """Run the release's O projection; its result, and the calls of FP8 kernels."""
    calls: list[tuple[str, tuple, tuple]] = []
    padded = case.o.shape[1] + 2

    def attention(*args):
        (out,) = (
            a for a in args if isinstance(a, torch.Tensor) and a.shape[1:2] == (padded,)
        )
        out.fill_(torch.nan)
        out[:, : case.o.shape[1]] = case.o

    def fused_inv_rope_fp8_quant(*args, quantize=True, **_):
        if not quantize:  # upstream's way from 0.30 on
            heads = turned_back(case).to(torch.bfloat16)
            return heads.reshape(len(heads), case.n_groups, -1), None
        made = torch.zeros(case.o.shape[0], case.n_groups, 1), torch.ones(1)
        calls.append(("quant", args, made))
        return made

    def einsum(*args, **kwargs):
        calls.append(("einsum", args, (kwargs,)))

    for name, op in (
        ("deepseek_v4_attention", attention),
        ("deepseek_v4_fp8_einsum", einsum),
    ):
        monkeypatch.setattr(torch.ops.vllm, name, op, raising=False)
    path, name = place()
    known = functions_of(path)
    # The patch adds the first one.
    nodes = [known[one] for one in ("bf16_o_proj", name) if one in known]
    names = {
        "torch": torch,
        "nn": nn,
        "Callable": Callable,
        "QuantizedActivation": type("QuantizedActivation", (), {}),
        "fused_inv_rope_fp8_quant": fused_inv_rope_fp8_quant,
        "fp8_einsum": einsum,
        "current_platform": SimpleNamespace(is_rocm=lambda: False),
    }
    exec(compile(ast.Module(nodes, []), str(path), "exec"), names)  # noqa: S102
    if name == "forward":
        hidden_states = torch.zeros(case.o.shape[0], 96, dtype=torch.bfloat16)
        return names[name](Wrapper(case, wo_a), case.positions, hidden_states), calls
    result = names[name](
        case.o,
        case.positions,
        case.cos_sin_cache,
        wo_a,
        Linear(),
        n_groups=case.n_groups,
        heads_per_group=case.heads_per_group,
        nope_dim=case.nope_dim,
        rope_dim=case.rope_dim,
        o_lora_rank=case.rank,
        einsum_recipe=(1, 128, 128),
        tma_aligned_scales=False,
    )
    return result, calls


def fp8_layer(case: Case, name: str) -> Linear:
    weight = case.weight.to(torch.float8_e4m3fn).view(case.n_groups, case.rank, -1)
    scale = torch.rand(case.n_groups, 1, weight.shape[-1] // 128)
    return Linear(weight=weight, **{name: scale})


def check_fp8(name: str, monkeypatch) -> None:
    """Both kernels are called, and the second gets weights and scales in pairs."""
    case = random_case(12, tokens=5)
    wo_a = fp8_layer(case, name)
    result, calls = run(case, wo_a, monkeypatch)
    assert result.shape == (5, case.n_groups * case.rank)
    (first, quant_args, quantised), (second, einsum_args, _) = calls
    assert (first, second) == ("quant", "einsum")
    assert torch.equal(quant_args[0], case.o)
    operands = [
        part
        for arg in einsum_args
        for part in (arg if isinstance(arg, tuple) else [arg])
    ]
    for wanted in (*quantised, wo_a.weight, getattr(wo_a, name)):
        assert sum(operand is wanted for operand in operands) == 1


@pytest.mark.parametrize("tokens", [1, 5, 17])
def test_an_unquantised_weight_is_multiplied(tokens, monkeypatch):
    case = random_case(tokens, tokens=tokens)
    result, calls = run(case, Linear(weight=case.weight), monkeypatch)
    assert_near(result, projected(case))
    assert calls == []


def test_fp8_goes_to_the_kernels(monkeypatch):
    check_fp8("weight_scale_inv", monkeypatch)


def test_fp8_with_the_other_name_of_its_scale(monkeypatch):
    check_fp8("weight_scale", monkeypatch)


def test_a_packed_weight_is_refused(monkeypatch):
    packed = Linear(weight_packed=torch.zeros(96, 256, dtype=torch.int32))
    with pytest.raises(TypeError, match=r"has none \(packed\?\)"):
        run(random_case(9, tokens=2), packed, monkeypatch)
