"""What a patch puts into a real vLLM, so that drafts fail where they fail first."""

from __future__ import annotations

import os

FAULT = os.environ.get("PLANTED")
# Beyond the first half of the long answer.
_LATE = 110


def planted(runner) -> None:
    """Wrap what drafts, once. `runner` is vLLM's GPUModelRunner."""
    if FAULT is None or hasattr(runner, "planted"):
        return
    runner.planted = True
    if FAULT == "limit":
        # vLLM drafts no more where drafts would lie beyond the longest length.
        runner.effective_drafter_max_model_len += 64
    propose, update = runner.propose_draft_token_ids, runner._update_states
    resumed = False

    def updating(scheduler_output):
        nonlocal resumed
        resumed = resumed or bool(scheduler_output.scheduled_cached_reqs.resumed_req_ids)
        return update(scheduler_output)

    def proposing(*args, **kwargs):
        drafts = propose(*args, **kwargs)
        batch = runner.input_batch
        computed = batch.num_computed_tokens_cpu[: batch.num_reqs]
        if FAULT == "late" and batch.num_reqs == 1 and computed[0] > _LATE:
            drafts[:] = 0
        if FAULT == "mixed" and batch.num_reqs > 1:
            drafts = drafts.flip(0)
        if FAULT == "resumed" and resumed:
            drafts[:] = 0
        # The step makes k + 1 tokens, and the next drafts lie k behind them.
        if FAULT == "limit" and max(computed) + 2 * drafts.shape[1] + 1 >= runner.max_model_len:
            raise IndexError("index 4096 is out of bounds for dimension 0 with size 4096")
        return drafts

    runner.propose_draft_token_ids, runner._update_states = proposing, updating
