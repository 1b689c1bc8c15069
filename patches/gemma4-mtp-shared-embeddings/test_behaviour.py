"""Which table of embeddings a draft of another width than the trunk has."""

from __future__ import annotations

from types import SimpleNamespace

import torch
from torch import nn

from vllm.v1.spec_decode import llm_base_proposer

PROPOSER = llm_base_proposer.SpecDecodeBaseProposer
TRUNK, DRAFT = 16, 8


class Inner(nn.Module):
    """A model with a table of embeddings."""

    def __init__(self, width):
        super().__init__()
        self.embed_tokens = nn.Embedding(4, width)


class Model(nn.Module):
    """A causal model around it."""

    def __init__(self, width):
        super().__init__()
        self.model = Inner(width)


def shares(monkeypatch, width, own=None):
    """Whether a draft gets the trunk's table; `own` is what EAGLE drafts say."""
    monkeypatch.setattr(
        llm_base_proposer, "get_pp_group", lambda: SimpleNamespace(world_size=1)
    )
    trunk, draft = Model(TRUNK), Model(width)
    if own is not None:
        draft.has_own_embed_tokens = own
    PROPOSER._maybe_share_embeddings(SimpleNamespace(model=draft), trunk)
    return draft.model.embed_tokens is trunk.model.embed_tokens


def test_an_mtp_draft_of_another_width_shares_the_table(monkeypatch):
    assert shares(monkeypatch, DRAFT)


def test_an_mtp_draft_of_the_same_width_shares_the_table(monkeypatch):
    assert shares(monkeypatch, TRUNK)


def test_an_eagle_draft_of_another_width_keeps_its_table(monkeypatch):
    assert not shares(monkeypatch, DRAFT, own=False)


def test_an_eagle_draft_without_a_table_shares_that_of_the_same_width(monkeypatch):
    assert shares(monkeypatch, TRUNK, own=False)


def test_an_eagle_draft_with_another_table_keeps_it(monkeypatch):
    torch.manual_seed(0)
    assert not shares(monkeypatch, TRUNK, own=True)
