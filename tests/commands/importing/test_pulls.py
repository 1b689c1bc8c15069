"""A pull request becomes one change, asked from GitHub's API by the real client."""

from __future__ import annotations

from contextlib import closing

import pytest

from tests.helpers import fails, tree_of
from vpatch.changes.stack import Stack
from vpatch.changes.undo import fitted
from vpatch.commands.importing.sources.pull import from_pull, pull_named
from vpatch.github.client import GitHub
from vpatch.github.tokens import web_host

UPSTREAM = "vllm-project/vllm"
FILES = {"vllm/a.py": "a\nb\nc\n", "tests/test_a.py": "a\n"}
HUNK = "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c"
NEW = "@@ -0,0 +1 @@\n+x"


@pytest.fixture
def pull(github):
    """A function that makes a pull request of some hunks, and reads it."""
    there = github.add_repository(UPSTREAM)

    def read(patches, name=f"{UPSTREAM}#7", body="It fails.\n\nFIX #12"):
        there.add_pull("[Bugfix] Fix it", 7, body=body, files=list(patches), patches=patches)
        with closing(GitHub(github.url, [web_host(github.url)])) as client:
            stack = Stack(tree_of(FILES))
            return [stack.take(change) for change in from_pull(name, client)]

    return read


def test_a_pull_request_is_one_change(pull):
    (change,) = pull({"vllm/a.py": HUNK, "vllm/new.py": NEW, "tests/test_a.py": HUNK})
    assert {file.path: file.after for file in change.files} == {
        "vllm/a.py": b"a\nB\nc\n",
        "vllm/new.py": b"x\n",
    }
    assert [left.path for left in change.aside] == ["tests/test_a.py"]
    assert change.message.title == "[Bugfix] Fix it"
    assert change.message.body == "It fails.\n\nFIX #12"
    assert change.message.threads == (f"{UPSTREAM}#7",)
    assert change.where == f"{UPSTREAM}#7"


def test_a_merged_pull_request_is_taken_out_of_the_release(github):
    there = github.add_repository(UPSTREAM)
    there.add_pull("Fix it", 7, merged=True, files=["vllm/a.py"], patches={"vllm/a.py": HUNK})
    release = tree_of({**FILES, "vllm/a.py": "a\nB\nc\n"})
    with closing(GitHub(github.url, [web_host(github.url)])) as client:
        found = fitted(from_pull(f"{UPSTREAM}#7", client), release)
    assert found.upstreamed
    (file,) = found.changes[0].files
    assert (file.before, file.after) == (b"a\nb\nc\n", b"a\nB\nc\n")


def test_a_url_names_it_too(pull):
    (change,) = pull({"vllm/a.py": HUNK}, f"https://github.com/{UPSTREAM}/pull/7/files")
    assert change.where == f"{UPSTREAM}#7"


def test_what_github_leaves_out_is_an_error(pull):
    with fails("importing.left-out", "vllm/large.py"):
        pull({"vllm/a.py": HUNK, "vllm/large.py": None})


@pytest.mark.parametrize(
    "hunk",
    ["@@ -0,0 +1 @@\n+a.py\n\\ No newline at end of file", "@@ -0,0 +1,2 @@\n+#!/bin/sh\n+a"],
)
def test_a_new_file_that_may_be_a_link_or_executable_is_an_error(pull, hunk):
    with fails("importing.left-out", "vllm/new"):
        pull({"vllm/a.py": HUNK, "vllm/new": hunk})


def test_a_picture_of_the_documentation_is_no_error(pull):
    (change,) = pull({"vllm/a.py": HUNK, "docs/a.png": None})
    assert [left.path for left in change.aside] == ["docs/a.png"]


def test_one_that_does_not_apply_is_an_error(pull):
    with fails("importing.does-not-apply", "vllm/a.py"):
        pull({"vllm/a.py": HUNK.replace("b", "other")})


def test_one_that_is_not_there(github):
    github.add_repository(UPSTREAM)
    with (
        closing(GitHub(github.url, [web_host(github.url)])) as client,
        fails("github.not-found"),
    ):
        from_pull(f"{UPSTREAM}#8", client)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("vllm-project/vllm#1", ("vllm-project/vllm", 1)),
        ("https://github.com/vllm-project/vllm/pull/1", ("vllm-project/vllm", 1)),
        ("https://github.example.com/o/n/pull/22/commits", ("o/n", 22)),
        ("fix.diff", None),
        ("vllm#1", None),
        ("patches/fix#1/x", None),
        ("https://github.com/vllm-project/vllm/issues/1", None),
    ],
)
def test_what_names_a_pull_request(text, named):
    assert pull_named(text) == named
