"""patch.yaml: one change with one reason."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Annotated, Literal

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name
from pydantic import AfterValidator, Field, model_validator

from vpatch.declare.edits import Edit, Predicate, Seconds, Text
from vpatch.declare.yamlfile import Declared
from vpatch.util.matching import PatternFaultError, compiled

PatchId = Annotated[str, Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]

_LONGEST_RANGE = 200


def _specifier(value: str) -> str:
    try:
        if len(value) > _LONGEST_RANGE:
            raise InvalidSpecifier  # noqa: TRY301 - as is a number of thousands of digits
        SpecifierSet(value)
    except InvalidSpecifier as error:
        raise ValueError(
            f"not a version range (PEP 440), as '>=0.20,<0.24': {value[:60]!r}"
        ) from error
    return value


def _canonical(value: str) -> str:
    if canonicalize_name(value) != value:
        raise ValueError(f"spell the distribution's name as {canonicalize_name(value)!r}")
    return value


TreeName = Annotated[str, Field(min_length=1), AfterValidator(_canonical)]
VersionRange = Annotated[str, AfterValidator(_specifier)]


ThreadRef = Annotated[str, Field(pattern=r"^[\w.-]+/[\w.-]+#\d+$")]


class Upstream(Declared):
    """A thread upstream that concerns the patch, and how.

    `state` is the thread's own; `release` the first that has the change: merged is not released.
    """

    ref: ThreadRef
    is_: Literal["issue", "pull request"]
    relation: Literal["same change", "backport", "different approach", "cause"] | None = None
    state: Literal["open", "merged", "closed"] | None = None
    release: str | None = None

    @property
    def same(self) -> bool:
        """Whether merging it means that the patch can go: a cause or another approach does not."""
        return self.relation in {"same change", "backport"}

    @model_validator(mode="after")
    def _complete(self) -> Upstream:
        if self.is_ == "pull request" and (self.relation is None or self.state is None):
            raise ValueError("a pull request needs its relation and its state")
        if self.release is not None and self.state != "merged":
            raise ValueError("only a merged pull request has a release")
        return self


AdvisoryId = Annotated[
    str, Field(pattern=r"^(CVE-\d{4}-\d{4,}|GHSA(-[0-9a-z]{4}){3}|PYSEC-\d{4}-\d+)$")
]
Severity = Literal["critical", "high", "moderate", "low"]


Day = Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}$")]


class Resolves(Declared):
    """A published security problem that the patch cures."""

    id: AdvisoryId
    aliases: tuple[AdvisoryId, ...] = Field(
        (), description="other ids of the same problem; those of vpatch's own data are known"
    )
    severity: Severity | None = Field(None, description="default: what the advisory says")
    source: Text | None = Field(None, description="where you read it, such as a URL")
    as_of: Day | None = Field(None, description="the day on which you read it")


class Variant(Declared):
    """The edits for one shape of the target."""

    name: Text
    when: Predicate | None = Field(None, description="what tells that a tree has this shape")
    edits: tuple[Edit, ...] = Field(min_length=1)


def _regex(value: str) -> str:
    try:
        compiled(value)
    except PatternFaultError as error:
        raise ValueError(str(error)) from error
    return value


def _pinned(value: str) -> str:
    try:
        pins = [(one.operator, one.version) for one in Requirement(value).specifier]
    except InvalidRequirement as error:
        raise ValueError(f"not a requirement, as 'triton==3.6.0': {value!r}") from error
    if len(pins) != 1 or pins[0][0] != "==" or "*" in pins[0][1]:
        raise ValueError(f"name the exact version, as 'triton==3.6.0': {value!r}")
    return value


class NotAsked(Declared):
    """Releases that cannot run a behaviour test, or some tests of its file, and the reason."""

    vllm: VersionRange
    tests: tuple[Text, ...] = Field(
        (), description="test functions that do not run there; default: none of the file does"
    )
    why: Text = Field(description="what of these releases stops the tests")

    def concerns(self, release: str) -> bool:
        return SpecifierSet(self.vllm).contains(release, prereleases=True)


class Proof(Declared):
    """A behaviour test, run inside a real vLLM: on the pristine tree, and on the patched one.

    What `fails_before` names fails on the pristine tree, and with that message; everything else in
    the file passes on both.
    """

    test: Text = Field(description="a pytest file beside the patch")
    engine: Literal["cpu", "cuda"]
    vllm: Text = Field(description="the release whose engine it is written for")
    fails_before: dict[Text, Annotated[str, AfterValidator(_regex)]] = Field(
        min_length=1,
        description="test functions, and a regular expression that is found in their message",
    )
    on_top_of: tuple[PatchId, ...] = Field(
        (), description="patches without which nothing could be seen, applied in both runs"
    )
    trees: dict[TreeName, Text] = Field(
        default_factory=dict,
        description="further trees, as folders beside the patch: put on the path, patched as well",
    )
    references: dict[Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]*$")], Text] = Field(
        default_factory=dict,
        description="environment variables that name the folder of another release's tree",
    )
    environment: dict[Text, str] = Field(
        default_factory=dict, description="further environment variables of the test"
    )
    packages: tuple[Annotated[str, AfterValidator(_pinned)], ...] = Field(
        (),
        description="packages that the test needs and vpatch's CPU engine lacks, as NAME==VERSION",
    )
    timeout: Seconds = Field(600, description="of each of the two runs, in seconds")
    not_asked: tuple[NotAsked, ...] = Field(
        (), description="releases that cannot run the test, or a part of it, and why"
    )

    def left_out(self, release: str) -> dict[str, str]:
        """Return the test functions that a release cannot run, each with the reason."""
        exclusions = [one for one in self.not_asked if one.concerns(release)]
        return {name: one.why for one in exclusions for name in one.tests}

    def refusal(self, release: str) -> str | None:
        """Say why a release cannot run the test at all; None where it can show something."""
        for one in self.not_asked:
            if one.concerns(release) and not one.tests:
                return one.why
        left_out = self.left_out(release)
        if self.fails_before.keys() <= left_out.keys():
            return "; ".join(dict.fromkeys(left_out[name] for name in self.fails_before))
        return None

    @model_validator(mode="after")
    def _packages_of_a_cpu_engine(self) -> Proof:
        if self.packages and self.engine != "cpu":
            raise ValueError("packages are installed for a cpu engine only")
        return self


# Of these words alone no tool can be known, and upstream asks which one it was.
_NO_NAME = {
    "a",
    "agent",
    "ai",
    "an",
    "assistant",
    "assisted",
    "bot",
    "code",
    "coding",
    "generative",
}
_NO_NAME |= {"language", "large", "llm", "machine", "model", "the", "tool", "yes"}


def _tool(name: str) -> str:
    if set(re.findall(r"\w+", name.lower())) <= _NO_NAME:
        raise ValueError(f"name the tool that was used, such as 'GitHub Copilot', not {name!r}")
    return name


def _below(path: str) -> str:
    pure = PurePosixPath(path)
    if pure.is_absolute() or ".." in pure.parts or pure.suffix != ".py":
        raise ValueError("not the path of a Python file below upstream's root")
    return path


def _spdx(expression: str) -> str:
    try:
        return canonicalize_license_expression(expression)
    except InvalidLicenseExpression as error:
        raise ValueError(
            f"not an SPDX licence expression, as 'Apache-2.0': {expression[:60]!r}"
        ) from error


class Hardware(Declared):
    engine: Literal["cpu", "cuda"]
    gpu: Annotated[str, AfterValidator(_regex)] | None = Field(
        None, description="a regular expression that is found in the name of every GPU of the run"
    )


class UpstreamTest(Declared):
    """A test of the patch, and where upstream keeps such tests.

    What it has is added to a file that is there, or becomes a new one.
    """

    test: Text = Field(description="a pytest file beside the patch, one of its proofs")
    at: Annotated[Text, AfterValidator(_below)] = Field(description="a path in upstream's tree")


class Proposal(Declared):
    """What a pull request says that the patch does not say already."""

    target: Text | None = Field(None, description="default: the one that is called as a tree")
    summary: Text = Field(description="one or two lines")
    claims: tuple[Text, ...] = Field(min_length=1)
    reproduction: Text = Field(description="how a maintainer sees the failure")
    limits: Text | None = Field(None, description="what was not shown, and what it costs")
    tests: tuple[UpstreamTest, ...] = Field(
        min_length=1, description="what upstream is to have so that it stays cured"
    )
    needs: Hardware = Field(description="the hardware that it must have been proven on")
    keywords: tuple[Text, ...] = Field(
        min_length=1, description="what others would call it: searched for in open threads"
    )
    differs: dict[ThreadRef, Text] = Field(
        default_factory=dict, description="open threads that are not the same, and why not"
    )
    discussed: ThreadRef | None = Field(
        None, description="the issue in which upstream discussed the design of a large one"
    )
    assisted_by: tuple[Annotated[Text, AfterValidator(_tool)], ...] = Field(
        description="the tools (AI) that helped to write it, by their names; [] where none did"
    )


class PatchDeclaration(Declared):
    id: PatchId
    title: Text = Field(description="as a pull request's, with upstream's bracketed tags")
    why: Text = Field(description="the failure that it cures")
    symptoms: tuple[Text, ...] = Field(
        min_length=1, description="messages or observations that people search for"
    )
    risks: str | None = None
    needed_in: dict[TreeName, VersionRange] = Field(
        min_length=1,
        description="the trees that it concerns, and a claim of the versions that need it; the "
        "claim decides nothing and is checked against the code",
    )
    concerns: Predicate = Field(
        description="tells, coarsely, whether the code it is about is in a tree at all"
    )
    effect: Predicate | None = Field(
        None, description="tells that a tree has the cure; default: no edit has work left"
    )
    edits: tuple[Edit, ...] = ()
    variants: tuple[Variant, ...] = ()
    requires: tuple[PatchId, ...] = ()
    conflicts: tuple[PatchId, ...] = ()
    upstream: tuple[Upstream, ...] = ()
    license: Annotated[Text, AfterValidator(_spdx)] | None = Field(
        None, description="the licence of the change, as an SPDX expression such as Apache-2.0"
    )
    resolves: tuple[Resolves, ...] = Field(
        (), description="the security advisories whose problem it cures"
    )
    remove_when: Text
    proof: tuple[Proof, ...] = ()
    proposal: Proposal | None = None
    not_for_upstream: Text | None = Field(
        None, description="why it is never proposed; then it has no `proposal`"
    )
    on_request: Text | None = Field(
        None,
        description="why it is not for everybody: then only a recipe or --patch takes it",
    )

    @model_validator(mode="after")
    def _edits_or_variants(self) -> PatchDeclaration:
        if bool(self.edits) == bool(self.variants):
            raise ValueError("give either edits or variants")
        names = [variant.name for variant in self.variants]
        if len(set(names)) != len(names):
            raise ValueError("two variants have the same name")
        return self

    @model_validator(mode="after")
    def _proposed_or_not(self) -> PatchDeclaration:
        if self.proposal is not None and self.not_for_upstream is not None:
            raise ValueError("give either a proposal, or why it is not for upstream")
        return self

    @model_validator(mode="after")
    def _proposed_tests_are_proofs(self) -> PatchDeclaration:
        proven = {proof.test for proof in self.proof}
        for one in self.proposal.tests if self.proposal else ():
            if one.test not in proven:
                raise ValueError(f"{one.test!r} is in the proposal, and no proof runs it")
        return self


def describe_upstream(thread: Upstream) -> str:
    """A thread upstream in one line."""
    return f"{thread.ref} ({', '.join(upstream_facts(thread))})"


def upstream_facts(thread: Upstream) -> list[str]:
    """What is declared of a thread: its kind, relation, state and release, as far as they are."""
    release = f"released in {thread.release}" if thread.release else None
    return [one for one in (thread.is_, thread.relation, thread.state, release) if one]
