"""The results of `list`, `show` and `test`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from vpatch.output.base import OutputModel

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from vpatch.app.examples import ExampleResult
    from vpatch.harness.behaviour import Behaviour
    from vpatch.library.patch import Patch


class ListedPatchOutput(OutputModel):
    id: str
    title: str
    needed_in: dict[str, str]
    """The range of versions that the patch claims, by the name of the tree."""
    digest: str
    folder: Path


class ListedRecipeOutput(OutputModel):
    name: str
    file: Path


class ListOutput(OutputModel):
    """The result of `vpatch list`."""

    patches: list[ListedPatchOutput]
    recipes: list[ListedRecipeOutput]

    @classmethod
    def of(cls, patches: Iterable[Patch], recipes: Mapping[str, Path]) -> Self:
        return cls(
            patches=[
                ListedPatchOutput(
                    id=patch.id,
                    title=patch.declaration.title,
                    needed_in=patch.declaration.needed_in,
                    digest=patch.digest,
                    folder=patch.folder,
                )
                for patch in patches
            ],
            recipes=[
                ListedRecipeOutput(name=name, file=file) for name, file in sorted(recipes.items())
            ],
        )


class ShowOutput(OutputModel):
    """The result of `vpatch show`."""

    id: str
    digest: str
    folder: Path
    declaration: dict[str, Any]
    """What patch.yaml declares, with the keys of that file: see `vpatch schema patch`."""

    @classmethod
    def of(cls, patch: Patch) -> Self:
        declared = patch.declaration.model_dump(mode="json", by_alias=True, exclude_none=True)
        return cls(id=patch.id, digest=patch.digest, folder=patch.folder, declaration=declared)


class ExampleOutput(OutputModel):
    """An example of a patch, which was applied twice."""

    patch: str
    example: str
    """The folder of the example, below `examples`."""
    failures: list[str]
    """Sentences and diffs for people; empty if the example holds."""


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

    patch: str
    test: str
    """The file of the test, in the folder of the patch."""
    engine: str
    """The kind of the engine, `cpu` or `cuda`."""
    vllm: str
    """The release that it ran in."""
    pristine: TestRunOutput
    patched: TestRunOutput
    problems: list[str]
    """Sentences for people; empty if the test holds."""
    evidence: Path | None
    """The folder of the evidence, if there is any."""

    @classmethod
    def of(
        cls, patch: str, test: str, engine: str, vllm: str, found: Behaviour, evidence: Path | None
    ) -> Self:
        return cls(
            patch=patch,
            test=test,
            engine=engine,
            vllm=vllm,
            pristine=TestRunOutput.model_validate(found.pristine),
            patched=TestRunOutput.model_validate(found.patched),
            problems=list(found.problems),
            evidence=evidence,
        )


class IdleTestOutput(OutputModel):
    """A behaviour test that did not run."""

    patch: str
    test: str
    reason: str


class TestOutput(OutputModel):
    """The result of `vpatch test`."""

    examples: list[ExampleOutput]
    """Empty with `--engine`."""
    behaviour_tests: list[BehaviourTestOutput]
    """Empty without `--engine`."""
    not_run: list[IdleTestOutput]
    """Behaviour tests that are not for this engine."""

    @classmethod
    def of_examples(cls, results: Iterable[tuple[str, ExampleResult]]) -> Self:
        examples = [
            ExampleOutput(patch=patch, example=one.name, failures=list(one.failures))
            for patch, one in results
        ]
        return cls(examples=examples, behaviour_tests=[], not_run=[])
