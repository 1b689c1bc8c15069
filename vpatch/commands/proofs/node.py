"""A behaviour test's job on a node: both runs, as on one machine."""

from __future__ import annotations

import json
import os
from contextlib import ExitStack
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from vpatch.commands.proofs.usecase import IdleError, refuse_other, refuse_unfit
from vpatch.declare.patch import Proof
from vpatch.engine.environment import packages_beside
from vpatch.harness.behaviour import ProofTrees, run_behaviour_test
from vpatch.progress import Silent
from vpatch.runs.packed_trees import unpacked
from vpatch.source.cache import Cache, default_cache_folder
from vpatch.source.pip_settings import read_pip_settings
from vpatch.source.resolve import open_tree
from vpatch.source.spec import parse_vllm

if TYPE_CHECKING:
    from pathlib import Path

    from vpatch.engine.environment import Engine


def tested_on_node(job: dict[str, Any], engine: Engine, folder: Path, out: Path) -> dict[str, Any]:
    """Run the test that a job says; the logs of both runs go to `out`.

    Raises:
        UsageError: the engine has no pytest.
        UnavailableError: a release that the test compares with cannot be fetched.
    """
    proof = Proof.model_validate_json(json.dumps(job["proof"]))
    about = {"engine": {"kind": engine.kind, "version": engine.version}}
    own = None if engine.made else engine
    try:
        if own is not None:
            refuse_unfit(own)
        refuse_other(proof, engine.kind, job["version"], own)
    except IdleError as idle:
        return about | {"idle": idle.what}
    sent = folder / "sent"
    before, after, *plugins = [tree.changes for tree in unpacked(job["trees"], sent)]
    patch = sent / job["patch"]
    names = [(name, patch / place) for name, place in job["plugins"].items()]
    further = [
        (name, changes, place) for (name, place), changes in zip(names, plugins, strict=True)
    ]
    with ExitStack() as stack:
        references = {
            variable: stack.enter_context(
                open_tree(
                    parse_vllm(release),
                    cache=Cache(default_cache_folder()),
                    settings=read_pip_settings(os.environ),
                    offline=False,
                    progress=Silent(),
                )
            ).files
            for variable, release in job["references"].items()
        }
        packages = packages_beside(engine, proof.packages, Silent())
        trees = ProofTrees(before, after, further, references, packages)
        (out / "logs").mkdir()
        found = run_behaviour_test(patch, proof, engine, trees, out / "logs")
    return about | {"found": asdict(found)}
