"""A checkpoint as large as real ones are, made of holes: only its headers take space."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.checkpoint import builders as b

LAYERS, EXPERTS = 43, 256
MEASURED = f"""
{b.PEAK}
import sys
from vpatch.checkpoint.findings import findings_of
from vpatch.checkpoint.tokenizer import Tokenizer
from vpatch.checkpoint.inspection import inspect
from pathlib import Path
found = inspect(Path(sys.argv[1]))
size = sum(amount.size for amount in found.by_dtype.values())
kinds = [one.kind for one in findings_of(found, Tokenizer(None), None) if one.fault]
print(peak(), size, *kinds)
"""


def large(folder):
    """Write a DeepSeek-V4 of 100,000 tensors and 70 GB, quantised as real ones, without its MTP."""
    shards = {"model-0.safetensors": {"embed.weight": b.matrix(), "head.weight": b.matrix()}}
    for layer in range(LAYERS):
        start = f"layers.{layer}"
        tensors = b.v4_attention(start, "F8_E4M3")
        for expert in range(EXPERTS):
            for part in ("w1", "w2", "w3"):
                name = f"{start}.ffn.experts.{expert}.{part}"
                tensors[f"{name}.weight_packed"] = ("I32", (1024, 512))
                tensors[f"{name}.weight_scale"] = ("BF16", (1024, 32))
                tensors[f"{name}.weight_shape"] = ("I64", (2,))
        shards[f"model-{layer + 1}.safetensors"] = tensors
    quantised = {
        "quant_method": "compressed-tensors",
        "config_groups": {"experts": {"targets": ["Linear"], "weights": {"num_bits": 4}}},
        "ignore": ["head", r"re:.*shared_experts", *(f"layers.{i}.attn.wq_a" for i in range(9))],
    }
    config = b.config_of("DeepseekV4ForCausalLM", LAYERS, num_nextn_predict_layers=1)
    b.write_checkpoint(folder, config | {"quantization_config": quantised}, shards)
    return folder


@pytest.fixture
def checkpoint(tmp_path):
    folder = large(tmp_path / "large")
    assert sum(p.stat().st_blocks for p in folder.iterdir()) * 512 < 100e6
    yield folder
    # A copy of it by somebody else would not be made of holes.
    for path in folder.iterdir():
        path.unlink()


def test_it_is_looked_at_in_little_memory(checkpoint):
    command = [sys.executable, "-c", MEASURED, str(checkpoint)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    memory, size, *kinds = done.stdout.split()
    assert int(size) > 70e9
    assert sorted(kinds) == ["ignore-names", "mtp-dropped"]
    assert int(memory) < 300e6
