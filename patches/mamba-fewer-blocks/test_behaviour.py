"""The blocks of a Mamba layer, where a step has fewer drafts than the one before."""

from __future__ import annotations

from collections import defaultdict

import pytest

from vllm.v1.core.single_type_kv_cache_manager import MambaManager
from vllm.v1.kv_cache_interface import MambaSpec

BLOCK = 16
REQUEST = "request"


class Pool:
    """Numbers its blocks from 100 on."""

    def __init__(self):
        self.next = 100

    def get_new_blocks(self, count):
        blocks = list(range(self.next, self.next + count))
        self.next += count
        return blocks


@pytest.fixture
def manager():
    """A manager with one block for drafts, and with prefix caching."""
    one = MambaManager.__new__(MambaManager)
    one.kv_cache_spec = MambaSpec.__new__(MambaSpec)
    one.mamba_cache_mode = "align"
    one.block_size = BLOCK
    one.num_speculative_blocks = 1
    one.req_to_blocks = defaultdict(list)
    one.last_state_block_idx = {}
    one._allocated_block_reqs = set()
    one._checkpoints = {}
    one._partial_hit_reqs = {}
    one._null_block = 0
    one.block_pool = Pool()
    return one


def test_a_first_step_gets_blocks_for_its_tokens_and_drafts(manager):
    assert manager.allocate_new_blocks(REQUEST, 10, 10) == [100, 101]
    assert manager.allocate_new_blocks(REQUEST, 12, 12) == []


def test_a_step_with_fewer_drafts_keeps_its_blocks(manager):
    """33 tokens need three blocks and one for drafts; 32 tokens need one fewer."""
    manager.req_to_blocks[REQUEST] = [0, 0, 100, 101]
    manager._allocated_block_reqs.add(REQUEST)
    assert manager.allocate_new_blocks(REQUEST, 2 * BLOCK + 1, 2 * BLOCK + 1) == []
    assert manager.allocate_new_blocks(REQUEST, 2 * BLOCK, 2 * BLOCK) == []
    assert manager.req_to_blocks[REQUEST] == [0, 0, 100, 101]
