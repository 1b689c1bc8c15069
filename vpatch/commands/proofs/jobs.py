"""Behaviour tests as jobs for a cluster: each test of a patch is one."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vpatch.commands.proofs.usecase import IdleError, proof_plans, refuse_idle
from vpatch.declare.smoke import Needs
from vpatch.evidence.subject import digest_of_subject, subject_trees
from vpatch.harness.target import TreeContent
from vpatch.runs.cluster_nodes import WantedNode
from vpatch.runs.cluster_run import NodeTask
from vpatch.runs.kept_cells import key_of
from vpatch.runs.packed_trees import packed
from vpatch.util.digest import digest_of
from vpatch.workspace.context import exact_release
from vpatch.workspace.selection import with_required

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from vpatch.declare.patch import Proof
    from vpatch.evidence.records import SubjectTree
    from vpatch.library.patch import Patch
    from vpatch.runs.cluster_nodes import SeenCluster
    from vpatch.workspace.context import Context

# A part of each key. Increase it when the content of a result changes.
_FORMAT = 1


@dataclass(frozen=True)
class ProofSink:
    """What gets the results of tests: those that came back or were lost, and those left out."""

    logs: Path
    on_settled: Callable[[ProofTask, str, Mapping[str, bytes] | None], None]
    on_left_out: Callable[[ProofTask, str], None]


@dataclass(kw_only=True)
class ProofTask(NodeTask):
    """A behaviour test on a release. `files` are what the node needs of the patch."""

    patch: Patch
    proof: Proof
    release: str
    subject: Sequence[SubjectTree]
    about: dict[str, Any]
    files: Mapping[str, bytes]
    into: ProofSink

    @property
    def title(self) -> str:
        return f"{self.patch.id} {self.proof.test}"

    @property
    def log(self) -> Path:
        return self.into.logs / f"{self.patch.id}-{self.proof.test}.log"

    @property
    def wanted(self) -> WantedNode:
        gpus = 1 if self.proof.engine == "cuda" else 0
        return WantedNode(self.title, Needs(gpus=gpus), 1, "")

    @property
    def at_least(self) -> WantedNode:
        # In the engine of a Python, a test of another kind is left out.
        return WantedNode(self.title, Needs(), 1, "")

    @property
    def limit(self) -> float:
        return 2 * self.proof.timeout

    def is_idle(self, kind: str) -> bool:
        if kind == self.proof.engine:
            return False
        self.into.on_left_out(self, f"it needs {self.proof.engine}")
        return True

    def key(self, engine: str, digests: Mapping[str, str]) -> str:  # noqa: ARG002 - no checkpoint
        return key_of(
            {
                "format": _FORMAT,
                "subject": digest_of_subject(self.subject),
                "about": self.about,
                "files": {path: digest_of(text) for path, text in sorted(self.files.items())},
                "engine": [engine, self.release],
            }
        )

    def message(self, seen: SeenCluster) -> dict[str, Any]:  # noqa: ARG002 - it needs no checkpoint
        return self.about

    def settle(self, node: str, files: Mapping[str, bytes] | None) -> None:
        self.into.on_settled(self, node, files)


def proof_task(
    context: Context,
    patch: Patch,
    proof: Proof,
    vllm: str,
    at: str,
    into: ProofSink,
) -> ProofTask:
    """Plan a test, and pack what a node needs for it below the folder `at`.

    Raises:
        IdleError: it would prove nothing there.
        UntrustedError: the user does not trust the patch.
    """
    release = exact_release(context, vllm)
    if refusal := proof.refusal(release):
        raise IdleError(f"{proof.test} is not for vLLM {release}: {refusal}")
    with ExitStack() as stack:
        # The nodes open the releases that it compares with.
        alone = proof.model_copy(update={"references": {}})
        plans = proof_plans(context, patch, alone, release, stack)
        context.require_trust(with_required([*proof.on_top_of, patch.id], context.library))
        refuse_idle(patch, plans.all_after)
        trees = plans.trees
        changes = [trees.before, trees.after, *(changed for _, changed, _ in trees.plugins)]
        listed, files = packed(
            [TreeContent(one, {}, is_release=True) for one in changes], f"{at}/trees"
        )
        folder = context.trust.copy_of(patch.folder)
        for file in sorted(path for path in folder.rglob("*") if path.is_file()):
            if "__pycache__" not in file.parts:
                files[f"{at}/patch/{file.relative_to(folder).as_posix()}"] = file.read_bytes()
        about = {
            "do": "proof",
            "version": release,
            "trees": listed,
            "patch": f"{at}/patch",
            "proof": proof.model_dump(mode="json", by_alias=True, exclude_defaults=True),
            "plugins": dict(proof.trees),
            "references": dict(proof.references),
        }
        subject = subject_trees(plans.all_after)
    return ProofTask(
        patch=patch,
        proof=proof,
        release=release,
        subject=subject,
        about=about,
        files=files,
        into=into,
    )
