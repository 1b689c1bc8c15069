"""The files and commits of a repository, as GraphQL tells them, out of a git repository."""

from __future__ import annotations

import subprocess
from functools import partial

from tests.fake_github.graphql_pages import connection


def git_object(repository, _info, expression):
    """A commit, or the file REVISION:PATH; null where there is no such thing."""
    if repository.git is None:
        return None
    try:
        kind = repository.ask_git("cat-file", "-t", expression).strip()
    except subprocess.CalledProcessError:
        return None
    if kind == "blob":
        return {"__typename": "Blob", "text": repository.ask_git("cat-file", "blob", expression)}
    return commit(repository, repository.ask_git("rev-parse", f"{expression}^{{commit}}").strip())


def commit(repository, sha):
    form = "--format=%s%n%cI%n%P"
    subject, date, parents = repository.ask_git("show", "--no-patch", form, sha).split("\n")[:3]
    return {
        "__typename": "Commit",
        "oid": sha,
        "messageHeadline": subject,
        "committedDate": date,
        "parents": lambda info, **asked: connection(
            [{"oid": parent} for parent in parents.split()], info, **asked
        ),
        "file": partial(file, repository, sha),
        "history": partial(history, repository, sha),
    }


def file(repository, sha, info, path):
    found = git_object(repository, info, f"{sha}:{path}")
    return found and {"object": found}


def history(repository, sha, info, path=None, since=None, **pages):
    options = [f"--since={since}"] if since else []
    listed = repository.ask_git(
        "log", "--format=%H", *options, sha, "--", *([path] if path else [])
    )
    return connection([commit(repository, one) for one in listed.split()], info, **pages)
