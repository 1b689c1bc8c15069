"""What a proposal is based on: upstream's tree, evidence, the person, and GitHub's answers."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from vpatch.commands.upstream.proof import IncomparableError
from vpatch.commands.upstream.propose import Online, ProposalContext, branch_of
from vpatch.commands.upstream.status import Known
from vpatch.commands.upstream.submit import PushTarget, refuse_credentials
from vpatch.errors import MissingOptionError, UsageError, VpatchError, combine
from vpatch.evidence.store import all_evidence
from vpatch.evidence.subject import subject_files
from vpatch.git.address import local_path
from vpatch.git.fork import Person
from vpatch.git.origin import identity
from vpatch.github.tokens import is_local
from vpatch.source.index import parse_version
from vpatch.source.spec import FolderSpec, GitSpec, PypiSpec, parse_tree
from vpatch.trust.decision import UntrustedError
from vpatch.util.urls import redact
from vpatch.workspace.plans import planned
from vpatch.workspace.selection import with_required

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import ExitStack

    from vpatch.declare.target import Target
    from vpatch.evidence.records import EvidenceRecord, SubjectPatch, SubjectPin
    from vpatch.github.client import GitHub
    from vpatch.library.patch import Patch
    from vpatch.planning.state import Decision
    from vpatch.source.entry import CachedTree
    from vpatch.source.spec import TreeSpec
    from vpatch.workspace.context import Context


def target_of(patch: Patch, context: Context) -> str:
    """Return the name of the target that a patch is proposed to, where nobody says.

    Raises:
        UsageError: nothing tells.
    """
    declared = patch.declaration
    if declared.proposal and declared.proposal.target:
        return declared.proposal.target
    targets = [tree for tree in declared.needed_in if tree in context.library.targets]
    if len(targets) == 1:
        return targets[0]
    raise MissingOptionError(
        f"{patch.id} does not name the target of its proposal",
        where=str(patch.folder),
        hint=f"give --target, one of: {', '.join(sorted(context.library.targets)) or 'none'}",
    )


def upstream_url(target: Target) -> str:
    """Return the URL by which git fetches upstream."""
    from vpatch.github.client import default_api  # noqa: PLC0415
    from vpatch.github.tokens import web_host  # noqa: PLC0415

    host = web_host(target.api or default_api())
    return target.url or f"https://{host}/{target.repository}.git"


def _spec(target: Target, on: str | None, root: Path) -> TreeSpec:
    if on is None:
        return GitSpec(target.tree, upstream_url(target), target.branch)
    version = parse_version(on)
    if version:
        return PypiSpec(target.tree, version)
    return parse_tree(f"{target.tree}={on}", root)


def proposal_context(
    context: Context,
    patch: Patch,
    target: Target,
    on: str | None,
    root: Path,
    fork: str | None,
    stack: ExitStack,
    *,
    hooks_refused: tuple[str, str | None] | None,
) -> ProposalContext:
    """Collect what a proposal is based on; `on` is taken for upstream's branch.

    Raises:
        UsageError: the patch does not concern the target's tree.
    """
    if target.tree not in patch.declaration.needed_in:
        raise UsageError(
            f"{patch.id} is not for {target.tree}",
            where=str(patch.folder),
            hint="give another --target",
            code="upstream.wrong-target",
        )
    tree = _enter(context, target, on, stack)
    series = with_required([patch.id], context.library)
    concerning = [one for one in series if target.tree in one.declaration.needed_in]
    plan = planned(context, concerning, tree, to_write=True)
    evidence, damaged = all_evidence(root)
    for error in damaged:
        context.progress.note(f"{error.where}: {error.what}")
    return ProposalContext(
        patch=patch,
        target=target,
        tree=tree,
        decisions=plan.decisions,  # what a patch requires comes before it
        evidence=evidence,
        evidence_folder=str(root),
        decide=partial(_decision_there, context, patch, target),
        person=identity(Path.cwd()),
        now=datetime.now(UTC),
        hooks_home=context.cache.answers("pre-commit"),
        hooks_refused=hooks_refused,
        online=None if context.offline else _online(context, patch, target, fork, stack),
    )


def refuse_unsendable(
    context: Context, target: Target, hooks_refused: tuple[str, str | None] | None, stack: ExitStack
) -> None:
    """Refuse a proposal that can pass no gate, before upstream is fetched and anything is planned.

    Raises:
        VpatchError: there is no token, git does not know who commits, or upstream's hooks may not
            run. The error lists all of that.
    """
    errors: list[VpatchError] = []
    github = context.github(stack, target)
    if github.token is None:
        errors.append(
            UsageError(
                f"no token for {github.host} was found, so nothing can be sent",
                hint="run gh auth login, or set GH_TOKEN",
                code="upstream.no-token",
            )
        )
    if target.sign_off and identity(Path.cwd()) is None:
        errors.append(
            UsageError(
                "git does not know who signs the commit off",
                hint="set user.name and user.email with git config",
                code="upstream.no-identity",
            )
        )
    if target.hooks is not None and hooks_refused is not None:
        what, hint = hooks_refused
        text = f"upstream's hooks must pass before anything is sent, and they do not run: {what}"
        errors.append(UsageError(text, hint=hint, code="upstream.hooks-refused"))
    if errors:
        raise combine(errors)


def _enter(context: Context, target: Target, on: str | None, stack: ExitStack) -> CachedTree:
    try:
        return stack.enter_context(context.tree(_spec(target, on, context.library.folder)))
    except VpatchError as error:
        if on is None:
            error.hint = f"{error.hint}; or try it on a release: --onto 0.33.0"
        raise


def _online(
    context: Context, patch: Patch, target: Target, fork: str | None, stack: ExitStack
) -> Online | None:
    """Ask GitHub what the gates need; without a token, as it knows who one is, nothing."""
    github = context.github(stack, target)
    if github.token is None:
        context.progress.note(
            f"no token for {github.host} was found, so nothing is asked there "
            "(gh auth login, or set GH_TOKEN)"
        )
        return None
    threads = context.threads(stack)
    failures: dict[str, VpatchError] = {}
    known, errors = [], []
    # Others' threads, such as those of the project that a company's fork comes from, stop nothing.
    for one in filter(lambda one: target.counts(one.ref), patch.declaration.upstream):
        try:
            known.append(Known(one, threads.answer(one.ref)))
        except VpatchError as error:
            errors.append(error)
        if threads.unreachable is not None:
            raise threads.unreachable
    if errors:
        failures["not merged already"] = combine(errors)
    login, ours = None, None
    try:
        login = github.login()
        owner = fork.partition("/")[0] if fork else login
        ours = github.pull_of(target.repository, owner, branch_of(patch))
    except VpatchError as error:
        failures["not ended before"] = error
        if login is None:
            failures["open pull requests"] = error
    searched = [(github, target.repository)]
    if target.upstream:
        searched.append((context.github_of(target.upstream, stack), target.upstream))
    return Online(github, searched, login, tuple(known), ours, failures)


def _decision_there(
    context: Context, patch: Patch, target: Target, record: EvidenceRecord
) -> Decision:
    """Plan again what a record is of, and return the decision on the patch there.

    Raises:
        IncomparableError: it cannot be had again as it was.
    """
    trees = [tree for tree in record.subject if tree.pin.tree == target.tree]
    if not trees:
        raise IncomparableError(f"it is not for {target.tree}")
    tree = trees[0]
    try:
        series = context.library.load([entry.id for entry in tree.patches])
        _refuse_changed(series, tree.patches)
        wanted = _source_of(patch, tree.pin, context.library.folder)
        with context.tree(*wanted) as source:
            plan = planned(context, series, source, to_write=True)
    except VpatchError as error:
        raise IncomparableError(
            f"the tree that it was made on cannot be made again: {error.what}"
        ) from error
    if subject_files(plan) != tree.files:
        raise IncomparableError("its patches now change the source in another way")
    return next(d for d in plan.decisions if d.patch.id == patch.id)


def _refuse_changed(series: Sequence[Patch], recorded: Sequence[SubjectPatch]) -> None:
    if [patch.id for patch in series] != [entry.id for entry in recorded]:
        raise IncomparableError("its patches are not those of one run")
    for patch, entry in zip(series, recorded, strict=True):
        if patch.digest != entry.digest:
            raise IncomparableError(f"it was made with {patch.id}, which has changed since")


def _source_of(patch: Patch, pin: SubjectPin, root: Path) -> tuple[TreeSpec, str | None]:
    if pin.kind == "pypi" and pin.version is not None:
        return PypiSpec(pin.tree, pin.version), pin.digest
    if pin.kind == "git" and pin.origin is not None:
        commit = pin.digest.partition(":")[2]
        return GitSpec(pin.tree, pin.origin, commit, root), pin.digest
    # A tree that a proof brings along, or a folder of somebody's.
    places = (proof.trees.get(pin.tree) for proof in patch.declaration.proof)
    place = next((one for one in places if one), None)
    folder = str(patch.folder / place) if place else pin.origin
    if pin.kind in {"pypi", "git"} or folder is None:
        raise IncomparableError("it does not say where its source came from")
    return FolderSpec(pin.tree, folder, root), pin.digest


def why_no_hooks(context: Context, name: str, *, no_hooks: bool) -> tuple[str, str | None] | None:
    """Why upstream's hooks may not run, and what to do: a project's target may name any code."""
    if no_hooks:
        return "left out by --no-hooks", "run them: leave out --no-hooks"
    try:
        context.trust.require(context.library.target(name))
    except UntrustedError as error:
        return f"{error.where} names where they come from, and is not trusted", error.hint
    return None


def push_target(
    context: Context, proposal: ProposalContext, fork: str | None, fork_url: str | None
) -> tuple[GitHub, PushTarget]:
    """Look at the fork, before anybody is asked to confirm; every gate has passed."""
    target = proposal.target
    # Every gate has passed, those of both as well.
    assert proposal.online is not None  # noqa: S101
    assert proposal.person is not None  # noqa: S101
    github = proposal.online.github
    repository = github.fork(target.repository, fork)
    if fork_url is None and local_path(repository.url) is not None and not is_local(github.api):
        raise UsageError(
            "GitHub's answer names a repository on this machine, whose hooks would run",
            where=f"{github.host}: {redact(repository.url)}",
            hint="name the fork's address with --fork-url",
            code="git.refused-address",
        )
    return github, PushTarget(
        upstream_url=upstream_url(target),
        fork=repository,
        fork_url=refuse_credentials(fork_url or repository.url),
        person=Person(*proposal.person),
        workdir=context.cache.answers("proposals") / target.repository.replace("/", "__"),
    )
