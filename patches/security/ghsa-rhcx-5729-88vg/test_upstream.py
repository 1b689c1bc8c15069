"""vLLM's own test of the fix, from 0.31.0, which has it.

It names a model of a hub, so it gets a small one of this machine. The scheduler reads
its shape.
"""

from __future__ import annotations

from functools import partial

import pytest
from tiny_mtp import write_checkpoint
from upstream_tests import taken_from

NAME = "test_kv_connector_honors_skip_reading_prefix_cache"
found = taken_from("v1/core/test_scheduler.py", NAME, helpers="OWN")
globals().update(found)


@pytest.fixture(autouse=True)
def _model_of_this_machine(tmp_path, monkeypatch):
    names = found[NAME].__globals__
    local = partial(
        names["create_scheduler"],
        model=str(write_checkpoint(tmp_path)),
        skip_tokenizer_init=True,
    )
    monkeypatch.setitem(names, "create_scheduler", local)
