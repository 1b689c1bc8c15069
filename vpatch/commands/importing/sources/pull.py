"""A pull request, as GitHub's API tells what it changes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from vpatch.changes.change import DiffedChange, LeftAside, Message
from vpatch.changes.difftext import read_diffs
from vpatch.changes.paths import aside
from vpatch.errors import BadValueError, UsageError, VpatchError, combine

if TYPE_CHECKING:
    from vpatch.github.client import GitHub, PullFile

_NAMED = re.compile(r"(?:https://[^/]+/)?([\w.-]+/[\w.-]+)(?:#|/pull/)(\d+)/?(?:files|commits)?/?")
_ABSENT = "/dev/null"
# What the contents of a new file look like if it is a link, or can be run: the API has no modes.
_OF_ANOTHER_MODE = re.compile(r"@@ -0,0 \+1 @@\n\+[^\n]+\n\\ No newline|@@ -0,0 [^\n]*\n\+#!")


def pull_named(text: str) -> tuple[str, int] | None:
    """Return the repository and the number that `OWNER/NAME#1` or a URL names, None for others."""
    match = _NAMED.fullmatch(text)
    return (match[1], int(match[2])) if match else None


def from_pull(name: str, github: GitHub) -> list[DiffedChange]:
    """Read a pull request as one change: all of its commits together.

    Args:
        name: `OWNER/NAME#1`, or its URL.
        github: the API to ask.

    Raises:
        UsageError: GitHub leaves out a part.
        GitHubError: there is no such pull request, or GitHub does not answer.
    """
    named = pull_named(name)
    if named is None:
        raise BadValueError(
            f"{name!r} names no pull request",
            hint="write OWNER/NAME#NUMBER, such as vllm-project/vllm#44821",
        )
    repository, number = named
    ref = f"{repository}#{number}"
    change = github.pull_change(repository, number)
    # GitHub leaves them out where they are large or binary.
    without = [file for file in change.files if file.hunks is None and file.status != "renamed"]
    untold = {file.path: f"leaves out what it changes in {file.path}" for file in without} | {
        file.path: f"does not tell whether {file.path} is a link or an executable file"
        for file in change.files
        if _OF_ANOTHER_MODE.match(file.hunks or "")
    }
    errors: list[VpatchError] = [
        UsageError(
            f"GitHub's API {what}",
            where=ref,
            hint=f"download https://{github.host}/{repository}/pull/{number}.diff, and import that",
            code="importing.left-out",
        )
        for path, what in untold.items()
        if aside(path) is None
    ]
    if errors:
        raise combine(errors)
    text = "".join(_diff(file) for file in change.files if file not in without).encode()
    files = tuple(file for diffs in read_diffs(text, ref) for file in diffs.files)
    message = Message(change.title, change.body, (ref,))
    left_aside = tuple(LeftAside(file.path, str(aside(file.path)), 0) for file in without)
    return [DiffedChange(files, message, ref, f"pull-{number}", left_aside)]


def _diff(file: PullFile) -> str:
    """A file of a pull request as a unified diff."""
    old = file.old_path or file.path
    head = f"diff --git a/{old} b/{file.path}\n"
    if file.old_path is not None:
        head += f"rename from {old}\nrename to {file.path}\n"
    before = _ABSENT if file.status == "added" else f"a/{old}"
    after = _ABSENT if file.status == "removed" else f"b/{file.path}"
    return f"{head}--- {before}\n+++ {after}\n{file.hunks}\n" if file.hunks else head
