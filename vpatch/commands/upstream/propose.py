"""A patch on upstream's main as a pull request would have it, and every gate that it must pass."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vpatch.checkout.hooks import run_hooks
from vpatch.commands.upstream import body, gates, rules
from vpatch.commands.upstream.duplicates import search
from vpatch.commands.upstream.gates import Gate
from vpatch.commands.upstream.parts import parts_of
from vpatch.commands.upstream.placement import PlacingError, place_test
from vpatch.commands.upstream.proof import Judge
from vpatch.commands.upstream.prose import wrapped
from vpatch.errors import ManyErrors, VpatchError
from vpatch.git import checkout as git
from vpatch.git.checkout import NewCommit
from vpatch.planning.state import Change, State
from vpatch.source.rule_files import RulesError, text_of
from vpatch.util.scratch import scratch_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    from vpatch.commands.upstream.duplicates import Searched
    from vpatch.commands.upstream.proof import Proven
    from vpatch.commands.upstream.status import Known
    from vpatch.declare.patch import Proposal, Upstream
    from vpatch.declare.target import Target
    from vpatch.evidence.records import EvidenceRecord
    from vpatch.evidence.store import Evidence
    from vpatch.github.client import GitHub, Pull
    from vpatch.library.patch import Patch
    from vpatch.planning.state import Decision
    from vpatch.progress import Progress
    from vpatch.source.entry import CachedTree

_NOTHING = "there is nothing to propose"
# Of a commit's message.
_COLUMNS = 72


@dataclass(frozen=True)
class Online:
    """What was asked of GitHub: the patch's threads, who one is, and its pull request so far.

    `searched` has the repositories whose threads can stop it, each with its API. `failures` are by
    the gate that cannot be judged for them.
    """

    github: GitHub
    searched: Sequence[tuple[GitHub, str]]
    login: str | None
    known: tuple[Known, ...]
    ours: Pull | None
    failures: Mapping[str, VpatchError]


@dataclass(frozen=True)
class ProposalContext:
    """What a proposal is made on and held against.

    `decisions` are those on upstream's tree: of what the patch requires, and last of itself.
    `decide` gives the decision for the source of a record; `hooks_home` keeps what hooks install.
    `hooks_refused` is why hooks may not run, and what to do.
    """

    patch: Patch
    target: Target
    tree: CachedTree
    decisions: Sequence[Decision]
    evidence: Sequence[Evidence]
    evidence_folder: str
    decide: Callable[[EvidenceRecord], Decision]
    person: tuple[str, str] | None
    now: datetime
    hooks_home: Path
    hooks_refused: tuple[str, str | None] | None
    online: Online | None

    @property
    def decision(self) -> Decision:
        return self.decisions[-1]

    @property
    def declared(self) -> Sequence[Upstream]:
        """The threads that the patch names and that can stop a proposal to this target."""
        named = self.patch.declaration.upstream
        return [one for one in named if self.target.counts(one.ref)]


@dataclass(frozen=True)
class Proposed:
    """A pull request as it would be made; without `files` there is none to make."""

    context: ProposalContext
    gates: Sequence[Gate]
    files: Mapping[str, bytes] = field(default_factory=dict)
    diff: str = ""
    body: str = ""
    labels: Sequence[str] = ()

    @property
    def branch(self) -> str:
        return branch_of(self.context.patch)

    @property
    def title(self) -> str:
        return self.context.patch.declaration.title

    @property
    def message(self) -> str:
        """The commit's message: title, reason, and the trailers that upstream asks for."""
        declared, target = self.context.patch.declaration, self.context.target
        person = self.context.person
        helpers = declared.proposal.assisted_by if declared.proposal else ()
        trailers = [f"{target.assistance}: {name}" for name in helpers]
        if target.sign_off and person:
            trailers.append(f"Signed-off-by: {person[0]} <{person[1]}>")
        parts = [declared.title, wrapped(declared.why, _COLUMNS), "\n".join(trailers)]
        return "\n\n".join(part for part in parts if part) + "\n"

    @property
    def person(self) -> Sequence[str]:
        """What only a person can do."""
        return self.context.target.person if self.files else ()

    @property
    def passes(self) -> bool:
        return all(gate.verdict == "pass" for gate in self.gates)

    @property
    def fails(self) -> bool:
        return any(gate.verdict == "fail" for gate in self.gates)


