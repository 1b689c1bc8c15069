"""The result of `compat`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from vpatch.commands.compat.surface.items import ItemKind
from vpatch.console.document import OutputModel, read_from

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vpatch.commands.compat.difference import DefinitionDifference
    from vpatch.commands.compat.proposals.write import CompatProposal
    from vpatch.commands.compat.result import CompatResult


class SpotOutput(OutputModel):
    """A place in the target."""

    path: str
    """The file, relative to the target."""
    line: int
    """The line, from 1."""


class VerdictOutput(OutputModel):
    """What a release means for an item."""

    state: Literal["holds", "gone", "changed", "look again", "unknown", "not run"]
    """`gone` and `changed` break the target. `unknown` is what nobody can read from the code."""
    why: str
    """Why, as a clause for people; empty if there is nothing to say."""
    where: str
    """The place in vLLM, `path:line`; empty if there is none."""
    moved: str
    """Where a name that is gone is now; empty if that is not clear."""


class CompatItemOutput(OutputModel):
    """What the target takes from vLLM."""

    kind: ItemKind
    """What the target does with it."""
    name: str
    """The dotted name in vLLM, or the method or class of the target."""
    places: list[SpotOutput] = read_from("spots")
    """Where the target does so."""
    conditions: list[str]
    """Under which conditions the code runs that vpatch can judge."""
    at_import: bool
    """Whether the code runs when its module is imported."""
    verdicts: dict[str, VerdictOutput]
    """What each release means for it, by the release."""


class CompatReleaseOutput(OutputModel):
    """A release that was judged."""

    release: str = read_from("label")
    """Its version, or what `--vllm` names."""
    digest: str
    is_declared: bool
    """Whether the target declares that it fits this release."""


class DefinitionCommitOutput(OutputModel):
    """A commit of vLLM."""

    id: str
    subject: str
    """The first line of its message."""


class DifferenceOutput(OutputModel):
    """What is new between two releases."""

    item: CompatItemOutput
    commits: list[DefinitionCommitOutput] | None
    """With `--clone`, the commits that changed the definition, the oldest first; else null."""
    diff: list[str] = read_from("lines")
    """The lines of a unified diff of vLLM's definition; empty if vpatch reads none."""


class CompatProposalOutput(OutputModel):
    """A patch of the target that `--propose` writes, or why it writes none."""

    id: str = read_from("name")
    folder: Path | None
    """Where it is; null if it does not hold in both releases, and was not written."""
    text: str
    """What the patch does, or why there is none."""


class CompatOutput(OutputModel):
    """The result of `vpatch compat`."""

    target: str
    version: str | None
    files: int
    """How many Python files of the target vpatch read."""
    unread: dict[str, str]
    """Files that vpatch cannot read, and why."""
    links: list[str]
    """Symbolic links, which vpatch does not follow."""
    base: str | None
    """The release that the others are compared with; null if nothing says one."""
    base_reason: str
    unjudged: int
    """How many uses no release can tell about, as their types are not known."""
    releases: list[CompatReleaseOutput]
    items: list[CompatItemOutput]
    differences: list[DifferenceOutput] | None
    """With `--from` and `--to`, what is new between the two; null without them."""
    proposals: list[CompatProposalOutput] | None
    """With `--propose`, the patches of the target; null without it."""
    summary: str
    """The releases that the target fits, in one sentence."""


def compat_output(
    result: CompatResult,
    differences: Sequence[DefinitionDifference] | None,
    proposals: Sequence[CompatProposal] | None = None,
) -> CompatOutput:
    """Return the model of a result."""
    return CompatOutput(
        **{name: getattr(result, name) for name in _SAME},
        releases=[CompatReleaseOutput.model_validate(one) for one in result.releases],
        items=[CompatItemOutput.model_validate(one) for one in result.items],
        differences=None
        if differences is None
        else [DifferenceOutput.model_validate(one) for one in differences],
        proposals=None
        if proposals is None
        else [CompatProposalOutput.model_validate(one) for one in proposals],
    )


_SAME = (
    "target",
    "version",
    "files",
    "unread",
    "links",
    "base",
    "base_reason",
    "unjudged",
    "summary",
)
