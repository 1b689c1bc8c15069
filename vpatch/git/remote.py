"""git for sources: a commit of a remote or local repository, and the files of a work tree."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.errors import UnavailableError, UsageError
from vpatch.git.address import local_path, reachable, refuse_address, refuse_options
from vpatch.git.command import FULL_COMMIT, HOOKLESS, USER, WITHOUT_MAINTENANCE, init_bare, run
from vpatch.git.errors import GitError
from vpatch.git.found import opened_source, refuse_pipes
from vpatch.util.urls import redact

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class ResolvedRef:
    """A commit, and the name by which the remote hands it out."""

    commit: str
    name: str


def resolve_ref(url: str, ref: str) -> ResolvedRef:
    """Ask the remote or local repository which commit `ref` is; a tag goes before a branch."""
    refuse_options(ref)
    path = local_path(refuse_address(url))
    if path is not None and path.is_dir():
        return _resolve_local(path, ref)
    names = [f"refs/tags/{ref}^{{}}", f"refs/tags/{ref}", f"refs/heads/{ref}", ref]
    with reachable(url) as address:
        listed = run(None, "ls-remote", "--", address, *names, env=USER).decode(errors="replace")
    commits = {name: commit for commit, name in (line.split("\t") for line in listed.splitlines())}
    for name in names:
        if name in commits:
            return ResolvedRef(commits[name], name.removesuffix("^{}"))
    if FULL_COMMIT.fullmatch(ref):
        return ResolvedRef(ref, ref)
    raise UsageError(
        f"the repository has no tag or branch {ref!r}",
        where=redact(url),
        hint="name a tag or a branch of it, or a commit by all 40 digits of its id",
        code="git.no-such-ref",
    )


def _resolve_local(folder: Path, ref: str) -> ResolvedRef:
    with opened_source(folder) as repo:
        if repo is None:
            raise UsageError(
                "is not in a git repository",
                where=str(folder),
                hint="leave out @REF, or correct the path",
                code="git.ref-without-repository",
            )
        try:
            commit = run(repo, "rev-parse", "--verify", "--end-of-options", f"{ref}^{{commit}}")
        except GitError as error:
            raise UsageError(
                f"the repository has no commit {ref!r}: {error.stderr}",
                where=str(folder),
                hint="name a tag, a branch or a commit of that repository",
                code="git.no-such-ref",
            ) from error
    return ResolvedRef(commit.decode().strip(), commit.decode().strip())


def fetch_commit(url: str, ref: ResolvedRef, into: Path) -> None:
    """Fetch that one commit into a new bare repository.

    Depth 1 and no filter: every file of the commit is wanted, so a partial clone would only split
    one transfer into two.
    """
    refuse_options(ref.name)
    refuse_address(url)
    init_bare(into)
    options = (*WITHOUT_MAINTENANCE, "-c", "protocol.version=2", *HOOKLESS)
    fetch = ["fetch", "--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules"]
    with reachable(url) as address:
        run(into, *options, *fetch, "--", address, ref.name, env=USER)
    fetched = run(into, "rev-parse", "--verify", "FETCH_HEAD^{commit}").decode().strip()
    if fetched != ref.commit:
        raise UnavailableError(
            f"{ref.name} moved from {ref.commit} to {fetched} while it was fetched",
            where=redact(url),
            hint="run the command again",
            code="git.ref-moved",
        )


def worktree_files(folder: Path) -> list[str] | None:
    """List what git tracks below `folder` or would track: everything that it does not ignore.

    None where the folder is in no work tree.
    """
    with opened_source(folder) as repo:
        if repo is None or repo.work_tree is None:
            return None
        refuse_pipes(repo.work_tree, folder.resolve())
        below = str(folder.resolve().relative_to(repo.work_tree))
        options = ("-z", "--cached", "--others", "--exclude-standard")
        listed = run(repo, "-C", below, "ls-files", *options)
    return sorted({os.fsdecode(path) for path in listed.split(b"\0")[:-1]})
