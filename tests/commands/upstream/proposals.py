"""A patch that is ready to be proposed: upstream, a fork and GitHub, all on this machine."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock
from urllib.parse import urlsplit

from tests.projects import FILES, LLAMA, write_tree
from tests.waiting import LIMIT
from vpatch.commands.upstream import command as upstream_pr_command

if TYPE_CHECKING:
    from tests.fake_github import GitHub

UPSTREAM, FORK = "vllm-project/vllm", "octocat/vllm"
TOKEN = "ghp_test"  # noqa: S105
BRANCH = "vpatch/name-proj"
TEST_AT = "tests/test_models.py"
_COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
THERE = {
    ".github/PULL_REQUEST_TEMPLATE.md": (
        b"## Overview\n\n<!-- In a line. -->\n\n## Claims\n\n## Validation\n\n## Details\n\n---\n\n"
        b"- [ ] AI assistance was used during the creation of this PR.\n- [ ] **Code Quality:** x\n"
    ),
    "docs/contributing/README.md": (
        b"# Contributing\n\n### PR Title and Classification\n\nAny descriptive tag is accepted.\n\n"
        b"- `[Bugfix]` and `[Perf]`\n\n### Other\n\n`[Never]`\n"
    ),
    ".github/mergify.yml": (
        b"pull_request_rules:\n- name: bug\n  conditions: ['title~=(?i)bugfix']\n"
        b"  actions: {label: {add: [bug]}}\n"
    ),
    TEST_AT: b"import pathlib\n\n\ndef test_old():\n    assert pathlib.Path('/').is_dir()\n",
}
PROPOSAL = """
upstream:
  - {ref: vllm-project/vllm#7, is: issue}
proposal:
  summary: |
    The projection has no prefix, and quantisation
    cannot find it.
  claims: [Quantised models load.]
  reproduction: Load a quantised model.
  limits: Shown on a small model.
  tests:
    - {test: test_it.py, at: tests/test_models.py}
  needs: {engine: cpu}
  keywords: [proj prefix]
  assisted-by: [Some Assistant]
"""
ROOT = Path(__file__).parents[3]


@dataclass
class Upstream:
    """`repo` is upstream's repository, and `fork` the bare one of the person's fork."""

    project: object
    github: GitHub
    repo: Path
    fork: Path

    def run(self, *args, code=0, **options):
        return self.project.run("upstream-pr", "name-proj", *args, code=code, **options)

    def gates(self, *args, code=0):
        found = self.run("--json", *args, code=code).json
        return {gate["name"]: gate for gate in found["gates"]}

    def declare(self, old, new, patch="name-proj"):
        path = self.project.patches / patch / "patch.yaml"
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    def target(self, text):
        """Put a line into upstream's declaration."""
        path = self.project.folder / "targets" / "vllm.yaml"
        path.write_text(f"{path.read_text()}{text}\n")

    def commit(self, files, message="more"):
        """Put a commit on upstream's main."""
        write_tree(self.repo, files)
        git(self.repo, "add", "--all")
        git(self.repo, "commit", "-q", "-m", message)
        return git(self.repo, "rev-parse", "HEAD")

    def evidence(self):
        self.project.run(
            "test", "name-proj", "--engine", sys.executable, "--evidence-dir", "evidence"
        )

    @property
    def thread(self):
        """Our pull request on GitHub."""
        pulls = [t for t in self.github.find(UPSTREAM).threads.values() if t.author == "octocat"]
        assert len(pulls) == 1, pulls
        return pulls[0]

    @property
    def pulls(self):
        return [t for t in self.github.find(UPSTREAM).threads.values() if t.author == "octocat"]

    def tip(self, branch=BRANCH):
        found = git(self.fork, "for-each-ref", "--format=%(objectname)", f"refs/heads/{branch}")
        return found or None

    def submit(self, *args, typed="name-proj", code=0, plain=False, meanwhile=None, terminal=False):
        """Run --submit where somebody types; what was printed.

        GitHub's published description is checked, unless it is `plain`; `meanwhile` is called
        while the person thinks. With `terminal`, it is a process of its own at a real terminal.
        """
        if plain:
            self.api(self.github.plain_url)
        try:
            if terminal:
                command = ["upstream-pr", "name-proj", "--submit", *args]
                return at_terminal(self.project, command, f"{typed}\n", code, meanwhile)
            run = self.submit_here(*args, typed=typed, code=code, meanwhile=meanwhile)
            return run.err + run.out
        finally:
            if plain:
                self.api(self.github.url)

    def submit_here(self, *args, typed="name-proj", code=0, meanwhile=None):
        """The same in this process, as if it had a terminal."""

        def answer(*_, **__):
            if meanwhile is not None:
                meanwhile()
            return typed

        with (
            mock.patch("click.prompt", answer),
            mock.patch.object(upstream_pr_command, "_refuse_unfit"),
        ):
            return self.run("--submit", *args, code=code)

    def api(self, url):
        path = self.project.folder / "targets" / "vllm.yaml"
        lines = [line for line in path.read_text().splitlines() if not line.startswith("api:")]
        path.write_text("\n".join([*lines, f"api: {url}", ""]))


def at_terminal(project, args, typed, code, meanwhile):
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-m", "vpatch", *args],
        cwd=project.folder,
        env=os.environ | project.env,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    out, sent, end = b"", False, time.monotonic() + LIMIT
    try:
        while time.monotonic() < end:
            if select.select([ours], [], [], 0.2)[0]:
                try:
                    read = os.read(ours, 65536)
                except OSError:  # the other end is closed
                    break
                out += read
                if not sent and b"type the patch's id" in out:
                    if meanwhile is not None:
                        meanwhile()
                    os.write(ours, typed.encode())
                    sent = True
            elif child.poll() is not None:
                break
    finally:
        if child.poll() is None and time.monotonic() >= end:
            child.kill()
        os.close(ours)
    text = _COLOURS.sub("", out.decode().replace("\r\n", "\n"))
    assert child.wait(LIMIT) == code, text
    return text


def git(repo, *args):
    command = ["git", "-C", str(repo), "-c", "safe.bareRepository=all", *args]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def make(project, github, folder, kept):
    """Make all of it; the person has a name, a token and a fork, and there is evidence.

    `kept` is a folder that outlives a test.
    """
    home = folder / "home"
    home.mkdir(exist_ok=True)
    (home / ".gitconfig").write_text("[user]\n\tname = Pat Person\n\temail = pat@example.com\n")
    project.env |= {"HOME": str(home), "XDG_CONFIG_HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1"}
    # The second is for `plain_url`, which is another host.
    project.env |= {"GH_TOKEN": TOKEN, "GH_ENTERPRISE_TOKEN": TOKEN}
    project.env |= {"GITHUB_API_URL": github.url, "NO_PROXY": "127.0.0.1"}
    project.env |= {"GH_HOST": urlsplit(github.plain_url).netloc}
    repo, fork = folder / "upstream", folder / "fork.git"
    if _FIRST:
        shutil.copytree(_FIRST[0] / repo.name, repo, symlinks=True)
        shutil.copytree(_FIRST[0] / fork.name, fork, symlinks=True)
    else:
        make_repositories(repo, fork)
        shutil.copytree(repo, kept / repo.name, symlinks=True)
        shutil.copytree(fork, kept / fork.name, symlinks=True)
    there = github.add_repository(UPSTREAM, clone_url=repo.as_uri())
    github.add_repository(FORK, fork_of=UPSTREAM, clone_url=fork.as_uri())
    there.add_issue("The projection is not found", 7)
    targets = project.folder / "targets"
    targets.mkdir()
    text = (ROOT / "targets" / "vllm.yaml").read_text()
    # Upstream's hooks are run by tests of their own: they take their time.
    text = text.replace("hooks: .pre-commit-config.yaml\n", "")
    (targets / "vllm.yaml").write_text(f"{text}url: {repo}\napi: {github.url}\n")
    with (project.patches / "name-proj" / "patch.yaml").open("a") as file:
        file.write(PROPOSAL)
    made = Upstream(project, github, repo, fork)
    # Two runs of pytest make it.
    if _FIRST:
        shutil.copytree(_FIRST[0] / "evidence", project.folder / "evidence")
    else:
        made.evidence()
        shutil.copytree(project.folder / "evidence", kept / "evidence")
        _FIRST.append(kept)
    return made


def make_repositories(repo, fork):
    write_tree(repo, FILES | THERE)
    git(repo, "init", "-q", "-b", "main")
    for key, value in (("name", "up"), ("email", "up@example.com")):
        git(repo, "config", f"user.{key}", value)
    git(repo, "add", "--all", "--force")
    git(repo, "commit", "-q", "-m", "one")
    git(repo, "clone", "-q", "--bare", str(repo), str(fork))


# Where the repositories and the evidence of the first test lie: they are the same for every test.
_FIRST: list[Path] = []


__all__ = ["BRANCH", "FORK", "LLAMA", "TEST_AT", "TOKEN", "UPSTREAM", "Upstream", "git", "make"]
