"""What vpatch checkpoint puts right is right for a real vLLM."""

from __future__ import annotations

import json
import os

import pytest

from tests.checkpoint import builders
from tests.engine.conftest import vpatch
from tests.engine.test_tiny_deepseek_v4 import PAYLOAD, inside
from vpatch.checkpoint.files import FolderFiles
from vpatch.checkpoint.folder import open_checkpoint
from vpatch.checkpoint.inspection import inspect

SCRIPT = PAYLOAD.parents[2] / "tests" / "engine" / "match_names.py"
WRITE = """
import sys
from pathlib import Path
from tiny_mtp import write_checkpoint
print(write_checkpoint(Path(sys.argv[1]), acceptance="all"))
"""
RECIPE = """
vllm: 0.23.0
patches: [cpu-spec-decode-fp64-gumbel]
smoke:
  models: {grafted: {checkpoint: FOLDER}}
  prompts: {words: ["<003><009>"]}
  defaults:
    prompts: words
    flags: {enforce-eager: true, max-model-len: 512, max-num-seqs: 8}
    environment:
      VLLM_CPU_KVCACHE_SPACE: "1"
      TORCHDYNAMO_DISABLE: "1"
      VLLM_ENABLE_V1_MULTIPROCESSING: "0"
    timeouts: {start: 300, token: 15, cell: 600, stop: 60}
  cells:
    - {model: grafted, k: [2], modes: [offline], checks: {acceptance-rate: ">= 1"}}
"""


@pytest.fixture(scope="module")
def original(engine, tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoint") / "tiny"
    assert inside(engine, [], "-c", WRITE, folder) == str(folder)
    return folder


def without_mtp(original, folder):
    """Write what a conversion leaves that knows nothing of MTP layers: no tensors, and no key."""
    folder.mkdir()
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).write_bytes((original / name).read_bytes())
    config = json.loads((original / "config.json").read_text())
    del config["num_nextn_predict_layers"]
    (folder / "config.json").write_text(json.dumps(config))
    data = (original / "model.safetensors").read_bytes()
    (shard,) = open_checkpoint(original).shards
    kept = {n: t for n, t in shard.tensors.items() if ".mtp_layers." not in n}
    values = {n: data[shard.data + t.begin : shard.data + t.end] for n, t in kept.items()}
    tensors = {name: (tensor.dtype, tensor.shape) for name, tensor in kept.items()}
    builders.write_shard(folder / "model.safetensors", tensors, values)
    return folder


def run(folder, *args, code=0):
    done = vpatch(*args, env=os.environ | {"TMPDIR": str(folder)})
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def smoke(folder, checkpoint, code=0):
    recipes = folder / "recipes"
    recipes.mkdir(exist_ok=True)
    (recipes / "grafted.yaml").write_text(RECIPE.replace("FOLDER", str(checkpoint)))
    named = ("--recipe", "grafted", "--recipes-dir", recipes, "--evidence-dir", folder / "evidence")
    out = run(folder, "smoke", *named, "--engine", "cpu", "--trust", "--json", code=code)
    (cell,) = json.loads(out)["result"]["record"]["cells"]
    return cell


def test_a_grafted_head_accepts_every_draft(original, tmp_path):
    dropped = without_mtp(original, tmp_path / "dropped")
    assert "there is no MTP" in run(tmp_path, "checkpoint", "inspect", dropped)
    assert smoke(tmp_path, dropped, code=1)["verdict"] == "fail"
    run(tmp_path, "checkpoint", "graft-mtp", dropped, "--from", original)
    assert "finding" not in run(tmp_path, "checkpoint", "inspect", dropped)
    found = smoke(tmp_path, dropped)["rounds"][0]["passes"]["prompts"]["counters"]
    # 32 tokens: after the first, each step has two drafts and one token more.
    assert (found["drafts"], found["accepted"], found["draft_tokens"]) == (11, 22, 22)


P1 = ["mtp.0.e_proj", "mtp.0.h_proj"]
FUSED = ["mtp.0.attn.wq_a", "mtp.0.attn.wkv", "layers.1.attn.compressor.wkv"]
FUSED += ["layers.1.attn.compressor.wgate", r"re:.*\.shared_experts\.w[13]$"]


def asked(engine, folder):
    (one,) = inspect(FolderFiles(folder)).judged
    names = sorted(set(inspect(FolderFiles(folder)).run_time_names.values()))
    return one, json.loads(inside(engine, [], SCRIPT, folder, *names))


def test_names_are_matched_as_vllm_matches_them_and_fixed_for_it(engine, tmp_path):
    folder = builders.v4(tmp_path / "v4", [*P1, *FUSED, "layers.0.attn.wo_b"])
    before, answers = asked(engine, folder)
    missed = {name for entry in before.entries for name in entry.missed}
    assert {"model.layers.2.e_proj", "model.layers.2.h_proj"} < missed
    assert "model.layers.2.attn.fused_wqa_wkv" in missed
    # The release declares no fused names, so that what is missed before 0.29 is missed here.
    left_out = {name for entry in before.entries for name in entry.run} - missed
    assert {name for name, (out, _) in answers.items() if out} == left_out
    assert all(answers[name] == [False, "Linear"] for name in missed)
    run(tmp_path, "checkpoint", "ignore-names", folder, "--write")
    after, answers = asked(engine, folder)
    assert after.clean
    assert {name for name, (out, _) in answers.items() if out} == left_out | missed
