"""The MoE method of a plugin on vLLM 0.23.0, whose FusedMoEConfig has lost a field.

The plugin is the one of examples/needed-0.23, whose experts are plain PyTorch. Config,
weights and base class are vLLM's.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import pytest
import torch
from vllm_metax.platform import MacaPlatform
from vllm_metax.quant_config.moe_wna16 import MoeWNA16Method

from vllm.model_executor.layers.fused_moe.activation import MoEActivation
from vllm.model_executor.layers.fused_moe.config import (
    FusedMoEConfig,
    FusedMoEParallelConfig,
    RoutingMethodType,
)
from vllm.model_executor.layers.quantization.moe_wna16 import MoeWNA16Config

EXPERTS, TOP, HIDDEN, INNER, GROUP, TOKENS = 4, 2, 64, 96, 32, 5


@dataclass
class OlderConfig(FusedMoEConfig):
    """It has the field, as that of vLLM 0.22."""

    disable_inplace: bool = True


def make_config(kind: type[FusedMoEConfig], **more: bool) -> FusedMoEConfig:
    # From 0.24 on the config divides the size by the ranks itself.
    names = {field.name for field in fields(kind)}
    whole = "intermediate_size" in names
    size = "intermediate_size" if whole else "intermediate_size_per_partition"
    return kind(
        **{size: INNER},
        num_experts=EXPERTS,
        experts_per_token=TOP,
        hidden_dim=HIDDEN,
        num_local_experts=EXPERTS,
        num_logical_experts=EXPERTS,
        activation=MoEActivation.SILU,
        device="cpu",
        routing_method=RoutingMethodType.Default,
        moe_parallel_config=FusedMoEParallelConfig.make_no_parallel(),
        in_dtype=torch.float32,
        **more,
    )


def weights(rows: int, columns: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Random int4 experts: packed, their scales, and what both stand for."""
    values = torch.randint(-8, 8, (EXPERTS, rows, columns))
    scales = torch.rand(EXPERTS, rows, columns // GROUP) / 16
    low, high = (values + 8).unflatten(-1, (-1, 2)).unbind(-1)
    packed = (low + 16 * high).to(torch.uint8)
    real = values.unflatten(-1, (-1, GROUP)) * scales.unsqueeze(-1)
    return packed, scales, real.flatten(-2)


class Case:
    """One layer with random weights, an input, and what must come out."""

    def __init__(self, config: FusedMoEConfig) -> None:
        torch.manual_seed(0)
        quant = MoeWNA16Config.from_config(
            {"quant_method": "gptq", "bits": 4, "group_size": GROUP, "sym": True}
        )
        self.method = MoeWNA16Method(quant, config)
        self.layer = torch.nn.Module()
        self.layer.activation = MoEActivation.SILU
        self.layer.apply_router_weight_on_input = False
        self.layer.global_num_experts = EXPERTS
        self.layer.expert_map = None
        self.method.create_weights(
            self.layer,
            EXPERTS,
            HIDDEN,
            INNER,
            torch.float32,
            weight_loader=None,
        )
        up = self.fill("w13", 2 * INNER, HIDDEN)
        down = self.fill("w2", HIDDEN, INNER)
        found = self.method.get_fused_moe_quant_config(self.layer)
        self.method.moe_quant_config = found

        self.x = torch.randn(TOKENS, HIDDEN)
        self.given = self.x.clone()
        scores = torch.rand(TOKENS, EXPERTS).softmax(-1)
        self.weights, self.ids = scores.topk(TOP)
        self.wanted = torch.zeros(TOKENS, HIDDEN)
        for token in range(TOKENS):
            for weight, expert in zip(
                self.weights[token], self.ids[token], strict=True
            ):
                gate, value = (up[expert] @ self.x[token]).chunk(2)
                inner = torch.nn.functional.silu(gate) * value
                self.wanted[token] += weight * (down[expert] @ inner)

    def fill(self, name: str, rows: int, columns: int) -> torch.Tensor:
        packed, scales, real = weights(rows, columns)
        getattr(self.layer, f"{name}_qweight").data.copy_(packed)
        getattr(self.layer, f"{name}_scales").data.copy_(scales)
        return real

    def apply(self) -> torch.Tensor:
        return self.method.apply(self.layer, self.x, self.weights, self.ids, None, None)


def test_config_of_this_release_has_no_such_field() -> None:
    assert "disable_inplace" not in {field.name for field in fields(FusedMoEConfig)}


def test_platform_of_the_plugin_only_looks_like_cuda() -> None:
    platform = MacaPlatform()
    assert platform.is_cuda_alike()
    assert not platform.is_cuda()


def test_experts_work_in_place_without_the_field() -> None:
    case = Case(make_config(FusedMoEConfig))
    output = case.apply()
    assert output.data_ptr() == case.x.data_ptr()
    torch.testing.assert_close(output, case.wanted)
    assert not torch.equal(output, case.given)


@pytest.mark.parametrize("disable", [True, False])
def test_field_is_honoured_where_it_is(*, disable: bool) -> None:
    case = Case(make_config(OlderConfig, disable_inplace=disable))
    output = case.apply()
    torch.testing.assert_close(output, case.wanted)
    assert (output.data_ptr() == case.x.data_ptr()) is not disable
    assert torch.equal(case.x, case.given) is disable
