"""State slots that kernels choose by a count; Triton's interpreter runs them."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path

import pytest
import torch
import triton
import triton.language as tl

import vllm
from vllm import triton_utils
from vllm.platforms import current_platform

PACKAGE = Path(vllm.__file__).parent
FOLDERS = (
    "model_executor/layers/fla/ops",
    "third_party/flash_linear_attention/ops",
    "models/glm5next/amd/ops/third_party/kda",
    "models/glm5next/nvidia/ops/third_party/kda",
    "models/kimi_k3/amd/ops/third_party/kda",
    "models/kimi_k3/nvidia/ops/third_party/kda",
)
FILES = ("fused_recurrent.py", "fused_sigmoid_gating.py")
PLACES = [
    f"{folder}/{name}"
    for folder in FOLDERS
    for name in FILES
    if (PACKAGE / folder / name).is_file()
]
SLOTS = 3
TOKENS = 2
HEADS, KEY, VALUE, WIDTH = 1, 16, 16, 4
# The accepted tokens of three requests, and the slot of its row where each begins.
COUNTS = {
    "valid": ([1, 3, 2], [0, 2, 1]),
    "zero": ([2, 0, 1], [1, 0, 0]),
    "zero-first": ([0, 1, 3], [0, 0, 2]),
    "above": ([1, SLOTS + 1, 2], [0, SLOTS - 1, 1]),
}


@pytest.fixture(scope="module", autouse=True)
def interpreter():
    """Give vLLM's modules the real Triton, which the CPU engine leaves out."""
    before = {name: getattr(triton_utils, name) for name in ("tl", "triton")}
    loaded = set(sys.modules)
    triton_utils.triton, triton_utils.tl = triton, tl
    for name in list(sys.modules):
        if ".fla." in name or ".flash_linear_attention." in name:
            del sys.modules[name]
    yield
    for name in set(sys.modules) - loaded:
        if name.startswith("vllm."):
            del sys.modules[name]
    for name, value in before.items():
        setattr(triton_utils, name, value)


def module_of(place):
    """Load a module without the package around it, which may need a GPU."""
    if place.startswith("models/"):
        spec = importlib.util.spec_from_file_location("under_test", PACKAGE / place)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    else:
        name = "vllm." + place.removesuffix(".py").replace("/", ".")
        module = importlib.import_module(name)
    # The interpreter knows what is called by tl alone, and no other name of it.
    module.exp = lambda x: tl.exp(x)  # noqa: PLW0108 - tl.exp is replaced later
    module.log = lambda x: tl.log(x)  # noqa: PLW0108
    return module


def table():
    """Rows of slots, behind one foreign slot: what lies in front of the first row."""
    memory = torch.arange(3 * SLOTS + 1, dtype=torch.int32)
    memory[0] = 3 * SLOTS + 1
    return memory[1:].view(3, SLOTS)


def inputs():
    generator = torch.Generator().manual_seed(5)

    def normal(*shape):
        return torch.randn(*shape, generator=generator)

    # Slot 0 is the null block; the last one is of nobody, and its state is no number.
    states = normal(3 * SLOTS + 2, HEADS, VALUE, KEY)
    states[-1] = float("nan")
    return {
        "q": normal(1, 3 * TOKENS, HEADS, KEY),
        "k": normal(1, 3 * TOKENS, HEADS, KEY),
        "v": normal(1, 3 * TOKENS, HEADS, VALUE),
        "states": states,
        "gate": -torch.rand(3 * TOKENS, HEADS, generator=generator),
        "beta": torch.rand(3 * TOKENS, HEADS, generator=generator),
    }


def reference(data, slots, begins, scale):
    """Apply the gated delta rule to one token after the other, in float64."""
    states = data["states"].double()
    out = torch.empty(3 * TOKENS, HEADS, VALUE, dtype=torch.float64)
    for row in range(3):
        state = states[slots[row, begins[row]], 0].clone()
        for token in range(TOKENS):
            place = row * TOKENS + token
            query, key = (data[name][0, place, 0].double() for name in "qk")
            query = query / (query.square().sum() + 1e-6).sqrt() * scale
            key = key / (key.square().sum() + 1e-6).sqrt()
            state = state * data["gate"][place, 0].double().exp()
            change = data["v"][0, place, 0].double() - state @ key
            change = change * data["beta"][place, 0].double()
            state = state + torch.outer(change, key)
            out[place, 0] = state @ query
            states[slots[row, token], 0] = state
    return out, states


