"""Repositories, with their issues and pull requests."""

from __future__ import annotations

import hashlib
import subprocess
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def made_up_sha(*parts):
    return hashlib.sha1("/".join(parts).encode(), usedforsecurity=False).hexdigest()


@dataclass
class Thread:
    """An issue or a pull request; both have their numbers from one row."""

    number: int
    title: str
    body: str = ""
    author: str = "somebody"
    is_pull: bool = False
    state: str = "open"
    merged: bool = False
    merge_commit_sha: str | None = None
    files: list[str] = field(default_factory=list)
    patches: dict[str, str | None] = field(default_factory=dict)
    draft: bool = False
    head_ref: str = "topic"
    # None where a fork is gone, which GitHub tells as null against its own description: plain_url.
    head_repo: str | None = None
    head_sha: str = "0" * 40
    base_ref: str = "main"


@dataclass
class Repository:
    """`tags` says which commits each tag contains, newest tag last; `branches` may stay unknown.

    `git` is a git repository whose files and commits are told by GraphQL, and by a comparison.
    """

    full_name: str
    default_branch: str = "main"
    clone_url: str = ""
    fork_of: str | None = None
    tags: dict[str, set[str]] = field(default_factory=dict)
    threads: dict[int, Thread] = field(default_factory=dict)
    branches: dict[str, str] | None = None
    git: Path | None = None

    def ask_git(self, *args):
        command = ["git", "-C", str(self.git), *args]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    @property
    def owner(self):
        return self.full_name.partition("/")[0]

    def add_issue(self, title, number=None, **facts):
        if number is None:
            number = max(self.threads, default=0) + 1
        thread = Thread(number, title, **facts)
        self.threads[number] = thread
        return thread

    def add_pull(self, title, number=None, **facts):
        facts = {"head_repo": self.full_name, "base_ref": self.default_branch} | facts
        thread = self.add_issue(title, number, is_pull=True, **facts)
        if thread.merged:
            thread.state = "closed"
        return thread

    def has_branch(self, name):
        return self.branches is None or name in self.branches

    def head(self, branch):
        if self.branches is None:
            return made_up_sha(self.full_name, branch)
        return self.branches[branch]

    def sha(self, tag):
        """The commit that a tag is at; it is in no tag's set."""
        return made_up_sha(self.full_name, tag)

    def commits(self, ref):
        """The commits that a tag, the default branch or a commit contains, as far as known."""
        everything = {sha for commits in self.tags.values() for sha in commits}
        for thread in self.threads.values():
            if thread.is_pull:
                everything |= {thread.head_sha, thread.merge_commit_sha} - {None}
        for name, commits in self.tags.items():
            if ref in {name, self.sha(name)}:
                return commits
        if ref == self.default_branch:
            return everything
        return {ref} if ref in everything else None
