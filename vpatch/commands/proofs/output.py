"""The result of `test`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import AfterValidator

from vpatch.console.document import OutputModel, read_from

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vpatch.commands.proofs.example_records import RecordedExample
    from vpatch.commands.proofs.shape_records import RecordedShapes
    from vpatch.commands.proofs.style import Style
    from vpatch.workspace.examples import ExampleResult


class ExampleOutput(OutputModel):
    """An example of a patch, which was applied twice."""

    patch: str
    example: str
    """The folder of the example, below `examples`."""
    failures: list[str]
    """Sentences and diffs for people; empty if the example holds, or was written."""


class RefusingHookOutput(OutputModel):
    hook: str = read_from("id")
    details: str = read_from("output")
    """What it prints, and what it would change."""


class StyleOutput(OutputModel):
    """What a release's own hooks for format and lint say of what a patch makes of it."""

    patch: str = read_from("patch.id")
    release: str | None
    """Null if no release is known for the patch."""
    passed: list[str]
    """The hooks that accept it."""
    failed: list[RefusingHookOutput]
    not_judged: list[str]
    """Why all of these hooks, or some, say nothing of it."""


class TestCaseOutput(OutputModel):
    """A test function, in one run."""

    name: str
    outcome: Literal["passed", "failed", "skipped"]
    message: str
    seconds: float


class TestRunOutput(OutputModel):
    tests: list[TestCaseOutput]
    broken: str | None
    """Why there are no results: a sentence for people."""


class BehaviourTestOutput(OutputModel):
    """A behaviour test, which ran inside a real vLLM without the patch and with it."""

    patch: str = read_from("patch.id")
    test: str = read_from("proof.test")
    """The file of the test, in the folder of the patch."""
    engine: str = read_from("kind")
    """The kind of the engine, `cpu` or `cuda`."""
    vllm: str = read_from("version")
    """The release that it ran in."""
    pristine: TestRunOutput = read_from("found.pristine")
    patched: TestRunOutput = read_from("found.patched")
    problems: list[str] = read_from("found.problems")
    """Sentences for people; empty if the test holds."""
    evidence: Path | None = read_from("folder")
    """The folder of the evidence, if there is any."""


class ReleaseTestOutput(OutputModel):
    """What a behaviour test showed on one release of vLLM."""

    patch: str = read_from("patch.id")
    test: str = read_from("proof.test")
    """The file of the test, in the folder of the patch."""
    engine: str = read_from("proof.engine")
    """The kind of the engine, `cpu` or `cuda`."""
    vllm: str = read_from("release")
    """The exact release."""
    tree: str
    """The tree with the code of the patch: `vllm`, or a plugin that the test brings along."""
    state: str = read_from("found.state")
    """The state of the patch in that tree."""
    outcome: Literal["holds", "contradicts", "not asked"] = read_from("found.outcome")
    reason: str | None = read_from("found.reason")
    """Why it was not asked, what contradicts the state, or which tests of the file did not run."""
    recorded: bool = read_from("known")
    """Whether the result was recorded before; then the test did not run now."""
    runs: dict[str, TestRunOutput]
    """By `pristine` and `patched`; only `pristine` where the patch is upstreamed."""
    problems: list[str]
    """Sentences for people, longer than `reason`."""
    seconds: Annotated[float, AfterValidator(lambda seconds: round(seconds, 1))]


class IdleTestOutput(OutputModel):
    """A behaviour test that did not run."""

    patch: str
    test: str
    reason: str


class RecordedShapeOutput(OutputModel):
    """Releases that have the same code, as a patch reads it."""

    patch: str
    tree: str
    releases: list[str]
    state: str
    variant: str | None
    definitions: int
    """How many definitions the patch reads there."""


class LeftOutOutput(OutputModel):
    """A release that got no record, because an apply would stop there."""

    patch: str
    tree: str
    release: str
    state: str
    reason: str
    """A sentence for people."""


class TestOutput(OutputModel):
    """The result of `vpatch test`."""

    examples: list[ExampleOutput]
    """Empty with `--engine`. With `--record-examples`, those that were asked for."""
    style: list[StyleOutput]
    """Empty with `--no-style`, `--engine` and `--record`. Without `--vllm`, of own patches only."""
    behaviour_tests: list[BehaviourTestOutput]
    """Empty without `--engine`."""
    not_run: list[IdleTestOutput]
    """Behaviour tests that are not for this engine."""
    releases: list[ReleaseTestOutput]
    """Empty without several releases and `--record`."""
    shapes: list[RecordedShapeOutput]
    """What `--record` wrote without `--engine`."""
    left_out: list[LeftOutOutput]
    """What it could not record."""

    @classmethod
    def of(cls, **parts: Any) -> Self:
        """The given parts; all others are empty."""
        return cls(**{name: [] for name in cls.model_fields} | parts)

    @classmethod
    def of_shapes(cls, recorded: Iterable[RecordedShapes]) -> Self:
        shapes = [
            RecordedShapeOutput(
                patch=one.patch.id,
                tree=tree,
                releases=list(shape.releases),
                state=shape.state,
                variant=shape.variant,
                definitions=len(shape.definitions),
            )
            for one in recorded
            for tree, shapes in one.shapes.shapes.items()
            for shape in shapes
        ]
        left_out = [
            LeftOutOutput(
                patch=one.patch.id,
                tree=conflicting.tree,
                release=conflicting.release,
                state=conflicting.decision.state,
                reason=conflicting.decision.reason,
            )
            for one in recorded
            for conflicting in one.left_out
        ]
        return cls.of(shapes=shapes, left_out=left_out)

    @classmethod
    def of_recorded_examples(cls, recorded: Iterable[RecordedExample]) -> Self:
        return cls.of(
            examples=[
                ExampleOutput(
                    patch=one.patch.id,
                    example=one.name,
                    failures=[] if one.why_not is None else [one.why_not],
                )
                for one in recorded
            ]
        )

    @classmethod
    def of_examples(
        cls, results: Iterable[tuple[str, ExampleResult]], styles: Iterable[Style]
    ) -> Self:
        examples = [
            ExampleOutput(patch=patch, example=one.name, failures=list(one.failures))
            for patch, one in results
        ]
        style = [StyleOutput.model_validate(one) for one in styles]
        return cls.of(examples=examples, style=style)
