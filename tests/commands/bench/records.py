"""Records of benchmarks that nobody ran: what they say is computed, and can be known."""

from __future__ import annotations

from typing import Any

from vpatch.commands.bench.schema import BenchRecord

# What each repeat has of the first one's speed, one after the other.
DRIFT = (1.0, 1.01, 0.99, 1.005, 0.995)
DIGEST = "sha256:" + "a" * 64
MACHINE = {
    "system": "Linux 6.1 x86_64",
    "processor": "a processor",
    "cores": 2,
    "memory": 16.0,
    "gpus": [],
    "problem": None,
}
GPU = {"name": "NVIDIA H200", "capability": "9.0", "memory": 139.8, "driver": "580.1"}
PLAN = {
    "needs": {"gpus": 0, "memory-gib": 0},
    "models": {"tiny": {"synthetic": "all"}},
    "shapes": [{"dataset": "random", "input": 24, "output": 32}],
    "concurrency": [1, 4],
    "prompts": 4,
    "repeats": 3,
    "share-server": False,
    "warm-up": True,
    "method": "mtp",
    "tensor-parallel": 1,
    "sampling": {"temperature": 0.0, "ignore-eos": True},
    "flags": {"enforce-eager": True},
    "environment": {"VLLM_CPU_KVCACHE_SPACE": "1"},
    "timeouts": {"start": 300, "token": 60, "cell": 600, "stop": 60},
    "cells": [{"model": "tiny", "k": [0, 1, 2, 3]}],
}


def latency(mean: float) -> dict[str, Any]:
    """Latencies that lie evenly from half of a mean to one and a half of it."""
    return {
        "mean": mean,
        "p50": mean,
        "p95": mean * 1.45,
        "p99": mean * 1.49,
        "quantiles": [round(mean * (0.5 + percent / 100), 4) for percent in range(101)],
    }


def measured(speed: float, k: int = 0, accepted: float = 1.0, requests: int = 16) -> dict[str, Any]:
    """`speed` is in output tokens per second, and `accepted` of each draft at each position."""
    drafts = 11 * requests
    positions = [round(drafts * accepted ** (position + 1)) for position in range(k)]
    tokens = 32 * requests
    return {
        "seconds": tokens / speed,
        "requests": requests,
        "input_tokens": 24 * requests,
        "output_tokens": tokens,
        "output_tokens_per_second": speed,
        "latency_ms": {
            "ttft": latency(12.0),
            "tpot": latency(1000 / speed),
            "itl": latency(1000 * (1 + accepted * k) / speed),
            "e2el": latency(12.0 + 31_000 / speed),
        },
        "cached_tokens": 0,
        "counters": {
            "drafts": drafts if k else 0,
            "draft_tokens": drafts * k,
            "accepted": sum(positions),
            "per_position": positions,
        },
    }


def point(speed: float | None, **place: Any) -> dict[str, Any]:
    """A point of the matrix; one without a speed did not start."""
    accepted = place.pop("accepted", 1.0)
    found = {"side": 0, "model": "tiny", "k": 0, "shape": "24/32", "concurrency": 1, "repeat": 0}
    found |= {"prompts": 4, "seed": 7, "log": "logs/001.log", "raw": "raw/001.json"} | place
    fault = {"kind": "does not start", "what": "the server ended with 1", "cause": None}
    return found | {
        "measured": None if speed is None else measured(speed, found["k"], accepted),
        "fault": fault | {"ending": []} if speed is None else None,
    }


def side(name: str = "", **said: Any) -> dict[str, Any]:
    return {
        "name": name,
        "what": "vLLM 0.23.0 with 6 patches",
        "machine": MACHINE,
        "inherited": {},
        "digest": DIGEST,
        "subject": [],
        "engine": {"kind": "cpu", "vllm": "0.23.0"},
    } | said


def record(
    *,
    ks: tuple[int, ...] = (0, 1, 2, 3),
    concurrency: tuple[int, ...] = (1, 4),
    models: tuple[str, ...] = ("tiny",),
    repeats: int = 3,
    sides: tuple[float, ...] = (1.0,),
    gain: float = 0.3,
    accepted: float = 1.0,
) -> dict[str, Any]:
    """A whole record: each of `sides` has so much of the first one's speed, each k `gain` more."""
    points = [
        point(
            100.0 * c**0.8 * (1 + gain * k) * factor * DRIFT[(repeat + number) % len(DRIFT)],
            side=number,
            model=model,
            k=k,
            concurrency=c,
            repeat=repeat,
            accepted=accepted,
        )
        for repeat in range(repeats)
        for model in models
        for k in ks
        for c in concurrency
        for number, factor in enumerate(sides)
    ]
    names = ("",) if len(sides) == 1 else ("A", "B", "C")[: len(sides)]
    plan = PLAN | {
        "models": {model: {"synthetic": "all"} for model in models},
        "cells": [{"model": model, "k": list(ks)} for model in models],
        "concurrency": list(concurrency),
        "repeats": repeats,
    }
    return {
        "schema_version": 2,
        "vpatch": "0.1.0",
        "name": "one",
        "made": "2026-11-21T18:00:00+00:00",
        "asked": {"vllm": "0.23", "engine": "cpu"},
        "client": {"vllm": "0.23.0"},
        "models": {model: {"model": "synthetic: all", "digest": DIGEST} for model in models},
        "datasets": {},
        "plan": plan,
        "planned": len(points),
        "sides": [side(name) for name in names],
        "points": points,
    }


def validated(content: dict[str, Any] | BenchRecord) -> BenchRecord:
    """A record as its readers have it."""
    return BenchRecord.model_validate(content)
