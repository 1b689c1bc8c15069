"""The use case `test --engine ... --cluster`: behaviour tests on the nodes of a cluster."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from vpatch.commands.proofs.node import ProofAnswer, ProofJob
from vpatch.commands.proofs.usecase import (
    IdleError,
    ProvenTest,
    no_test,
    proof_plans,
    refuse_idle,
    refuse_other,
    require_trust_of_tests,
)
from vpatch.declare.smoke import Needs
from vpatch.engine.kinds import KINDS
from vpatch.errors import UnavailableError, UnusedOptionError, VpatchError, combine
from vpatch.evidence.behaviour import ProofRun, record_of_test
from vpatch.evidence.collecting import collected
from vpatch.evidence.store import LOGS, write_evidence
from vpatch.evidence.subject import digest_of_subject, subject_trees
from vpatch.harness.target import TreeContent
from vpatch.runs.cluster_nodes import WantedNode
from vpatch.runs.cluster_run import ClusterRun, NodeTask
from vpatch.runs.node_job import answer_in
from vpatch.runs.packed_trees import digests_of, packed
from vpatch.util.scratch import scratch_folder
from vpatch.workspace.context import exact_release

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from vpatch.commands.proofs.usecase import ProofRequest
    from vpatch.declare.patch import Proof
    from vpatch.evidence.records import SubjectTree
    from vpatch.library.patch import Patch
    from vpatch.runs.cluster_options import OnCluster
    from vpatch.workspace.context import Context

# A part of each key. Increase it when the content of a result changes.
_FORMAT = 1


def run_proofs_on_cluster(
    context: Context,
    asked: ProofRequest,
    where: OnCluster,
    on_result: Callable[[ProvenTest], None],
) -> None:
    """Run behaviour tests on the nodes of a cluster; `on_result` gets each result when it is there.

    Raises:
        UsageError: a named patch has no test for this engine, or `--resume` has no evidence.
        UnavailableError: the cluster is not there or was lost, a test fits on no node, or no
            attempt at a test came back. The other tests ran.
    """
    if where.resume and asked.root is None:
        raise UnusedOptionError(
            "--resume would have no effect without --evidence-dir",
            hint="give the folder of the evidence, where results are kept",
        )
    with scratch_folder() as name:
        proofs = ClusterProofs(context, asked, where.address, Path(name), on_result)
        proofs.plan()
        run = ClusterRun(proofs.tasks, proofs.files, where, asked.root, context.progress)
        if proofs.tasks:
            run.make()
    if proofs.errors:
        raise combine(proofs.errors)


@dataclass(kw_only=True)
class ProofTask(NodeTask):
    """A behaviour test on a release."""

    job: ProofJob
    patch: Patch
    subject: Sequence[SubjectTree]
    of: ClusterProofs

    @property
    def at_least(self) -> WantedNode:
        # In the engine of a Python, a test of another kind is left out.
        return replace(self.wanted, needs=Needs())

    def is_idle(self, kind: str) -> bool:
        patch, proof = self.patch, self.job.proof
        if kind == proof.engine:
            return False
        if self.of.asked.named and all(one.engine != kind for one in patch.declaration.proof):
            self.of.errors.append(no_test(patch, kind))
        else:
            idle = f"it needs {proof.engine}"
            self.of.on_result(ProvenTest(patch, proof, kind, self.job.version, idle=idle))
        return True

    def settle(self, node: str, files: Mapping[str, bytes] | None) -> None:  # noqa: ARG002
        """Report what came of the test, with evidence if that is asked for."""
        asked, patch = self.of.asked, self.patch
        proof, release = self.job.proof, self.job.version
        if files is None:
            error = UnavailableError(
                f"the test was lost: {self.why_lost}",
                where=str(patch.folder / proof.test),
                hint="look at the nodes, then run the command again with --resume",
                code="cluster.test-lost",
            )
            self.of.errors.append(error)
            return
        answer = answer_in(files, ProofAnswer)
        kind, behaviour = answer.engine.kind, answer.behaviour
        if behaviour is None or asked.root is None:
            test = ProvenTest(patch, proof, kind, release, behaviour, idle=answer.idle)
            self.of.on_result(test)
            return
        name = f"{patch.id}-{Path(proof.test).stem}-{kind}-{self.of.begun:%Y%m%d-%H%M%S}"
        with collected(asked.root, name, numbered=True) as collecting:
            for path, content in files.items():
                folder, slash, file = path.partition("/")
                if slash and folder == LOGS:
                    (collecting.workdir / LOGS / file).write_bytes(content)
            ran = ProofRun(
                name=collecting.name,
                timestamp=self.of.begun.isoformat(timespec="seconds"),
                asked={
                    "patch": patch.id,
                    "engine": asked.engine,
                    "vllm": release,
                    "on": self.of.address,
                },
                subject=self.subject,
                patch=patch,
                proof=proof,
                engine=kind,
                vllm=answer.engine.version,
                machine=answer.machine,
                behaviour=behaviour,
            )
            write_evidence(collecting.workdir, record_of_test(ran))
        evidence = asked.root / collecting.name
        self.of.on_result(ProvenTest(patch, proof, kind, release, behaviour, evidence))


@dataclass
class ClusterProofs:
    """Behaviour tests for a cluster, as far as they came. `logs` is a folder."""

    context: Context
    asked: ProofRequest
    address: str
    logs: Path
    on_result: Callable[[ProvenTest], None]
    tasks: list[ProofTask] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    errors: list[VpatchError] = field(default_factory=list)
    begun: datetime = field(default_factory=lambda: datetime.now(UTC))

    def plan(self) -> None:
        """Plan the tests that are for this engine."""
        asked = self.asked
        # None if only the nodes know it.
        kind = KINDS.get(asked.engine) and asked.engine
        require_trust_of_tests(self.context, asked.patches, kind)
        for patch in asked.patches:
            proofs = patch.declaration.proof
            if asked.named and all(kind not in {None, one.engine} for one in proofs):
                raise no_test(patch, asked.engine)
            for proof in proofs:
                version = asked.vllm or proof.vllm
                try:
                    if kind is not None:
                        refuse_other(proof, kind, version, None)
                    self.tasks.append(self._task(patch, proof, version))
                except IdleError as idle:
                    if asked.named and kind in {None, proof.engine}:
                        raise
                    kind_here = str(kind or proof.engine)
                    self.on_result(ProvenTest(patch, proof, kind_here, version, idle=idle.what))

    def _task(self, patch: Patch, proof: Proof, vllm: str) -> ProofTask:
        """Plan a test, and pack what a node needs for it.

        Raises:
            IdleError: it would prove nothing there.
            UntrustedError: the user does not trust the patch.
        """
        context, at = self.context, f"proofs/{len(self.tasks)}"
        release = exact_release(context, vllm)
        if refusal := proof.refusal(release):
            raise IdleError(f"{proof.test} is not for vLLM {release}: {refusal}")
        with ExitStack() as stack:
            # The nodes open the releases that it compares with.
            alone = proof.model_copy(update={"references": {}})
            plans = proof_plans(context, patch, alone, release, stack)
            refuse_idle(patch, plans.all_after)
            trees = plans.trees()
            changes = [trees.before, trees.after, *(changed for _, changed, _ in trees.plugins)]
            contents = [TreeContent(one, {}, is_release=True) for one in changes]
            pack, subject = packed(contents, f"{at}/trees"), subject_trees(plans.all_after)
        files = pack.files | dict(_files_of(context.trust.copy_of(patch.folder), f"{at}/patch"))
        self.files |= files
        job = ProofJob(
            version=release,
            trees=pack.trees,
            patch=f"{at}/patch",
            proof=proof,
            plugins=dict(proof.trees),
            references=dict(proof.references),
        )
        about = job.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        title = f"{patch.id} {proof.test}"
        return ProofTask(
            title=title,
            log=self.logs / f"{patch.id}-{proof.test}.log",
            wanted=WantedNode(title, Needs(gpus=1 if proof.engine == "cuda" else 0), 1, ""),
            limit=2 * proof.timeout,
            job=job,
            facts={
                "format": _FORMAT,
                "subject": digest_of_subject(subject),
                "about": {"do": job.do, **about},
                "files": digests_of(files),
            },
            patch=patch,
            subject=subject,
            of=self,
        )


def _files_of(folder: Path, at: str) -> Iterator[tuple[str, bytes]]:
    """Yield the files of a patch, by the paths at which they travel."""
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        if "__pycache__" not in file.parts:
            yield f"{at}/{file.relative_to(folder).as_posix()}", file.read_bytes()
