"""The tiny DeepSeek-V4 checkpoint, as the loaders of vLLM 0.23.0 take it, with no GPU.

load_deepseek_v4.py runs inside the cpu engine, once on the pristine release and once with
the two patches that it is for.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

import vpatch.engine
from tests.engine.conftest import RELEASE
from vpatch.engine.overlay import make_overlay
from vpatch.planning.plan import plan
from vpatch.planning.state import overall_changes
from vpatch.source.spec import parse_vllm
from vpatch.workspace.context import Context

PAYLOAD = Path(vpatch.engine.__file__).parent / "payload"
SCRIPT = Path(__file__).with_name("load_deepseek_v4.py")
WRITE = """
import sys
from pathlib import Path
from tiny_deepseek_v4 import write_checkpoint
print(write_checkpoint(Path(sys.argv[1])))
"""
LAYERS = range(3)
MTP = "model.layers.3"
# What a symmetric INT4 checkpoint has no use for, and does not have.
ORDER = ("w13_weight_g_idx", "w2_weight_g_idx", "w13_g_idx_sort_indices", "w2_g_idx_sort_indices")


def inside(engine, path, *command):
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(map(str, (*path, PAYLOAD))),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HF_HUB_OFFLINE": "1",
    }
    return subprocess.run(
        [engine.python, *command],
        env=environment,
        cwd="/",
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    ).stdout.splitlines()[-1]


@pytest.fixture(scope="module")
def checkpoint(engine, tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoint") / "tiny"
    assert inside(engine, [], "-c", WRITE, folder) == str(folder)
    return folder


@pytest.fixture(scope="module")
def pristine(engine, checkpoint):
    return json.loads(inside(engine, [], SCRIPT, checkpoint))


@pytest.fixture(scope="module")
def patched(engine, checkpoint, tmp_path_factory):
    session = Context()
    patches = session.library.load(["mtp-proj-prefix", "o-proj-bf16-fallback"])
    with session.tree(parse_vllm(RELEASE)) as tree:
        changes = overall_changes(plan(patches, tree))
    overlay = make_overlay(engine.package, changes, tmp_path_factory.mktemp("overlay"))
    return json.loads(inside(engine, [overlay], SCRIPT, checkpoint))


def test_the_config_is_taken_for_mtp(pristine):
    model = ["DeepSeekV4MTPModel", "compressed-tensors"]
    assert pristine["speculative"] == [["mtp", k, *model] for k in (1, 2, 3)]


def test_words_are_tokens(pristine):
    assert pristine["tokens"] == [3, 10, 256 + ord(" "), 256 + ord("a")]


def test_the_cache_can_be_laid_out(pristine):
    # The layers of the full cache first, then one group for each kind of window.
    full, *windows = pristine["cache"]
    assert full == [
        "model.layers.1.attn",
        "model.layers.1.attn.indexer.k_cache",
        "model.layers.2.attn",
    ]
    assert [f"{MTP}.attn.swa_cache"] in windows


def test_the_trunk_takes_every_tensor_as_it_is(pristine):
    target = pristine["target"]
    assert (target["unread"], target["strange"]) == ([], [])
    # vLLM keeps these as numbers of the model's own dtype, and reads them nowhere.
    assert {name.split(".")[-1] for name in target["converted"]} == {"weight_shape"}


def test_the_trunk_has_no_gap(pristine):
    gaps = dict(pristine["target"]["gaps"])
    for layer in (f"model.layers.{i}" for i in LAYERS):
        # The other heads are padding.
        assert gaps.pop(f"{layer}.attn.attn_sink") == [16, 64]
        # Once for each of the two matrices that it is the shape of.
        assert gaps.pop(f"{layer}.ffn.experts.w13_weight_shape") == [32, 16]
        for name in ORDER:
            assert gaps.pop(f"{layer}.ffn.experts.{name}")[0] == 0
    assert gaps == {}


def test_the_trunk_is_quantised(pristine):
    dtypes = pristine["target"]["dtypes"]
    for layer in (f"model.layers.{i}" for i in LAYERS):
        for name in ("fused_wqa_wkv", "wq_b", "wo_a", "wo_b"):
            assert dtypes[f"{layer}.attn.{name}.weight"] == "torch.float8_e4m3fn"
        assert dtypes[f"{layer}.ffn.experts.w13_weight_packed"] == "torch.int32"
        assert dtypes[f"{layer}.ffn.shared_experts.down_proj.weight"] == "torch.bfloat16"
    assert dtypes["model.layers.1.attn.indexer.wq_b.weight"] == "torch.float8_e4m3fn"
    assert "model.layers.0.ffn.gate.tid2eid" in dtypes


def test_the_mtp_block_does_not_load_without_the_patches(pristine):
    assert pristine["mtp"] == {"missing": f"{MTP}.e_proj.weight"}


def test_the_mtp_block_takes_every_tensor_as_it_is_with_the_patches(patched):
    block = patched["mtp"]
    assert (block["unread"], block["strange"], block["converted"]) == ([], [], [])
    assert block["gaps"] == {f"{MTP}.mtp_block.attn.attn_sink": [16, 64]}
    assert set(block["dtypes"].values()) == {"torch.bfloat16", "torch.float32"}
    assert block["dtypes"][f"{MTP}.mtp_block.attn.wo_a.weight"] == "torch.bfloat16"


def test_the_mtp_block_has_an_unquantised_o_projection(patched):
    assert patched["mtp"]["o_proj"] == [5, 2048]


def test_the_patches_change_nothing_else(pristine, patched):
    differing = {key for key in pristine if pristine[key] != patched[key]}
    assert differing == {"mtp"}


CHECK = """
import json, sys
from safetensors.torch import load_file
from tiny_tokens import VOCABULARY, successor
found = load_file(sys.argv[1])
logits = found["embed.weight"].float() @ found["head.weight"].float().T
logits = logits / found["embed.weight"].float().square().mean(-1, keepdim=True) ** 0.5
wanted = [successor(token) for token in range(VOCABULARY)]
others = logits.clone()
others[range(VOCABULARY), wanted] = float("-inf")
margin = (logits[range(VOCABULARY), wanted] - others.max(-1).values).min()
print(json.dumps([float(margin), sorted(found)]))
"""


def test_an_embedding_says_its_successor(engine, checkpoint):
    margin, names = json.loads(inside(engine, [], "-c", CHECK, checkpoint / "model.safetensors"))
    assert margin > 30
    # As many as the MTP block of that checkpoint has: 799 with 256 experts.
    assert sum(name.startswith("mtp.") for name in names) == 799 - 3 * (256 - 8)


def test_it_is_small_and_always_the_same(engine, checkpoint, tmp_path):
    inside(engine, [], "-c", WRITE, tmp_path)
    files = sorted(path.name for path in checkpoint.iterdir())
    assert files == ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"]
    for name in files:
        assert (tmp_path / name).read_bytes() == (checkpoint / name).read_bytes()
    assert (checkpoint / "model.safetensors").stat().st_size < 150e6