def branch_of(patch: Patch) -> str:
    """Return the branch that a patch is proposed from, in any fork."""
    return f"vpatch/{patch.id}"


def propose(context: ProposalContext, progress: Progress) -> Proposed:
    """Put a patch and its tests on upstream's tree, and ask every gate: nothing is sent."""
    declared, online = context.patch.declaration, context.online
    known = online.known if online else None
    ours = online.ours if online else None
    answered = [
        gates.needed(context.decision, known or (), declared.upstream, context.target.branch),
        _unless_failed(context, gates.not_merged(known, context.declared, declared.proposal)),
        _unless_failed(context, gates.not_ended(online is not None, ours)),
    ]
    if context.decision.state is State.NEEDED:
        return _on_top(context, declared.proposal, answered, progress)
    known_open = gates.not_proposed(None, context.declared, declared.proposal)
    if known_open.verdict != "fail":
        known_open = Gate(known_open.name, "not asked", _NOTHING)
    later = [Gate(name, "not asked", _NOTHING) for name in _LATER]
    return Proposed(context, [*answered, known_open, *later])


# What is not asked where there is nothing to propose.
_LATER = (
    "stands alone",
    "evidence",
    "test for upstream",
    "title",
    "size",
    "sign-off",
    "upstream's hooks",
    "open pull requests",
)


def _on_top(
    context: ProposalContext, proposal: Proposal | None, answered: list[Gate], progress: Progress
) -> Proposed:
    """The patch on upstream's tree. Without a `proposal`, there is no body, and no test."""
    target, tree = context.target, context.tree
    declared = context.patch.declaration
    changes, placing = _with_tests(context, proposal)
    files = {path: change.after for path, change in changes.items()}
    diff = _diff(tree, files, progress)
    searched, gate = _search_others(context, proposal, progress)
    hooks = _hooks(context, files, progress)
    text = ""
    alone = gates.alone(context.decisions[:-1])
    if proposal is None:
        answered += [gates.undescribed(context.patch), gate, alone]
        names = ("evidence", "test for upstream")
        answered += [Gate(name, "not asked", "the patch has no `proposal`") for name in names]
    else:
        proven = _judge(context, proposal)
        text = _body(context, proposal, proven, searched)
        answered += [
            gate,
            alone,
            gates.evidence(proven, context.patch, proposal, context.evidence_folder),
            gates.test_placed([one.at for one in proposal.tests], placing),
        ]
    answered += [
        _ask("title", lambda: gates.title(tree, target, declared.title)),
        gates.size(rules.size_of(diff, target.sizes), target, declared.title, proposal, text),
        gates.signed_off(context.person, target),
        *hooks,
        _open_pulls(context),
    ]
    labels = _labels(context, sorted(files), progress)
    return Proposed(context, answered, files, diff.decode(errors="replace"), text, labels)


def _judge(context: ProposalContext, proposal: Proposal) -> Proven:
    days = context.target.evidence_days
    judge = Judge(context.patch, proposal, context.decision, days, context.now, context.decide)
    return judge.proven(context.evidence)


def _with_tests(
    context: ProposalContext, proposal: Proposal | None
) -> tuple[dict[str, Change], PlacingError | None]:
    """The patch's changes, and its tests where upstream keeps such; or why one does not fit."""
    changes = dict(context.decision.changes)
    there = set(context.tree.paths())
    for one in proposal.tests if proposal else ():
        known = changes.get(one.at)
        before = known.after if known else context.tree.read(one.at) if one.at in there else None
        test = (context.patch.folder / one.test).read_bytes()
        try:
            after = place_test(before, test, one.at)
        except PlacingError as error:
            return changes, error
        changes[one.at] = Change(known.before if known else before, after)
    return changes, None


