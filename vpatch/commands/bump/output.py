"""The result of `bump`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Self

from vpatch.commands.bump.verdict import Verdict
from vpatch.console.document import OutputModel
from vpatch.planning.state import State

if TYPE_CHECKING:
    from vpatch.commands.bump.changed_code import ChangedCode
    from vpatch.commands.bump.code import CodePlace
    from vpatch.commands.bump.report import RecipeBump
    from vpatch.commands.bump.usecase import BumpResult
    from vpatch.commands.bump.verdict import PatchBump
    from vpatch.commands.bump.write import WrittenBump
    from vpatch.source.tree import Pin


class CodeOutput(OutputModel):
    """A definition in a release."""

    path: str
    line: int
    """Its first line in the file, from 1."""
    code: list[str]
    """Its lines."""

    @classmethod
    def of(cls, place: CodePlace | None) -> Self | None:
        if place is None:
            return None
        return cls(path=place.path, line=place.first, code=list(place.lines))


class UpstreamCommitOutput(OutputModel):
    """A commit of upstream that changed a definition."""

    id: str
    subject: str
    """The first line of its message."""
    when: int
    """When it was made, in seconds since 1970."""


class ChangedCodeOutput(OutputModel):
    """A definition that differs between the two releases."""

    name: str
    """Its qualified name in the old release, or in the new one if only that has it."""
    kind: Literal["changed", "renamed", "moved", "gone", "new"]
    """`moved` is the same code in another file. The others may have moved as well."""
    edited: bool
    """Whether the patch edits it. Otherwise the patch only reads it."""
    before: CodeOutput | None
    """The pristine code of the old release."""
    patched: CodeOutput | None
    """What the patch makes of the old release, if it edits the definition there."""
    after: CodeOutput | None
    """The pristine code of the new release."""
    upstream: list[str]
    """What upstream changed, as the lines of a unified diff."""
    ours: list[str]
    """What the patch changes in the old release, as the lines of a unified diff."""
    commits: list[UpstreamCommitOutput] | None
    """The commits of upstream that changed it, the oldest first; null if nobody was asked."""

    @classmethod
    def of(cls, one: ChangedCode) -> Self:
        return cls(
            name=one.name,
            kind=one.kind,
            edited=one.edited,
            before=CodeOutput.of(one.before),
            patched=CodeOutput.of(one.patched),
            after=CodeOutput.of(one.after),
            upstream=one.upstream,
            ours=list(one.ours),
            commits=None
            if one.commits is None
            else [UpstreamCommitOutput.model_validate(commit) for commit in one.commits],
        )


class PatchStateOutput(OutputModel):
    """What a patch means in one of the two releases."""

    state: State
    places: int
    """How many places its edits change."""
    files: list[str]
    """The files that it changes, sorted."""
    reason: str
    """A sentence for people."""


class ProposalOutput(OutputModel):
    """A patch.yaml that makes the same of the old release, and fits the new one."""

    said: str
    """What was changed: a sentence for people."""
    text: str
    """The whole file."""
    diff: list[str]
    """The lines of a unified diff to the present file."""


class PatchBumpOutput(OutputModel):
    """What the new release means for one patch."""

    patch: str
    verdict: Verdict
    reason: str
    """A sentence for people."""
    old: PatchStateOutput
    new: PatchStateOutput
    facts: list[str]
    """For `retire`: sentences about the pull request, the release that has it, and the tree."""
    changed: list[ChangedCodeOutput]
    proposal: ProposalOutput | None
    """For a patch that does not fit: a change of its patch.yaml that fits both releases."""
    no_proposal: str | None
    """A sentence for people: why there is no proposal for a patch that does not fit."""

    @classmethod
    def of(cls, one: PatchBump) -> Self:
        sides = [
            PatchStateOutput(
                state=side.state,
                places=side.places,
                files=sorted(side.changes),
                reason=side.reason,
            )
            for side in (one.old, one.new)
        ]
        return cls(
            patch=one.id,
            verdict=one.verdict,
            reason=one.reason,
            old=sides[0],
            new=sides[1],
            facts=list(one.facts),
            changed=[ChangedCodeOutput.of(code) for code in one.changed],
            proposal=one.proposal and ProposalOutput.model_validate(one.proposal),
            no_proposal=one.no_proposal,
        )


class BumpPinOutput(OutputModel):
    """One of the two releases."""

    tree: str
    version: str | None
    ref: str | None
    """The git commit or tag; null for a release."""
    digest: str
    """The digest of the tree's content, `sha256:HEX`."""

    @classmethod
    def of(cls, pin: Pin) -> Self:
        return cls(tree=pin.tree, version=pin.version, ref=pin.ref, digest=pin.digest)


class RecipeBumpOutput(OutputModel):
    """What the new release means for one recipe."""

    recipe: str
    old: BumpPinOutput
    new: BumpPinOutput
    kept_trees: list[str]
    """The recipe's other trees. Their pins stay."""
    commits_from: str | None
    """Where upstream's commits were read; null if nobody was asked for them."""
    patches: list[PatchBumpOutput]

    @classmethod
    def of(cls, one: RecipeBump) -> Self:
        return cls(
            recipe=one.recipe,
            old=BumpPinOutput.of(one.old),
            new=BumpPinOutput.of(one.new),
            kept_trees=list(one.kept_trees),
            commits_from=one.commits_from,
            patches=[PatchBumpOutput.of(patch) for patch in one.patches],
        )


class ProofStepOutput(OutputModel):
    """One thing that was tested before the branch was written, or that was not."""

    what: str
    """The command that tests the same."""
    outcome: Literal["holds", "not run"]
    reason: str
    """A sentence for people; empty if there is nothing to say."""


class WrittenBumpOutput(OutputModel):
    """The branch that `--write` made."""

    branch: str
    commit: str
    """Its last commit."""
    subjects: list[str]
    """The first lines of its commits' messages, in order."""
    kept: list[str]
    """Sentences for people: why patches stay that the new release does not need."""
    proof: list[ProofStepOutput]
    """Empty with `--no-proof`."""

    @classmethod
    def of(cls, written: WrittenBump) -> Self:
        return cls(
            branch=written.branch,
            commit=written.commit,
            subjects=list(written.subjects),
            kept=list(written.kept),
            proof=[ProofStepOutput.model_validate(step) for step in written.proof],
        )


class BumpPullOutput(OutputModel):
    """What `--pr` did."""

    repository: str
    """`OWNER/NAME` on GitHub."""
    base: str
    """The branch that the pull request is for."""
    url: str
    """The pull request."""
    pushed: bool
    """Whether the branch was pushed. Otherwise the remote had one."""
    opened: bool
    """Whether the pull request is new."""
    said: str
    """A sentence for people."""


class BumpOutput(OutputModel):
    """The result of `vpatch bump`."""

    recipes: list[RecipeBumpOutput]
    idle: list[str]
    """Sentences for people: the recipes for which there is nothing to do, and why."""
    written: WrittenBumpOutput | None
    """Null without `--write`, or if there is nothing to do."""
    pull: BumpPullOutput | None
    """Null without `--pr`, or if there is nothing to do."""

    @classmethod
    def of(cls, result: BumpResult) -> Self:
        return cls(
            recipes=[RecipeBumpOutput.of(one) for one in result.report.recipes],
            idle=list(result.report.idle),
            written=result.written and WrittenBumpOutput.of(result.written),
            pull=result.sent and BumpPullOutput.model_validate(result.sent),
        )
