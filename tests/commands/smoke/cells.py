"""A cell with everything that one leaves out."""

from __future__ import annotations

from vpatch.commands.smoke.cells import cells_of
from vpatch.declare.smoke import Smoke


def cell_of(*, k=0, mode="offline", prompts=("four", "fives"), **settings):
    keys = {name.replace("_", "-"): value for name, value in settings.items()}
    keys = {"max-tokens": 8, "flags": {"max-model-len": 64}} | keys
    smoke = Smoke.model_validate(
        {
            "models": {"m": {"synthetic": "all"}},
            "prompts": {"p": prompts},
            "cells": ({"model": "m", "k": (k,), "modes": (mode,), "prompts": "p", **keys},),
        }
    )
    (cell,) = cells_of(smoke)
    return cell