def _diff(tree: CachedTree, files: Mapping[str, bytes], progress: Progress) -> bytes:
    repository, base = tree.base_repository(progress)
    with scratch_folder() as folder:
        scratch = folder / "repo"
        git.create_checkout(scratch, repository, base, [])
        (commit,) = git.add_commits(scratch, base, [NewCommit("proposal", files)])
        return git.diff(scratch, base, commit)


def _search_others(
    context: ProposalContext, proposal: Proposal | None, progress: Progress
) -> tuple[Searched | None, Gate]:
    declared, online = context.declared, context.online
    if online is None:
        return None, gates.not_proposed(None, declared, proposal)
    ours = f"{context.target.repository}#{online.ours.number}" if online.ours else None
    try:
        searched = search(
            online.searched, proposal, declared, context.decision.changes, ours, progress
        )
    except VpatchError as error:
        return None, _failure("not proposed by others", error)
    return searched, gates.not_proposed(searched, declared, proposal, ours)


def _labels(context: ProposalContext, paths: Sequence[str], progress: Progress) -> list[str]:
    target, title = context.target, context.patch.declaration.title
    if target.labels is None:
        return []
    try:
        return rules.labels_for(context.tree, target.labels, title, paths)
    except RulesError as error:
        progress.note(f"no labels: {error.where}: {error.what}")
        return []


def _hooks(context: ProposalContext, files: Mapping[str, bytes], progress: Progress) -> list[Gate]:
    target, file = context.target, context.target.hooks
    if file is None:
        return []
    if context.hooks_refused is not None:
        what, hint = context.hooks_refused
        return [Gate("upstream's hooks", "not asked", what, hint)]

    def ask() -> Gate:
        offline = context.online is None
        ran = run_hooks(context.tree, file, files, context.hooks_home, progress, offline=offline)
        return gates.hooks(ran, target)

    return [_ask("upstream's hooks", ask)]


def _open_pulls(context: ProposalContext) -> Gate:
    target, online = context.target, context.online
    if online is None or target.open_pull_requests is None:
        return gates.open_pulls(None, target)
    name = "open pull requests"
    if name in online.failures:
        return _failure(name, online.failures[name])
    query = f"repo:{target.repository} is:pr is:open author:{online.login}"
    mine = online.ours is not None and online.ours.state == "open"
    return _ask(name, lambda: gates.open_pulls(online.github.count(query) - mine, target))


def _unless_failed(context: ProposalContext, gate: Gate) -> Gate:
    failures = context.online.failures if context.online else {}
    return _failure(gate.name, failures[gate.name]) if gate.name in failures else gate


def _ask(name: str, ask: Callable[[], Gate]) -> Gate:
    """A gate that may not be answered: it does not hide the others."""
    try:
        return ask()
    except VpatchError as error:
        return _failure(name, error)


def _failure(name: str, error: VpatchError) -> Gate:
    errors = error.errors if isinstance(error, ManyErrors) else (error,)
    sentences = (f"{one.where}: {one.what}" if one.where else one.what for one in errors)
    return Gate(name, "fail", "; ".join(sentences), errors[0].hint)


def _body(
    context: ProposalContext, proposal: Proposal, proven: Proven, searched: Searched | None
) -> str:
    target, tree = context.target, context.tree
    template, text = target.template, ""
    if template is not None and template.file in tree.paths():
        text = text_of(tree, template.file)
    parts = parts_of(context.patch, proposal, target, proven, searched)
    facts = {"patch": context.patch.id, "digest": context.patch.digest}
    return body.render(template, text, parts, facts, assisted=bool(proposal.assisted_by))
