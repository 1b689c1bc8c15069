"""What a proposal stands on: upstream's tree, evidence, the person, and what GitHub says."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vpatch import git
from vpatch.commits import locked_files, overall_changes
from vpatch.errors import UsageError, VpatchError, together
from vpatch.jobs import with_required
from vpatch.memo import remembered_plan
from vpatch.smoke.evidence import all_evidence
from vpatch.source.index import parse_version
from vpatch.source.spec import FolderSpec, GitSpec, PypiSpec, parse_tree
from vpatch.upstream.proof import IncomparableError
from vpatch.upstream.propose import Ground, Online, branch_of
from vpatch.upstream.status import Known

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from vpatch.cli.session import Session
    from vpatch.declare.target import Target
    from vpatch.outcome import Decision
    from vpatch.patch import Patch
    from vpatch.source.entry import CachedTree
    from vpatch.source.spec import TreeSpec


def target_of(patch: Patch, session: Session) -> str:
    """Return the name of the target that a patch is proposed to, where nobody says.

    Raises:
        UsageError: nothing tells.
    """
    declared = patch.declaration
    if declared.proposal and declared.proposal.target:
        return declared.proposal.target
    found = [tree for tree in declared.needed_in if tree in session.library.targets]
    if len(found) == 1:
        return found[0]
    raise UsageError(
        f"{patch.id} does not say to which target it is proposed",
        where=str(patch.folder),
        todo=f"give --target, one of: {', '.join(sorted(session.library.targets)) or 'none'}",
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


def ground_of(
    session: Session,
    patch: Patch,
    target: Target,
    on: str | None,
    root: Path,
    fork: str | None,
    stack: ExitStack,
    *,
    hooks_refused: tuple[str, str | None] | None,
) -> Ground:
    """Collect what a proposal stands on; `on` is taken for upstream's branch.

    Raises:
        UsageError: the patch does not concern the target's tree.
    """
    if target.tree not in patch.declaration.needed_in:
        raise UsageError(
            f"{patch.id} concerns no {target.tree}",
            where=str(patch.folder),
            todo="give another --target",
        )
    tree = stack.enter_context(_opened(session, target, on))
    series = with_required([patch.id], session.library)
    concerning = [one for one in series if target.tree in one.declaration.needed_in]
    plan = remembered_plan(session.plans, concerning, tree, to_write=True)
    evidence, damaged = all_evidence(root)
    for error in damaged:
        session.progress.note(f"{error.where}: {error.what}")

    def decide(record: Mapping[str, Any]) -> Decision:
        return _decision_there(session, patch, target, record)

    return Ground(
        patch=patch,
        target=target,
        tree=tree,
        decisions=plan.decisions,  # what a patch requires comes before it
        evidence=evidence,
        evidence_folder=str(root),
        decide=decide,
        person=git.identity(Path.cwd()),
        now=datetime.now(UTC),
        hooks_home=session.cache.answers("pre-commit"),
        hooks_refused=hooks_refused,
        online=None if session.offline else _online(session, patch, target, fork, stack),
    )


@contextmanager
def _opened(session: Session, target: Target, on: str | None) -> Iterator[CachedTree]:
    with ExitStack() as stack:
        try:
            tree = stack.enter_context(session.tree(_spec(target, on, session.library.folder)))
        except VpatchError as error:
            if on is not None:
                raise
            todo = f"{error.todo}; or take something else for it in a dry run: --on 0.33.0"
            raise VpatchError(error.what, where=error.where, todo=todo) from error
        yield tree


def _online(
    session: Session, patch: Patch, target: Target, fork: str | None, stack: ExitStack
) -> Online | None:
    """Ask GitHub what the gates need; without a token, as it knows who one is, nothing."""
    github = session.github(stack, target)
    if github.token is None:
        session.progress.note(
            f"no token for {github.host} was found, so nothing is asked there "
            "(gh auth login, or set GH_TOKEN)"
        )
        return None
    threads = session.threads(stack)
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
        failures["not merged already"] = together(errors)
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
        searched.append((session.github_of(target.upstream, stack), target.upstream))
    return Online(github, searched, login, tuple(known), ours, failures)


def _decision_there(
    session: Session, patch: Patch, target: Target, record: Mapping[str, Any]
) -> Decision:
    """Plan again what a record is of, and return the decision on the patch there.

    Raises:
        IncomparableError: it cannot be had again as it was.
    """
    trees = [tree for tree in record["subject"] if tree["pin"]["tree"] == target.tree]
    if not trees:
        raise IncomparableError(f"it is of no {target.tree}")
    tree = trees[0]
    try:
        series = session.library.load([entry["id"] for entry in tree["patches"]])
        _refuse_changed(series, tree["patches"])
        wanted = _source_of(patch, tree["pin"], session.library.folder)
        with session.tree(*wanted) as source:
            plan = remembered_plan(session.plans, series, source, to_write=True)
    except IncomparableError:
        raise
    except VpatchError as error:
        raise IncomparableError(f"what it was made on cannot be had again: {error.what}") from error
    if [file.model_dump() for file in locked_files(overall_changes(plan))] != tree["files"]:
        raise IncomparableError("its patches make something else of its source by now")
    return next(d for d in plan.decisions if d.patch.id == patch.id)


def _refuse_changed(series: Sequence[Patch], recorded: Sequence[Mapping[str, Any]]) -> None:
    for patch, entry in zip(series, recorded, strict=True):
        if patch.digest != entry["digest"]:
            raise IncomparableError(f"it was made with {patch.id}, which has changed since")


def _source_of(patch: Patch, pin: Mapping[str, Any], root: Path) -> tuple[TreeSpec, str | None]:
    if pin["kind"] == "pypi":
        return PypiSpec(pin["tree"], pin["version"]), pin["digest"]
    if pin["kind"] == "git":
        commit = pin["digest"].partition(":")[2]
        return GitSpec(pin["tree"], pin["origin"], commit, root), pin["digest"]
    # A tree that a proof brings along, or a folder of somebody's.
    places = (proof.trees.get(pin["tree"]) for proof in patch.declaration.proof)
    place = next((one for one in places if one), None)
    folder = str(patch.folder / place) if place else pin["origin"]
    return FolderSpec(pin["tree"], folder, root), pin["digest"]
