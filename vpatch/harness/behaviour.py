"""Behaviour tests: the same pytest file inside a real vLLM, pristine and patched."""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal
from xml.etree import ElementTree as ET

from vpatch.engine import PAYLOAD
from vpatch.engine.overlay import make_overlay, on_top, touched_as_released
from vpatch.engine.process import run
from vpatch.planning.state import overall_changes
from vpatch.util import child_environment
from vpatch.util.matching import PatternFaultError, found_in
from vpatch.util.scratch import scratch_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from vpatch.declare.patch import Proof
    from vpatch.engine.environment import Engine
    from vpatch.planning.state import Change, Plan

TreeLabel = Literal["pristine", "patched"]
_LABELS: tuple[TreeLabel, ...] = ("pristine", "patched")
# The plugin of pytest, in the payload, that leaves out tests by the names of their functions.
_LEAVE_OUT = "leave_out"
# pytest puts this before the lines of a traceback that say what was raised.
_RAISED = re.compile(r"^E +(.*)$", re.MULTILINE)


@dataclass(frozen=True)
class TestResult:
    """One test of one run. `message` is what was raised, or why it was skipped."""

    name: str
    outcome: Literal["passed", "failed", "skipped"]
    message: str = ""
    seconds: float = 0.0

    @property
    def function(self) -> str:
        return self.name.partition("[")[0].rpartition(".")[2]

    def shown(self, proof: Proof) -> str:
        """Return the line of the message that the proof declares, or else the first line."""
        wanted = proof.fails_before.get(self.function, "")
        lines = self.message.splitlines() or [""]
        try:
            return next(iter(found_in(wanted, lines)), lines[0])
        except PatternFaultError:
            return lines[0]  # the verdict says what is wrong with it


@dataclass(frozen=True)
class Run:
    """One run of the file; `broken` says why it has no results."""

    tests: tuple[TestResult, ...]
    broken: str | None = None


@dataclass(frozen=True)
class Behaviour:
    """Both runs, and what speaks against the proof: nothing, where it holds."""

    pristine: Run
    patched: Run
    problems: tuple[str, ...]


@dataclass(frozen=True)
class ProofPlans:
    """What a proof is based on.

    `before` and `after` are the plans for vLLM without the patch and with it; `plugins` are those
    with it of the trees that a proof brings along, with their folders.
    """

    before: Plan
    after: Plan
    plugins: Sequence[tuple[Plan, Path]]
    references: Mapping[str, Path]

    @property
    def all_after(self) -> list[Plan]:
        """The plans with the patch, of vLLM and of the plugins."""
        return [self.after, *(plan for plan, _ in self.plugins)]

    def trees(self, packages: Path | None = None) -> ProofTrees:
        """Return what the plans change; `packages` is a folder with further ones for both runs."""
        return ProofTrees(
            overall_changes(self.before),
            overall_changes(self.after),
            [(plan.pin.tree, overall_changes(plan), folder) for plan, folder in self.plugins],
            self.references,
            packages,
        )


@dataclass(frozen=True)
class ProofTrees:
    """What a proof lays over an engine: changes of vLLM without the patch and with it.

    `plugins` are further trees: their names, what the patch changes there, and their folders.
    `released` are the files of the release that have the cure, where the engine's differ.
    """

    before: Mapping[str, Change]
    after: Mapping[str, Change]
    plugins: Sequence[tuple[str, Mapping[str, Change], Path]]
    references: Mapping[str, Path]
    packages: Path | None = None
    released: Mapping[str, Change] = field(default_factory=dict)


def run_behaviour_test(
    patch: Path, proof: Proof, engine: Engine, trees: ProofTrees, logs: Path | None = None
) -> Behaviour:
    """Run a behaviour test without the patch and with it.

    `patch` is the folder of the patch, and `logs` is a folder that gets both logs.

    Raises:
        OverlayError: the engine's vLLM is not the tree that the plan was made for.
    """
    with scratch_folder() as scratch:
        runs = []
        for label in _LABELS:
            workdir = scratch / label
            workdir.mkdir()
            log = (logs or workdir) / f"{label}.log"
            runs.append(_pytest(patch, proof, engine, trees, label, workdir, log))
        pristine, patched = runs
        declared = _declared_failures(proof, engine)
        return Behaviour(pristine, patched, tuple(_problems(declared, pristine, patched)))


def run_once(
    patch: Path,
    proof: Proof,
    engine: Engine,
    trees: ProofTrees,
    label: TreeLabel,
    released: Mapping[str, Change] | None = None,
) -> tuple[Run, tuple[str, ...]]:
    """Run a behaviour test on one tree, where all must pass; return what speaks against that.

    That is a pristine tree whose release has the cure, or a patched one.

    Raises:
        OverlayError: the engine's vLLM is not the tree that the plan was made for.
    """
    trees = replace(trees, released=released or {})
    with scratch_folder() as workdir:
        log = workdir / f"{label}.log"
        only = _pytest(patch, proof, engine, trees, label, workdir, log)
    if only.broken:
        return only, (f"on the {label} tree {only.broken}",)
    bad = [test for test in only.tests if test.outcome != "passed"]
    return only, tuple(f"{t.name} {t.outcome} on the {label} tree: {t.message}" for t in bad)


