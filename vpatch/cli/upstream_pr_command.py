"""vpatch upstream-pr: a patch as a pull request that upstream would like to receive."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vpatch import git
from vpatch.cli import render
from vpatch.cli.session import Session, json_option, library_options, offline_option
from vpatch.cli.smoke_command import EVIDENCE
from vpatch.errors import ExitCode, UsageError, VpatchError
from vpatch.git_fork import Person
from vpatch.jobs import with_required
from vpatch.memo import remembered_plan
from vpatch.smoke.evidence import all_evidence
from vpatch.source.index import parse_version
from vpatch.source.spec import GitSpec, PypiSpec, parse_tree
from vpatch.upstream.propose import Ground, Online, propose
from vpatch.upstream.status import Known
from vpatch.upstream.submit import Way, refuse_credentials, submit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vpatch.declare.target import Target
    from vpatch.outcome import Decision
    from vpatch.patch import Patch
    from vpatch.source.spec import TreeSpec
    from vpatch.upstream.gates import Gate
    from vpatch.upstream.propose import Proposed
    from vpatch.upstream.submit import Sent

_COLOURS = {"pass": "green", "fail": "red", "not asked": "yellow"}


@click.command("upstream-pr")
@click.argument("patch_id", metavar="PATCH")
@click.option("--submit", "sending", is_flag=True, help="Push the branch and open a draft.")
@click.option("--target", "name", metavar="NAME", help="Where to  [default: as the patch says]")
@click.option(
    "--on",
    metavar="PATH@REF",
    help="Take this for upstream's branch, also URL@REF or a release; for a dry run.",
)
@click.option(
    "--from",
    "root",
    type=click.Path(path_type=Path),
    default=EVIDENCE,
    show_default=True,
    help="The folder that evidence is in.",
)
@click.option("--fork", metavar="OWNER/NAME", help="Your fork  [default: YOU/NAME]")
@click.option(
    "--fork-url", metavar="URL", help="By which git reaches it  [default: GitHub's https]"
)
@offline_option
@library_options
@json_option
def command(
    patch_id: str,
    name: str | None,
    on: str | None,
    root: Path,
    fork: str | None,
    fork_url: str | None,
    patches: tuple[Path, ...],
    recipes: tuple[Path, ...],
    *,
    sending: bool,
    offline: bool,
    as_json: bool,
) -> ExitCode:
    """Show a patch as a pull request on upstream's main, with every gate that it must pass.

    The codemods are applied to upstream's main itself, and the patch's test is put where upstream
    keeps such tests. Nothing is sent without --submit, which needs every gate to pass, and a person
    who confirms at a terminal. Run again, it brings the same pull request up to date: what people
    wrote there stays.

    Ends with 1 where a gate fails. With --offline, what GitHub would have to be asked is not.
    """
    session = Session(patches, recipes, offline)
    if sending:
        _refuse_unfit(offline=offline, on=on, as_json=as_json)
    if fork_url is not None:
        refuse_credentials(fork_url)
    patch = session.library.patch(patch_id)
    target = session.target(name or _target_of(patch, session))
    with ExitStack() as stack:
        ground = _ground(session, patch, target, on, root, fork, stack)
        proposed = propose(ground, session.progress)
        if as_json:
            render.print_json(_as_json(proposed))
        else:
            _print(proposed)
        if not sending or not proposed.passes:
            if sending:
                click.echo("nothing was sent: every gate must pass")
            return ExitCode.FINDINGS if proposed.fails or sending else ExitCode.CLEAN
        online, person = ground.online, ground.person
        assert online is not None  # noqa: S101 - refused above
        assert person is not None  # noqa: S101 - a gate asks for it
        found = online.github.fork(target.repository, fork)
        _confirm(patch_id, found.full_name)
        way = Way(
            upstream_url=_upstream_url(target),
            fork=found,
            fork_url=refuse_credentials(fork_url or found.url),
            person=Person(*person),
            room=session.cache.answers("proposals") / target.repository.replace("/", "__"),
        )
        sent = submit(proposed, online.github, way, session.progress)
    _print_sent(sent, found.full_name, proposed.branch)
    return ExitCode.CLEAN


def _refuse_unfit(*, offline: bool, on: str | None, as_json: bool) -> None:
    """Refuse --submit where it has no meaning, or nobody is there who could stand behind it."""
    if offline or on or as_json:
        raise UsageError(
            "--submit is to upstream as it is now, and asks a person",
            todo="leave out --offline, --on and --json",
        )
    if not sys.stdin.isatty() or not sys.stdout.isatty():
        raise UsageError(
            "--submit asks a person to confirm, and there is no terminal",
            todo="run it at a terminal: upstream takes nothing that no person stands behind",
        )


def _target_of(patch: Patch, session: Session) -> str:
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


def _upstream_url(target: Target) -> str:
    from vpatch.github.client import default_api  # noqa: PLC0415
    from vpatch.github.tokens import web_host  # noqa: PLC0415

    host = web_host(target.api or default_api())
    return target.url or f"https://{host}/{target.repository}.git"


def _spec(target: Target, on: str | None) -> TreeSpec:
    if on is None:
        return GitSpec(target.tree, _upstream_url(target), target.branch)
    version = parse_version(on)
    return PypiSpec(target.tree, version) if version else parse_tree(f"{target.tree}={on}")


def _ground(
    session: Session,
    patch: Patch,
    target: Target,
    on: str | None,
    root: Path,
    fork: str | None,
    stack: ExitStack,
) -> Ground:
    if target.tree not in patch.declaration.needed_in:
        raise UsageError(
            f"{patch.id} concerns no {target.tree}",
            where=str(patch.folder),
            todo="give another --target",
        )
    tree = stack.enter_context(session.tree(_spec(target, on)))
    series = with_required([patch.id], session.library)
    concerning = [one for one in series if target.tree in one.declaration.needed_in]
    plan = remembered_plan(session.plans, concerning, tree, to_write=True)
    decisions = [d for d in plan.decisions if d.patch.id != patch.id]
    decisions += [d for d in plan.decisions if d.patch.id == patch.id]
    evidence, damaged = all_evidence(root)
    for error in damaged:
        session.progress.note(f"{error.where}: {error.what}")

    def decide(record: Mapping[str, Any]) -> Decision | None:
        return _decision_there(session, patch, target, record)

    return Ground(
        patch=patch,
        target=target,
        tree=tree,
        decisions=decisions,
        evidence=evidence,
        evidence_folder=str(root),
        decide=decide,
        person=git.identity(Path.cwd()),
        now=datetime.now(UTC),
        hooks_home=session.cache.answers("pre-commit"),
        online=None if session.offline else _online(session, patch, target, fork, stack),
    )


def _online(
    session: Session, patch: Patch, target: Target, fork: str | None, stack: ExitStack
) -> Online:
    """Ask GitHub what the gates need; a token is needed, as it knows who one is."""
    github = session.github(stack, target)
    if github.token is None:
        raise UsageError(
            f"no token for {github.host} was found",
            todo="gh auth login, or set GH_TOKEN; or leave out what is asked there: --offline",
        )
    threads = session.threads(stack)
    known = []
    for one in patch.declaration.upstream:
        known.append(Known(one, threads.answer(one.ref)))
        if threads.unreachable is not None:
            raise threads.unreachable
    login = github.login()
    owner = fork.partition("/")[0] if fork else login
    ours = github.pull_of(target.repository, owner, f"vpatch/{patch.id}", target.branch)
    return Online(github, login, tuple(known), ours)


def _decision_there(
    session: Session, patch: Patch, target: Target, record: Mapping[str, Any]
) -> Decision | None:
    """Decide on the patch for the release that a record is of; None where it is of no release."""
    pins = [tree["pin"] for tree in record["subject"] if tree["pin"]["tree"] == target.tree]
    if not pins or pins[0]["kind"] != "pypi":
        return None
    (pin,) = pins
    series = with_required([patch.id], session.library)
    concerning = [one for one in series if target.tree in one.declaration.needed_in]
    try:
        with session.tree(PypiSpec(pin["tree"], pin["version"]), pin["digest"]) as tree:
            plan = remembered_plan(session.plans, concerning, tree, to_write=True)
    except VpatchError:
        return None  # the caller says that it cannot be had any more
    return next(d for d in plan.decisions if d.patch.id == patch.id)


def _print(proposed: Proposed) -> None:
    target = proposed.target
    render.print_pin(proposed.base, f"for {target.repository}:{target.branch}")
    if proposed.files:
        click.echo(f"branch  {proposed.branch}")
        click.echo(f"title   {proposed.title}")
        click.echo(f"labels  {', '.join(proposed.labels) or 'none'} (by upstream's own rules)")
        _heading("commit")
        click.echo(proposed.message.rstrip())
        _heading("diff")
        click.echo(proposed.diff.rstrip())
        _heading("body")
        click.echo(proposed.body.rstrip())
        _heading("what only a person can do")
        for todo in proposed.person:
            click.echo(f"- {todo}")
    _heading("gates")
    # What was not asked for one reason is told together: there is no more to say of it.
    idle = [gate for gate in proposed.gates if gate.verdict == "not asked" and gate.todo is None]
    told = [gate for gate in proposed.gates if gate not in idle]
    width = max(len(gate.name) for gate in told)
    for gate in told:
        _print_gate(gate, width)
    if idle:
        names = ", ".join(gate.name for gate in idle)
        click.echo(f"{click.style('not asked', fg='yellow')}  {names}: {idle[0].said}")
    failed = sum(gate.verdict == "fail" for gate in proposed.gates)
    unasked = sum(gate.verdict == "not asked" for gate in proposed.gates)
    passed = len(proposed.gates) - failed - unasked
    rest = f", {unasked} not asked" if unasked else ""
    click.echo(f"{passed} of {len(proposed.gates)} gates pass, {failed} fail{rest}")


def _heading(text: str) -> None:
    click.secho(f"\n{text}", bold=True)


def _print_gate(gate: Gate, width: int) -> None:
    verdict = click.style(f"{gate.verdict:<9}", fg=_COLOURS[gate.verdict])
    click.echo(f"{verdict}  {gate.name:<{width}}  {gate.said}")
    if gate.todo and gate.verdict != "pass":
        click.echo(f"{'':<11}{'':<{width}}  next: {gate.todo}")


def _confirm(patch_id: str, fork: str) -> None:
    """Ask the person who proposes it, by more than a key.

    Raises:
        VpatchError: they did not confirm.
    """
    click.echo(f"\nThis goes to {fork}, and to upstream as a draft in your name.")
    typed = click.prompt(
        "If you have read every changed line and ran the tests, type the patch's id",
        default="",
        show_default=False,
    )
    if typed.strip() != patch_id:
        raise VpatchError("it was not confirmed, and nothing was sent")


def _print_sent(sent: Sent, fork: str, branch: str) -> None:
    how = "pushed" if sent.pushed else "was there already"
    click.echo(f"{fork}:{branch}  {sent.commit[:12]} {how}")
    what = "a new draft" if sent.created else "brought up to date" if sent.updated else "unchanged"
    click.echo(f"{sent.url}  {what}")
    for part in sent.kept:
        click.echo(f"  {part}: a person wrote there, so it was left as it is")
    for part in sent.gone:
        click.echo(f"  {part}: a person removed it, so it was left out")


def _as_json(proposed: Proposed) -> dict[str, Any]:
    return {
        "patch": proposed.patch.id,
        "target": proposed.target.repository,
        "on": {"branch": proposed.target.branch, "digest": proposed.base.digest},
        "branch": proposed.branch,
        "title": proposed.title,
        "labels": list(proposed.labels),
        "commit": proposed.message,
        "files": sorted(proposed.files),
        "diff": proposed.diff,
        "body": proposed.body,
        "person": list(proposed.person),
        "gates": [asdict(gate) for gate in proposed.gates],
        "passes": proposed.passes,
    }
