"""What the scheduler computes of a prompt whose beginning a KV connector has."""

from __future__ import annotations

from unittest.mock import MagicMock

import pytest
import torch
from tiny_mtp import write_checkpoint

from vllm import SamplingParams
from vllm.engine.arg_utils import EngineArgs
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.kv_cache_interface import (
    FullAttentionSpec,
    KVCacheConfig,
    KVCacheGroupSpec,
)
from vllm.v1.request import Request
from vllm.v1.structured_output import StructuredOutputManager

BLOCK = 16
PROMPT = 24


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    folder = str(write_checkpoint(tmp_path_factory.mktemp("model")))
    found = EngineArgs(
        model=folder,
        block_size=BLOCK,
        max_model_len=64,
        dtype="float32",
        enable_prefix_caching=False,
    ).create_engine_config()
    found.cache_config.num_gpu_blocks = 8
    return found


@pytest.fixture
def scheduler(config):
    spec = FullAttentionSpec(
        block_size=BLOCK, num_kv_heads=1, head_size=8, dtype=torch.float32
    )
    scheduler = Scheduler(
        config,
        KVCacheConfig(8, [], [KVCacheGroupSpec(["layer"], spec)]),
        StructuredOutputManager(config),
        BLOCK,
    )
    # It has the first block of every prompt.
    scheduler.connector = MagicMock()
    scheduler.connector.get_num_new_matched_tokens.return_value = (BLOCK, False)
    return scheduler


def scheduled(scheduler, **parameters):
    parameters = SamplingParams(max_tokens=1, **parameters)
    scheduler.add_request(Request("r", list(range(PROMPT)), parameters, None))
    return scheduler.schedule().num_scheduled_tokens["r"]


def test_prompt_logprobs_need_the_whole_prompt(scheduler):
    assert scheduled(scheduler, prompt_logprobs=1) == PROMPT


def test_another_request_computes_what_the_connector_lacks(scheduler):
    assert scheduled(scheduler) == PROMPT - BLOCK
