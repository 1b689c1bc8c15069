from __future__ import annotations

import pytest

from tests.helpers import fails
from vpatch.changes.difftext import MOST_HUNKS, read_diffs
from vpatch.changes.message import id_of, read_message

MAIL = """\
From 1234567890123456789012345678901234567890 Mon Sep 17 00:00:00 2001
From: =?UTF-8?q?J=C3=B6rg?= <j@example>
Subject: [PATCH 1/2] [Bugfix] Fix the thing
 that is long (#123)

It fails with ValueError: no.

Fixes #12

Signed-off-by: J <j@example>
---
 vllm/a.py | 2 +-

diff --git a/vllm/a.py b/vllm/a.py
index 1234567..89abcde 100755
--- a/vllm/a.py
+++ b/vllm/a.py
@@ -3,3 +3,3 @@ class A:
 c
-d
+D
 e
--\x20
2.43.0

"""


def files(text):
    return [file for one in read_diffs(text.encode(), "x.diff") for file in one.files]


def hunk_of(text):
    ((hunk,),) = [file.hunks for file in files(text)]
    return hunk


def test_a_mail_is_read_without_its_head_and_signature():
    (found,) = read_diffs(MAIL.encode(), "x.diff")
    (file,) = found.files
    assert (file.old, file.new, file.notes) == ("a/vllm/a.py", "b/vllm/a.py", ())
    assert file.hunks[0].lines == (" c", "-d", "+D", " e")


def test_each_mail_of_a_mailbox_is_one():
    both = read_diffs((MAIL + MAIL.replace("+D", "+E")).encode(), "x.mbox")
    assert [one.files[0].hunks[0].lines[2] for one in both] == ["+D", "+E"]


HEAD = "--- a/vllm/a.py\n+++ b/vllm/a.py\n"


MORE = "@@ -9 +9 @@\n-x\n+y\n"


@pytest.mark.parametrize(
    ("counts", "end"),
    [
        *((counts, "-- \n2.43.0\n") for counts in ("-3,9 +3,9", "-3,1 +3,1", "-3,2 +3,7")),
        *((counts, MORE) for counts in ("-3,9 +3,9", "-3,1 +3,1", "-3,2 +3,7")),
        ("-3,9 +3,9", f"\n--- a/vllm/b.py\n+++ b/vllm/b.py\n{MORE}"),
        ("-3,1 +3,1", ""),
        ("-3,1 +3,1", "\n"),
    ],
)
def test_wrong_counts_are_corrected(counts, end):
    file, *_ = files(f"{HEAD}@@ {counts} @@\n c\n-d\n+D\n e\n{end}")
    assert file.hunks[0].lines == (" c", "-d", "+D", " e")
    assert "the counts of the hunk are corrected" in file.notes[0]
    assert "@@ -3,3 +3,3 @@" in file.text("vllm/a.py")


@pytest.mark.parametrize("counts", ["-3,9 +3,9", "-3,2 +3,7", "-3,4 +3,3", "-3,3 +3,4"])
@pytest.mark.parametrize("end", ["", "\n", "\nmore words\n", "[cut]\n\n" + MORE])
def test_a_diff_that_is_cut_off_is_an_error(counts, end):
    with fails("importing.truncated", "line 3, of b/vllm/a.py"):
        files(f"{HEAD}@@ {counts} @@\n c\n-d\n+D\n e\n{end}")


def test_right_counts_decide_what_a_line_with_dashes_is():
    hunk = hunk_of(f"{HEAD}@@ -1,2 +1,2 @@\n--- b\n+++ c\n d\n")
    assert hunk.lines == ("--- b", "+++ c", " d")


def test_an_empty_line_of_context_may_have_lost_its_blank():
    assert hunk_of(f"{HEAD}@@ -1,3 +1,3 @@\n a\n\n-b\n+c\n").lines == (" a", " ", "-b", "+c")


def test_comments_and_a_time_beside_a_name_are_no_part():
    text = "# why\n#\n# more\n--- vllm/a.py\t2026-01-01\n+++ vllm/a.py\t2026-01-02\n"
    (one,) = read_diffs(f"{text}@@ -1 +1 @@\n-a\n+b\n".encode(), "x.diff")
    assert read_message(one.prose).title == "why"
    assert (one.files[0].old, one.files[0].new) == ("vllm/a.py", "vllm/a.py")


def test_a_file_of_the_time_0_may_be_there():
    """As all files of an image, or of a reproducible archive."""
    time = "1970-01-01 00:00:00.000000000 +0000"
    (file,) = files(f"--- old/vllm/a.py\t{time}\n+++ new/vllm/a.py\t{time}\n@@ -1 +1 @@\n-a\n+b\n")
    assert (file.old, file.new) == ("old/vllm/a.py", "new/vllm/a.py")


