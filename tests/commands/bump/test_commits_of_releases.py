"""The commits of definitions, in a repository with files of two real releases of vLLM."""

from __future__ import annotations

import pytest

from tests.projects import git
from tests.recorded import recorded
from vpatch.commands.bump.changes import ReleaseSide, changed_code
from vpatch.commands.bump.upstream_commits import with_commits
from vpatch.commands.bump.verdict import Verdict, judge
from vpatch.git.file_history import ClonedHistory
from vpatch.git.found import opened_source
from vpatch.planning.view import View
from vpatch.source.spec import parse_vllm
from vpatch.workspace.context import Context

pytestmark = pytest.mark.slow

OLD, NEW = "0.23.0", "0.24.0"
PATCHES = ("deepgemm-next-n-3", "o-proj-bf16-fallback", "cpu-spec-decode-fp64-gumbel")


@pytest.fixture(scope="module")
def judged():
    """What the step means for the patches, and the trees of both releases."""
    with (
        Context() as context,
        context.tree(parse_vllm(OLD)) as old,
        context.tree(parse_vllm(NEW)) as new,
    ):
        found = []
        for patch_id in PATCHES:
            row = recorded(context.library.patch(patch_id))
            sides = ReleaseSide(row[OLD], View(old)), ReleaseSide(row[NEW], View(new))
            found.append(judge(row[OLD], row[NEW], (old.pin, new.pin), changed_code(*sides)))
        yield found, old, new


@pytest.fixture(scope="module")
def clone(judged, tmp_path_factory):
    """A repository in which a commit takes each file from the old release to the new one."""
    patches, old, new = judged
    folder = tmp_path_factory.mktemp("vllm")
    places = {p for one in patches for c in one.changed for p in (c.before, c.after) if p}
    paths = sorted({place.path for place in places})
    git(folder, "init", "--quiet")

    def write(path, tree):
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        if path in tree.paths():
            file.write_bytes(tree.read(path))
        else:
            file.unlink(missing_ok=True)

    for path in paths:
        write(path, old)
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "-m", "Begin")
    git(folder, "tag", f"v{OLD}")
    for path in paths:
        write(path, new)
        git(folder, "add", "--all")
        git(folder, "commit", "--quiet", "--allow-empty", "-m", f"Take {path}")
    git(folder, "tag", f"v{NEW}")
    return folder


def test_each_definition_has_the_commit_of_its_file(judged, clone):
    with opened_source(clone) as repo:
        history = ClonedHistory(repo, "", f"v{OLD}", f"v{NEW}")
        patches = with_commits(judged[0], history)
    assert {one.verdict for one in patches} == {Verdict.LOOK_AGAIN}
    looked_at = [code for one in patches for code in one.changed if code.kind != "moved"]
    assert len(looked_at) == 10
    for code in looked_at:
        paths = {place.path for place in (code.before, code.after) if place}
        assert {one.subject for one in code.commits} == {f"Take {path}" for path in paths}
