"""The result of `bump`."""

from __future__ import annotations

from typing import Literal

from vpatch.commands.bump.verdict import Verdict
from vpatch.commands.compat.judgement.verdict import State as ItemState
from vpatch.commands.compat.surface.items import ItemKind
from vpatch.console.document import OutputModel, Sorted, read_from
from vpatch.planning.state import State


class CodeOutput(OutputModel):
    """A definition in a release."""

    path: str
    line: int = read_from("first")
    """Its first line in the file, from 1."""
    code: list[str] = read_from("lines")
    """Its lines."""


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
    around: bool
    """Whether it is only around the code that the patch reads."""
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


class PatchStateOutput(OutputModel):
    """What a patch means in one of the two releases."""

    state: State
    places: int
    """How many places its edits change."""
    files: Sorted = read_from("changes")
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

    patch: str = read_from("id")
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
    next: str | None
    """The command with which a person begins to make such a patch fit; null for others."""


class BumpPinOutput(OutputModel):
    """One of the two releases."""

    tree: str
    version: str | None
    ref: str | None
    """The git commit or tag; null for a release."""
    digest: str
    """The digest of the tree's content, `sha256:HEX`."""


class PluginBreakOutput(OutputModel):
    """What a plugin takes from vLLM, and the new release breaks."""

    kind: ItemKind
    name: str
    path: str = read_from("spot.path")
    """A file of the plugin."""
    line: int = read_from("spot.line")
    """Its line there, from 1."""
    state: ItemState = read_from("verdict.state")
    why: str = read_from("verdict.why")
    where: str = read_from("verdict.where")
    """The place in vLLM, or empty."""
    moved: str = read_from("verdict.moved")
    """Where a name that is gone is now, or empty."""


class PluginStepOutput(OutputModel):
    """What the new release means for a plugin that the recipe names."""

    target: str
    """How the recipe names it."""
    version: str | None
    items: int
    """How many items of vLLM's code were judged."""
    broken_before: int
    """How many of them the old release breaks."""
    breaks: list[PluginBreakOutput]
    """Those that the new release breaks, and the old one does not."""
    look_again: int
    """How many fit, and are not as they were."""


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
    plugins: list[PluginStepOutput]
    """The plugins that the recipe names."""


class ProofStepOutput(OutputModel):
    """One thing that was tested before the branch was written, or that was not."""

    what: str
    """The command that tests the same."""
    outcome: Literal["holds", "not run"]
    reason: str
    """A sentence for people; empty if there is nothing to say."""


class UnsettledPatchOutput(OutputModel):
    """A patch that waits for a person."""

    patch: str
    reason: str
    """A sentence for people."""
    next: str
    """The command with which a person begins to make it fit."""


class UnsettledRecipeOutput(OutputModel):
    """A recipe of the branch that waits for a person. No command makes anything of it."""

    recipe: str
    """Its name on the branch."""
    release: str
    """The release that it goes to."""
    patches: list[UnsettledPatchOutput]


class SettledPatchOutput(OutputModel):
    """A patch that was unsettled."""

    patch: str
    state: str
    """What it means for the release now: a sentence for people."""


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
    unsettled: list[UnsettledRecipeOutput]
    """The recipes that wait for a person, until `vpatch bump --continue`."""


class SettledBumpOutput(OutputModel):
    """What `--continue` did."""

    branch: str
    commit: str
    """Its last commit."""
    subjects: list[str]
    """The first lines of the messages of the new commits, in order."""
    recipes: list[str]
    """The recipes that are settled."""
    patches: list[SettledPatchOutput]
    proof: list[ProofStepOutput]
    """Empty with `--no-proof`."""


class AbortedBumpOutput(OutputModel):
    """What `--abort` did."""

    branch: str
    """The branch that is gone."""
    commit: str
    """Its last commit. git keeps it for a while."""
    checked_out: str | None
    """The branch that is checked out now; null if that is a commit."""


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
    """Null without `--pr`, if there is nothing to do, or if a recipe is unsettled."""
    settled: SettledBumpOutput | None
    """Null without `--continue`."""
    aborted: AbortedBumpOutput | None
    """Null without `--abort`."""