def test_the_line_of_a_hunk_without_old_lines_is_kept():
    (file,) = files(f"{HEAD}@@ -6,0 +7 @@\n+new\n@@ -9 +11,0 @@\n-old\n")
    assert file.text("vllm/a.py").splitlines()[3::2] == ["@@ -6,0 +7,1 @@", "@@ -9,1 +9,0 @@"]


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ("old mode 100644\nnew mode 100755\n", "changes the mode of a file"),
        ("new file mode 100755\nindex 0000000..e69de29\n", "adds an executable file"),
        ("new file mode 120000\n", "has a symbolic link"),
        ("similarity index 90%\nrename from vllm/a.py\nrename to vllm/b.py\n", "renames"),
        ("Binary files a/x and b/x differ\n", "changes a binary file"),
        ("GIT binary patch\nliteral 0\n", "changes a binary file"),
    ],
)
def test_what_no_patch_can_do_is_refused(lines, why):
    (file,) = files(f"diff --git a/vllm/a.py b/vllm/a.py\n{lines}")
    assert why in file.refused


def test_a_file_whose_header_is_lost_is_another_one():
    empty = "diff --git a/vllm/x/__init__.py b/vllm/x/__init__.py\nnew file mode 100644\n"
    other = "--- /dev/null\n+++ b/vllm/y/__init__.py\n@@ -0,0 +1 @@\n+a\n"
    names = [file.name for file in files(empty + other)]
    assert names == ["b/vllm/x/__init__.py", "b/vllm/y/__init__.py"]


def test_a_byte_order_mark_hides_no_file():
    empty = "\ufeffdiff --git a/vllm/n.py b/vllm/n.py\nnew file mode 100644\n"
    assert [file.name for file in files(empty)] == ["b/vllm/n.py"]


def test_a_mail_in_base64_beside_another_is_an_error():
    hidden = MAIL.partition("diff --git")[0].replace(
        "\n\n", "\nContent-Transfer-Encoding: base64\n\n", 1
    )
    with fails("importing.no-diff", "base64"):
        files(MAIL + hidden + "ZGlmZiAtLWdpdA==\n")


def test_more_hunks_than_an_import_ends_with_are_an_error():
    with fails("importing.too-large", f"more than {MOST_HUNKS} hunks"):
        files(HEAD + "@@ -1 +1 @@\n-a\n+b\n" * (MOST_HUNKS + 1))


@pytest.mark.parametrize(
    "text", ["", "no diff\n", "\xff".encode("latin-1"), "@@ -1 +1 @@\n-a\n+b\n"]
)
def test_what_is_no_diff_is_an_error(text):
    with fails("importing.no-diff"):
        read_diffs(text if isinstance(text, bytes) else text.encode(), "x.diff")


def test_crlf_is_an_error():
    with fails("importing.crlf", "from line 1 on"):
        read_diffs(MAIL.replace("\n", "\r\n").encode(), "x.diff")


def test_the_message_of_a_mail():
    (one,) = read_diffs(MAIL.encode(), "x.diff")
    message = read_message(one.prose)
    assert message.title == "[Bugfix] Fix the thing that is long (#123)"
    assert message.body == "It fails with ValueError: no.\n\nFixes #12"
    assert message.threads == ("vllm-project/vllm#123", "vllm-project/vllm#12")


def test_the_message_of_git_show():
    shown = "commit 1234567890\nAuthor: J <j@example>\nDate:   now\n\n    Title\n\n    Body\n"
    message = read_message(shown + "    see https://github.com/o/n/pull/7\n")
    assert (message.title, message.body.splitlines()[0]) == ("Title", "Body")
    assert message.threads == ("o/n#7",)


@pytest.mark.parametrize(
    ("title", "file", "found"),
    [
        (
            "[Bugfix][MoE] Don't read it, twice over and again (#1)",
            "x",
            "dont-read-it-twice-over-and",
        ),
        ("", "0001-fix-it", "fix-it"),
        ("[Kernel]", "my_Fix", "my-fix"),
        ("", "...", "imported"),
    ],
)
def test_an_id_is_made_of_the_title_or_the_file(title, file, found):
    assert id_of(title, file) == found


@pytest.mark.parametrize(
    "line",
    ["diff -ruN a/vllm/a.py b/vllm/a.py", "Index: vllm/a.py\n" + "=" * 67, "Only in b: a.orig"],
)
def test_what_a_tool_writes_is_no_title(line):
    assert read_message(line).title == ""
    assert read_message(f"{line}\nA reason.").title == "A reason."