def run(place, data, slots, counts):
    """Call the kernel of a module as the layers do."""
    module = module_of(place)
    states = data["states"].clone()
    common = {
        "cu_seqlens": torch.arange(4, dtype=torch.int32) * TOKENS,
        "ssm_state_indices": slots,
        "num_accepted_tokens": torch.tensor(counts, dtype=torch.int32),
        "use_qk_l2norm_in_kernel": True,
        "scale": KEY**-0.5,
        "initial_state": states,
    }
    q, k, v = (data[name].clone() for name in "qkv")
    gate, beta = data["gate"][None], data["beta"][None]
    if hasattr(module, "fused_sigmoid_gating_delta_rule_update"):
        # The kernel makes both: the gate is -exp(A_log) * softplus(a), beta sigmoid(b).
        raw = torch.log(torch.expm1(-data["gate"].double())).float()
        out, _ = module.fused_sigmoid_gating_delta_rule_update(
            A_log=torch.zeros(HEADS),
            a=raw,
            b=torch.logit(data["beta"]),
            dt_bias=torch.zeros(HEADS),
            q=q,
            k=k,
            v=v,
            **common,
        )
    elif hasattr(module, "fused_recurrent_kda_fwd"):
        gates = gate[..., None].expand(1, 3 * TOKENS, HEADS, KEY).contiguous()
        out, _ = module.fused_recurrent_kda_fwd(q, k, v, gates, beta, **common)
    else:
        out, _ = module.fused_recurrent_gated_delta_rule_fwd(
            q, k, v, gate, beta, **common
        )
    return out.reshape(3 * TOKENS, HEADS, VALUE), states


def compare(place, case):
    counts, begins = COUNTS[case]
    data, slots = inputs(), table()
    out, states = run(place, data, slots, counts)
    wanted, wanted_states = reference(data, slots, begins, KEY**-0.5)
    torch.testing.assert_close(out.double(), wanted, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(
        states.double(), wanted_states, rtol=1e-4, atol=1e-4, equal_nan=True
    )


@pytest.mark.parametrize("place", PLACES)
def test_a_valid_count_begins_at_its_own_slot(place):
    compare(place, "valid")


@pytest.mark.parametrize("case", ["zero", "zero-first"])
@pytest.mark.parametrize("place", PLACES)
def test_a_count_of_zero_stays_in_its_row(place, case):
    compare(place, case)


@pytest.mark.parametrize("place", PLACES)
def test_a_count_above_the_row_stays_in_it(place):
    compare(place, "above")


@pytest.fixture(scope="module")
def convolution(interpreter):
    """Load the module as on a GPU: on a CPU it takes another function by this name."""
    del interpreter
    path = PACKAGE / "model_executor/layers/mamba/ops/causal_conv1d.py"
    spec = importlib.util.spec_from_file_location("convolution_under_test", path)
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(current_platform), "is_cpu", lambda _: False)
        spec.loader.exec_module(module)
    return module


def convolve(module, counts):
    """Run the convolution of three requests; return what it got and what it wrote."""
    generator = torch.Generator().manual_seed(6)
    dim, length = 8, WIDTH - 1 + TOKENS - 1
    # One more cache line than requests: line 0 is the null block.
    lines = torch.randn(4, length, dim, generator=generator)
    x = torch.randn(3 * TOKENS, dim, generator=generator)
    weight = torch.randn(dim, WIDTH, generator=generator)
    state = lines.clone().transpose(1, 2)
    out = module.causal_conv1d_update(
        x.clone(),
        state,
        weight,
        activation="silu",
        conv_state_indices=torch.tensor([1, 2, 3], dtype=torch.int32),
        num_accepted_tokens=torch.tensor(counts, dtype=torch.int32),
        query_start_loc=torch.arange(4, dtype=torch.int32) * TOKENS,
        max_query_len=TOKENS,
    )
    return lines, x, weight, out, state.transpose(1, 2)


def assert_convolved(module, counts, begins):
    lines, x, weight, out, state = convolve(module, counts)
    for row, begin in enumerate(begins):
        fresh = x[row * TOKENS : (row + 1) * TOKENS]
        window = torch.cat([lines[row + 1, begin : begin + WIDTH - 1], fresh])
        for token in range(TOKENS):
            sums = (window[token : token + WIDTH].T * weight).sum(1)
            wanted = sums * torch.sigmoid(sums)
            torch.testing.assert_close(
                out[row * TOKENS + token], wanted, rtol=1e-4, atol=1e-4
            )
        torch.testing.assert_close(state[row + 1], window[1:], rtol=0, atol=0)
    torch.testing.assert_close(state[0], lines[0], rtol=0, atol=0)


def test_the_convolution_begins_where_the_count_says(convolution):
    assert_convolved(convolution, [1, 2, 1], [0, 1, 0])


def test_the_convolution_stays_in_its_cache_line(convolution):
    assert_convolved(convolution, [2, 0, 0], [1, 0, 0])
