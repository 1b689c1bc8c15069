"""The benchmark plan where no recipe has one: a tiny model, some minutes on a laptop."""

from __future__ import annotations

from vpatch.declare.bench import Bench
from vpatch.harness.models import TINY_ENVIRONMENT, TINY_FLAGS


def standard_bench() -> Bench:
    """Return a plan of k=0 and k=3, with a tiny model made on the spot and short prompts."""
    return Bench.model_validate(
        {
            "models": {"all-accepted": {"synthetic": "all"}},
            "shapes": ({"input": 24, "output": 32},),
            "concurrency": (1, 4),
            "share-server": True,
            "flags": TINY_FLAGS,
            "environment": TINY_ENVIRONMENT,
            "cells": ({"model": "all-accepted", "k": (0, 3)},),
        }
    )
