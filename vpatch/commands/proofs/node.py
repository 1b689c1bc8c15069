"""A behaviour test's job on a node: both runs, as on one machine."""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from vpatch.commands.proofs.usecase import IdleError, refuse_other, refuse_unfit
from vpatch.declare.patch import Proof
from vpatch.engine.environment import packages_beside
from vpatch.harness.behaviour import Behaviour, ProofTrees, run_behaviour_test
from vpatch.progress import Silent
from vpatch.runs.node_job import EngineJob, RunAnswer, facts_of
from vpatch.source.cache import Cache, default_cache_folder
from vpatch.source.pip_settings import read_pip_settings
from vpatch.source.resolve import open_tree
from vpatch.source.spec import PypiSpec

if TYPE_CHECKING:
    from pathlib import Path

    from vpatch.engine.environment import Engine


class ProofAnswer(RunAnswer):
    """What came of a test. `idle` says why it did not run."""

    behaviour: Behaviour | None = Field(None, alias="found")
    idle: str | None = None


class ProofJob(EngineJob):
    """Run a behaviour test.

    `patch` is the folder of the patch in what was sent. `trees` are vLLM's without the patch and
    with it, and those of `plugins`, which have the folders of these in the patch by their names.
    """

    do: Literal["proof"] = "proof"
    patch: str
    proof: Proof
    plugins: dict[str, str]
    references: dict[str, str]

    def run(self, folder: Path) -> ProofAnswer:
        with self.opened() as engine:
            own = None if engine.is_managed else engine
            try:
                if own is not None:
                    refuse_unfit(own)
                refuse_other(self.proof, engine.kind, self.version, own)
            except IdleError as idle:
                return ProofAnswer(**facts_of(engine), idle=idle.what)
            return ProofAnswer(**facts_of(engine), found=self._behaviour(engine, folder))

    def _behaviour(self, engine: Engine, folder: Path) -> Behaviour:
        sent, logs = folder / "sent", folder / "out" / "logs"
        patch = sent / self.patch
        before, after, *plugins = [tree.unpacked(sent).changes for tree in self.trees]
        further = [
            (name, changes, patch / place)
            for (name, place), changes in zip(self.plugins.items(), plugins, strict=True)
        ]
        with ExitStack() as stack:
            references = {
                variable: stack.enter_context(
                    open_tree(
                        PypiSpec("vllm", release),
                        cache=Cache(default_cache_folder()),
                        settings=read_pip_settings(os.environ),
                        offline=False,
                        progress=Silent(),
                    )
                ).files
                for variable, release in self.references.items()
            }
            packages = packages_beside(engine, self.proof.packages, Silent())
            trees = ProofTrees(before, after, further, references, packages)
            logs.mkdir()
            return run_behaviour_test(patch, self.proof, engine, trees, logs)
