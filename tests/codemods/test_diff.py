"""Diffs as git, mail and diff really write them."""

from __future__ import annotations

import subprocess

import pytest

from tests.codemods.test_text import FILE, GIT, HUNK, applied, diff_edits
from tests.helpers import fails

MAIL = """\
From 66045fa57217929186daa1da9ed3b104a5b613ae Mon Sep 17 00:00:00 2001
From: A <a@example>
Date: Sun, 22 Nov 2026 07:02:34 +0000
Subject: [PATCH] Change x

A body with --- in it, an @@ and a +++ too.
---
 x | 2 +-
 1 file changed, 1 insertion(+), 1 deletion(-)
 mode change 100644 => 100755 y

"""
TAIL = "-- \n2.43.0\n\n"
EDITED = {"x": b"b\n"}


@pytest.mark.parametrize(
    "diff",
    [
        f"{MAIL}{GIT}index 0..1 100644\n{FILE}{HUNK}{TAIL}",
        f"{MAIL}{FILE}{HUNK}",
        f"{FILE}{HUNK}{TAIL}",
        f"{FILE}{HUNK}--\n2.39.5 (Apple Git-154)\n",
        f"{FILE}{HUNK}-- \n2.47.1.windows.1\n\n\n",
        f"From: me\nSubject: x\n\n{FILE}{HUNK}",
        f"commit 66045fa57217\nAuthor: A\n\n    Change x\n\n{GIT}{FILE}{HUNK}",
        f"{GIT}index 0..1 100755\n{FILE}{HUNK}",
        f"diff -ru a/x b/x\n{FILE}{HUNK}",
        f"diff -Naur a/x b/x\n--- a/x\t2026-01-01 00:00:00 +0000\n+++ b/x\t2026-01-02\n{HUNK}",
    ],
)
def test_what_is_around_a_diff(tmp_path, diff):
    assert applied(tmp_path, diff, {"x": b"a\n"}) == EDITED
    assert applied(tmp_path, diff, EDITED, carried=True) == EDITED


def test_several_mails(tmp_path):
    other = f"{FILE}{HUNK}".replace("/x", "/y")
    diff = f"{MAIL}{FILE}{HUNK}{TAIL}{MAIL}{other}{TAIL}"
    assert applied(tmp_path, diff, {"x": b"a\n", "y": b"a\n"}) == {"x": b"b\n", "y": b"b\n"}


@pytest.mark.parametrize(
    ("diff", "message"),
    [
        # Nothing of a diff is taken for prose.
        (f"{MAIL}-- a/x\n+++ b/x\n{HUNK}", r"line 13 is '\+\+\+ b/x'"),
        (f"{MAIL}{HUNK}", "line 12 is '@@"),
        (f"{MAIL}dif --git a/x b/x\nold mode 100644\nnew mode 100755\n", "line 13 is 'old mode"),
        (f"{MAIL}rename from x\n{FILE}{HUNK}", "line 12 is 'rename"),
        (f"{MAIL}Binary files a/x and b/x differ\n{FILE}{HUNK}", "line 12 is 'Binary"),
        (f"{MAIL}deleted file mode 100644\n", "line 12 is 'deleted"),
        (MAIL, "ends before a hunk"),
        # Nothing behind a diff but a signature and another mail.
        (f"{FILE}{HUNK}{TAIL}{FILE}{HUNK}hello\n", "line 14 is 'hello'"),
        (f"{FILE}{HUNK}-- \nhello\n", "line 7 is 'hello'"),
        (f"{FILE}{HUNK}Subject: x\n", "line 6 is 'Subject"),
        (f"{FILE}@@ -1,2 +1,2 @@\n-a\n+b\n-- \n2.43.0\n", "line 7 is '2.43.0'"),
    ],
)
def test_what_is_around_a_diff_and_is_refused(tmp_path, diff, message):
    with fails("codemods.wrong-diff", message):
        diff_edits(tmp_path, diff)


@pytest.mark.parametrize(
    ("diff", "mode", "line"),
    [
        (f"{GIT}old mode 100644\nnew mode 100755\n", "old mode 100644", 2),
        (f"{GIT}old mode 100644\nnew mode 100755\n{FILE}{HUNK}", "old mode 100644", 2),
        (f"{MAIL}{GIT}new file mode 100755\nindex 0..1\n", "new file mode 100755", 13),
    ],
)
def test_a_mode_is_refused_by_name(tmp_path, diff, mode, line):
    with fails("codemods.wrong-diff") as caught:
        diff_edits(tmp_path, diff)
    assert f"the diff has {mode!r} for x" in caught.value.what
    assert f"x.diff:{line}" in str(caught.value)
    assert "remove the lines with old mode and new mode" in caught.value.hint


def test_lines_that_a_diff_without_context_replaces(tmp_path):
    diff = f"{FILE}@@ -2 +2 @@\n-two\n+2\n@@ -4,2 +4 @@\n-four\n-five\n+4, 5\n"
    before = b"one\ntwo\nthree\nfour\nfive\n"
    assert applied(tmp_path, diff, {"x": before}) == {"x": b"one\n2\nthree\n4, 5\n"}
    twice = before + b"two\n"
    assert applied(tmp_path, diff, {"x": twice}) == "expected 1, found 2"


def test_equal_hunks_are_as_many_places(tmp_path):
    diff = f"{FILE}@@ -1 +1 @@\n-a\n+b\n@@ -3 +3 @@\n-a\n+b\n"
    assert applied(tmp_path, diff, {"x": b"a\n\na\n"}) == {"x": b"b\n\nb\n"}
    half = {"x": b"b\n\na\n"}
    assert applied(tmp_path, diff, half, carried=True) == {"x": b"b\n\nb\n"}
    assert applied(tmp_path, diff, half).startswith("expected 2, found 1")
    assert applied(tmp_path, diff, {"x": b"a\n\na\na\n"}) == "expected 2, found 3"
    assert applied(tmp_path, diff, {"x": b"a\n"}) == "expected 2, found 1"


@pytest.mark.parametrize("options", [["-U0"], ["-U1"], []])
def test_what_git_writes(tmp_path, options):
    """A commit by real git, as mail: what vpatch makes of it is what git made."""
    repo = tmp_path / "repo"
    repo.mkdir()

    def git(*args):
        names = ["-c", "user.name=A", "-c", "user.email=a@example", "-c", "init.defaultBranch=m"]
        command = ["git", "-C", str(repo), *names, *args]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    lines = [f"line {number}\n" for number in range(30)]
    git("init", "-q")
    (repo / "x").write_text("".join(lines))
    (repo / "run.sh").write_text("#!/bin/sh\na\n")
    (repo / "run.sh").chmod(0o755)
    git("add", ".")
    git("commit", "-qm", "one")
    lines[3], lines[20] = "three\n", "twenty\nand more\n"
    (repo / "x").write_text("".join(lines))
    (repo / "run.sh").write_text("#!/bin/sh\nb\n")
    (repo / "new").write_text("new\n")
    git("add", ".")
    git("commit", "-qm", "[Bugfix] Two\n\nWith a body.\n-- not a signature")
    before = {path: git("show", f"HEAD~:{path}").encode() for path in ("x", "run.sh")}
    after = {path: git("show", f"HEAD:{path}").encode() for path in ("x", "run.sh", "new")}
    for diff in (git("format-patch", "-1", "--stdout", *options), git("show", *options)):
        assert applied(tmp_path, diff, before) == after
