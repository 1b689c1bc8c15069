"""Generates with `vllm.LLM`, and writes what happens to a file of JSON lines as it happens.

    PYTHON generate.py JOB EVENTS

It runs inside an engine's Python, where vpatch is not. JOB is a JSON file:

- files: paths of patched files, whose digests as this process finds them are told first
- engine: keyword arguments of `vllm.LLM`
- prompts: texts or lists of token ids; the first of them is also made long
- sampling: keyword arguments of `vllm.SamplingParams`
- max_tokens, long_tokens: how many tokens to make; 0 for nothing long. What is long is made twice
  where there are drafts, at first half of it: so one sees how acceptance goes on

Whoever watches knows by each line that it goes on, and by a missing one that it hangs.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from digests import digests_of

# A line for each token would be more writing than generating.
_BEAT_SECONDS = 0.5
_COUNTED = ("vllm:spec_decode", "vllm:num_preemptions", "vllm:prefix_cache_hits")


def main() -> None:
    job = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    with Path(sys.argv[2]).open("a", encoding="utf-8") as file:

        def tell(event: str, **facts: Any) -> None:
            file.write(json.dumps({"event": event, **facts}) + "\n")
            file.flush()

        tell("files", digests=digests_of(job["files"]))
        _generate(job, tell)


def _generate(job: dict[str, Any], tell: Any) -> None:
    begun = time.monotonic()
    import vllm

    llm = vllm.LLM(**job["engine"], disable_log_stats=False)
    config = llm.llm_engine.vllm_config.speculative_config
    speculation = config and {"method": config.method, "k": config.num_speculative_tokens}
    seconds = time.monotonic() - begun
    tell("loaded", seconds=seconds, version=vllm.__version__, speculative=speculation)
    _beat_each_step(llm.llm_engine, tell)
    # What compiles or is allocated at the first request is not the speed that is asked about.
    sampling = vllm.SamplingParams(**job["sampling"] | {"max_tokens": 2})
    _pass(llm, job["prompts"], sampling)
    passes = [("prompts", list(range(len(job["prompts"]))), job["max_tokens"])]
    if job["long_tokens"] and speculation:
        passes.append(("half", [0], job["long_tokens"] // 2))
    if job["long_tokens"]:
        passes.append(("long", [0], job["long_tokens"]))
    for name, asked, tokens in passes:
        prompts = [job["prompts"][number] for number in asked]
        sampling = vllm.SamplingParams(**job["sampling"] | {"max_tokens": tokens})
        before, begun = _counters(llm), time.monotonic()
        outputs = _pass(llm, prompts, sampling)
        seconds = time.monotonic() - begun
        # Plain numbers: their sum over one pass is what that pass counted.
        after = _counters(llm)
        counted = {key: _minus(value, before.get(key)) for key, value in after.items()}
        tell(
            "generated",
            name=name,
            asked=asked,
            seconds=seconds,
            outputs=outputs,
            counters=counted,
        )
    tell("done")


def _pass(llm: Any, prompts: list[Any], sampling: Any) -> list[Any]:
    """Make one request of each prompt, all at once."""
    shaped = [{"prompt_token_ids": p} if isinstance(p, list) else p for p in prompts]
    finished = llm.generate(shaped, sampling, use_tqdm=False)
    return [
        {"tokens": list(o.token_ids), "text": o.text, "finish_reason": o.finish_reason}
        for request in finished
        for o in request.outputs
    ]


def _beat_each_step(engine: Any, tell: Any) -> None:
    """Tell of the steps of the engine: where it hangs, they end."""
    step, last_beat = engine.step, 0.0

    def stepping() -> Any:
        nonlocal last_beat
        if time.monotonic() - last_beat > _BEAT_SECONDS:
            tell("step")
            last_beat = time.monotonic()
        return step()

    engine.step = stepping


def _counters(llm: Any) -> dict[str, float | list[float]]:
    """Return vLLM's own counters; those of vectors are lists."""
    metrics = [one for one in llm.get_metrics() if one.name.startswith(_COUNTED)]
    return {one.name: list(one.values) if hasattr(one, "values") else one.value for one in metrics}


def _minus(after: Any, before: Any) -> Any:
    if isinstance(after, list):
        return [a - b for a, b in zip(after, before or [0] * len(after), strict=True)]
    return after - (before or 0)


if __name__ == "__main__":
    # Workers are spawned: they import this file again.
    main()
