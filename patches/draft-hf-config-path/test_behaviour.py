"""Where the draft of the same checkpoint looks for its configuration."""

from __future__ import annotations

import pytest
from tiny_mtp import write_checkpoint

from vllm.config import ModelConfig, ParallelConfig, SpeculativeConfig


def model_config(model, hf_config_path=None):
    return ModelConfig(
        model=str(model),
        hf_config_path=hf_config_path and str(hf_config_path),
        skip_tokenizer_init=True,
        dtype="bfloat16",
    )


@pytest.fixture
def checkpoint(tmp_path):
    return write_checkpoint(tmp_path / "whole")


@pytest.fixture
def split(tmp_path):
    """A folder of weights without a config.json, and the folder that has it."""
    weights = write_checkpoint(tmp_path / "weights")
    config = tmp_path / "config"
    config.mkdir()
    (weights / "config.json").rename(config / "config.json")
    return weights, config


def draft_of(target, **keywords):
    speculative = SpeculativeConfig(
        num_speculative_tokens=1,
        target_model_config=target,
        target_parallel_config=ParallelConfig(),
        **keywords,
    )
    return speculative.draft_model_config


def test_mtp_of_the_same_checkpoint_uses_the_targets_path(split):
    weights, config = split
    draft = draft_of(model_config(weights, config), method="mtp")
    assert draft.model == str(weights)
    assert draft.hf_config_path == str(config)
    assert draft.hf_config.architectures == ["MiMoMTPModel"]


def test_mtp_of_the_targets_weights_uses_the_targets_path(split, tmp_path):
    """From 0.29.0 on, model_weights is the draft's model, if the target has some."""
    weights, config = split
    pulled = tmp_path / "pulled"
    pulled.mkdir()
    target = model_config(pulled, config)
    target.model_weights = str(weights)
    draft = draft_of(target, model=target.model_weights, method="mtp")
    assert draft.model == str(weights)
    assert draft.hf_config_path == str(config)


def test_a_draft_model_of_its_own_keeps_its_own_configuration(split, checkpoint):
    draft = draft_of(model_config(*split), model=str(checkpoint), method="mtp")
    assert draft.model == str(checkpoint)
    assert draft.hf_config_path is None


def test_without_a_path_there_is_none(checkpoint):
    draft = draft_of(model_config(checkpoint), method="mtp")
    assert draft.hf_config_path is None
    assert draft.hf_config.num_nextn_predict_layers == 1
