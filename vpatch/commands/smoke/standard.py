"""The smoke plan for a vLLM that no recipe names: four starts, a few minutes on a laptop."""

from __future__ import annotations

from vpatch.declare.smoke import Smoke
from vpatch.harness.models import TINY_ENVIRONMENT, TINY_FLAGS


def standard_plan() -> Smoke:
    """Return a plan of k=0 and k=3, offline and as a server, with a tiny model made on the spot."""
    return Smoke.model_validate(
        {
            "models": {"all-accepted": {"synthetic": "all"}},
            "prompts": {"words": ("Say <003><009>", "<100><200>", (5, 17, 40))},
            "defaults": {
                "prompts": "words",
                "flags": TINY_FLAGS,
                "environment": TINY_ENVIRONMENT,
                "timeouts": {"start": 900, "token": 120, "cell": 1800, "stop": 60},
            },
            "cells": (
                {
                    "model": "all-accepted",
                    "k": (0, 3),
                    "modes": ("offline",),
                    # In one process, as a script would run it; servers have an engine of their own.
                    "environment": {"VLLM_ENABLE_V1_MULTIPROCESSING": "0"},
                },
                {"model": "all-accepted", "k": (0, 3), "modes": ("server",)},
            ),
        }
    )
