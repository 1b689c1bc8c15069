# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: Copyright contributors to the vLLM project
"""For upstream: a draft of the target's own checkpoint finds the target's config."""

import json

import pytest

from vllm.config import ModelConfig, ParallelConfig, SpeculativeConfig

CONFIG = {
    "architectures": ["MiMoForCausalLM"],
    "model_type": "qwen2",
    "vocab_size": 256,
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 8,
    "num_key_value_heads": 8,
    "num_nextn_predict_layers": 1,
    "max_position_embeddings": 128,
    "torch_dtype": "bfloat16",
}


@pytest.fixture
def target(tmp_path):
    """A checkpoint whose config.json lies in another folder."""
    weights, config = tmp_path / "weights", tmp_path / "config"
    for folder in (weights, config):
        folder.mkdir()
    (config / "config.json").write_text(json.dumps(CONFIG))
    return ModelConfig(
        model=str(weights),
        hf_config_path=str(config),
        skip_tokenizer_init=True,
        dtype="bfloat16",
    )


def draft_of(target, **keywords):
    return SpeculativeConfig(
        method="mtp",
        num_speculative_tokens=1,
        target_model_config=target,
        target_parallel_config=ParallelConfig(),
        **keywords,
    ).draft_model_config


def test_mtp_draft_uses_hf_config_path_of_target(target):
    draft = draft_of(target)
    assert draft.model == target.model
    assert draft.hf_config_path == target.hf_config_path
    assert draft.hf_config.architectures == ["MiMoMTPModel"]


def test_separate_mtp_draft_keeps_its_own_config(target, tmp_path):
    own = tmp_path / "own"
    own.mkdir()
    (own / "config.json").write_text(json.dumps(CONFIG))
    draft = draft_of(target, model=str(own))
    assert draft.model == str(own)
    assert draft.hf_config_path is None