def _declared_failures(proof: Proof, engine: Engine) -> dict[str, str]:
    """What fails before, of the tests that this release can run."""
    left_out = proof.left_out(engine.version)
    return {name: text for name, text in proof.fails_before.items() if name not in left_out}


def _path(engine: Engine, trees: ProofTrees, workdir: Path, label: TreeLabel) -> Iterator[Path]:
    """What comes first on PYTHONPATH: the packages of the trees that are laid over."""
    patched = label == "patched"
    changes = trees.after if patched else trees.before
    below = touched_as_released(engine, trees.after) | dict(trees.released)
    yield make_overlay(engine.package, on_top(below, changes), workdir / "vllm")
    for name, changed, folder in trees.plugins:
        copy = workdir / "trees" / name
        shutil.copytree(folder, copy)
        for path, change in (changed if patched else {}).items():
            (copy / path).parent.mkdir(parents=True, exist_ok=True)
            (copy / path).write_bytes(change.after)
        yield copy
    yield PAYLOAD
    if trees.packages is not None:
        yield trees.packages


def _pytest(
    patch: Path,
    proof: Proof,
    engine: Engine,
    trees: ProofTrees,
    label: TreeLabel,
    workdir: Path,
    log: Path,
) -> Run:
    path = _path(engine, trees, workdir, label)
    report, test = workdir / "report.xml", patch / proof.test
    named = {name: str(folder) for name, folder in trees.references.items()}
    environment = child_environment.environment(engine=True) | proof.environment | named
    environment |= {"PYTHONPATH": os.pathsep.join(map(str, path)), "PYTHONDONTWRITEBYTECODE": "1"}
    options = ["-q", "-p", "no:cacheprovider", "-c", os.devnull, f"--junitxml={report}"]
    if left_out := proof.left_out(engine.version):
        options += ["-p", _LEAVE_OUT, *(f"--leave-out={name}" for name in left_out)]
    # Nothing above the patch's folder takes part: it is not what the user trusts.
    options.append(f"--confcutdir={patch}")
    ended = run(
        [engine.python, "-m", "pytest", *options, "--rootdir", patch, test],
        cwd=workdir,
        log=log,
        timeout=proof.timeout,
        environment=environment,
    )
    if ended.code is None:
        return Run((), f"it did not end within {proof.timeout} s:\n{ended.ending}")
    if not report.is_file():
        return Run((), f"it ended with {ended.code}, without a report:\n{ended.ending}")
    tests = tuple(_outcomes(ET.parse(report), test.stem))  # noqa: S314 - pytest wrote it just now
    return Run(tests) if tests else Run((), f"it has no test:\n{ended.ending}")


def _outcomes(report: ET.ElementTree[ET.Element], module: str) -> Iterator[TestResult]:
    for case in report.iter("testcase"):
        scope = case.get("classname", "").rpartition(module)[2].strip(".")
        name, seconds = case.get("name", ""), float(case.get("time", "0"))
        name = f"{scope}.{name}" if scope else name
        bad = [element for tag in ("failure", "error") for element in case.findall(tag)]
        skipped = case.find("skipped")
        if bad:
            yield TestResult(name, "failed", "\n".join(map(_message, bad)), seconds)
        elif skipped is not None:
            yield TestResult(name, "skipped", skipped.get("message", ""), seconds)
        else:
            yield TestResult(name, "passed", "", seconds)


def _message(element: ET.Element) -> str:
    """What was raised, and not the source around it, which may have the words as well."""
    raised = _RAISED.findall(element.text or "")
    return "\n".join(raised) or element.get("message", "")


def _problems(fails_before: Mapping[str, str], pristine: Run, patched: Run) -> Iterator[str]:
    if pristine.broken or patched.broken:
        for label, result in zip(_LABELS, (pristine, patched), strict=True):
            if result.broken:
                yield f"on the {label} tree {result.broken}"
        return
    before, after = ({test.name for test in result.tests} for result in (pristine, patched))
    if before != after:
        yield f"the two runs have not the same tests: {', '.join(sorted(before ^ after))}"
    functions = {test.function for test in pristine.tests}
    for name in fails_before.keys() - functions:
        yield f"fails-before names {name}, and there is no such test"
    for test in pristine.tests:
        yield from _undeclared_outcomes(test, fails_before.get(test.function))
    for test in patched.tests:
        if test.outcome != "passed":
            yield f"{test.name} {test.outcome} on the patched tree: {test.message}"


def _undeclared_outcomes(test: TestResult, wanted: str | None) -> Iterator[str]:
    """What a test of the pristine run does other than was declared."""
    if wanted is None and test.outcome != "passed":
        yield f"{test.name} {test.outcome} on the pristine tree, undeclared: {test.message}"
    elif wanted is not None and test.outcome != "failed":
        yield f"{test.name} {test.outcome} on the pristine tree, and must fail"
    elif wanted is not None:
        try:
            matches = found_in(wanted, [test.message])
        except PatternFaultError as error:
            yield f"what fails-before declares of {test.name} cannot be looked for: {error}"
            return
        if not matches:
            yield f"{test.name} failed otherwise than declared ({wanted}): {test.message}"
