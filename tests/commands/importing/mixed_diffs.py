"""Diffs of many kinds, and what an import makes of each; FILES is the release that they are for."""

from __future__ import annotations

A = "a\nb\nc\nd\ne\nf\ng\n"
FILES = {
    "vllm/__init__.py": b"",
    "vllm/a.py": A.encode(),
    "vllm/b.py": b"x = 1\n",
    "vllm/last.py": b"x = 1\ny = 2",
    "vllm/empty.py": b"",
    "vllm/vé.py": A.encode(),
    "vllm/two words.py": A.encode(),
    "vllm/data.bin": b"\0\1\2",
    "vllm/v1/core.py": A.encode(),
    "vllm/benchmarks/run.py": A.encode(),
    "benchmarks/run.py": A.encode(),
    "tests/test_a.py": b"a\n",
    "docs/a.md": b"a\n",
    ".github/ci.yml": b"a\n",
    "setup.py": A.encode(),
    "tools/t.py": b"a\n",
}
HUNK = "@@ -3,3 +3,3 @@\n c\n-d\n+D\n e\n"
NEW = "@@ -0,0 +1 @@\n+x = 1\n"


def change(path, hunk=HUNK, a="a/", b="b/"):
    return f"--- {a}{path}\n+++ {b}{path}\n{hunk}"


def git_change(path, hunk=HUNK, more=""):
    return f"diff --git a/{path} b/{path}\n{more}{change(path, hunk)}"


def new(path, hunk=NEW, mode="100644"):
    head = f"diff --git a/{path} b/{path}\nnew file mode {mode}\n"
    return f"{head}--- /dev/null\n+++ b/{path}\n{hunk}"


def header(path, *lines, to=None):
    return "".join(f"{line}\n" for line in [f"diff --git a/{path} b/{to or path}", *lines])


GOOD = git_change("vllm/a.py")
EMPTY = header("vllm/pkg/__init__.py", "new file mode 100644", "index 0000000..e69de29")
LINK = new("vllm/link.py", "@@ -0,0 +1 @@\n+a.py\n\\ No newline at end of file\n", mode="120000")
SUBMODULE = new("vllm/sub", f"@@ -0,0 +1 @@\n+Subproject commit {'1' * 40}\n", mode="160000")
BINARY = header("vllm/data.bin", "index 1234567..89abcde 100644") + (
    "Binary files a/vllm/data.bin and b/vllm/data.bin differ\n"
)
GIT_BINARY = header("vllm/data.bin", "index aed2973..c86626638e0bc8cf47ca49bb1525b40e9737ee64") + (
    "GIT binary patch\nliteral 3\nKcmZQzWMT#Y01f~L\n\nliteral 3\nKcmZQzU}69O00{s9\n\n"
)
MAIL = (
    "From 1234567890123456789012345678901234567890 Mon Sep 17 00:00:00 2001\n"
    "From: J <j@example>\nSubject: [PATCH] Fix it\n\nIt fails.\n---\n vllm/a.py | 2 +-\n\n"
)
QUOTED = 'diff --git "a/vllm/v\\303\\251.py" "b/vllm/v\\303\\251.py"\n'
SIGNED = "-- \n2.43.0\n\n"
LAST = "@@ -1,2 +1,2 @@\n x = 1\n-y = 2\n\\ No newline at end of file\n+y = 3\n"
THEN_LAST = f"{LAST}\\ No newline at end of file\n"
TIME = "2026-01-01 00:00:00.000000000 +0100"
EPOCH = "1970-01-01 01:00:00.000000000 +0100"


def timed(old, new, path, hunk, times=(TIME, TIME)):
    return (
        f"diff -ruN {old}/{path} {new}/{path}\n"
        f"--- {old}/{path}\t{times[0]}\n+++ {new}/{path}\t{times[1]}\n{hunk}"
    )


PLAIN = timed("old", "new", "vllm/a.py", HUNK)

# The diff, what the outcome is, and what it names: "takes" all, "looks" with exit code 1,
# or "refuses".
CASES = {
    # Two packages, and paths without vllm/.
    "two packages": (GOOD + git_change("flashinfer/core.py"), "looks", "flashinfer/core.py"),
    "a new file of another package": (GOOD + new("flashinfer/x.py"), "looks", "flashinfer/x.py"),
    "another package, no prefixes": (
        change("vllm/a.py", a="", b="") + change("flashinfer/setup.py", a="", b=""),
        "looks",
        "flashinfer/setup.py",
    ),
    "another package that begins so": (
        GOOD + git_change("vllm_ascend/b.py", "@@ -1 +1 @@\n-x = 1\n+x = 2\n"),
        "looks",
        "vllm_ascend/b.py",
    ),
    "a sibling's tools, no prefixes": (
        "--- /dev/null\n+++ flashinfer/tools/new.py\n" + NEW + change("vllm/a.py", a="", b=""),
        "looks",
        "flashinfer/tools/new.py",
    ),
    "another package with a folder vllm": (
        GOOD + git_change("plugins/vllm/b.py", "@@ -1 +1 @@\n-x = 1\n+x = 2\n"),
        "looks", "plugins/vllm/b.py"),
    "only another package": (git_change("flashinfer/core.py"), "refuses", "flashinfer/core.py"),
    "only a new file elsewhere": (new("flashinfer/x.py"), "refuses", "flashinfer/x.py"),
    "a new file at the root alone": (new("envs2.py"), "refuses", "envs2.py"),
    "without vllm": (change("v1/core.py") + new("v1/more.py"), "takes", "vllm/v1/more.py"),
    "without vllm, at its root": (change("b.py", "@@ -1 +1 @@\n-x = 1\n+x = 2\n") + new("n.py"),
        "takes", "vllm/n.py"),
    "without vllm, only new": (new("v1/more.py"), "takes", "vllm/v1/more.py"),
    "without vllm, a name of both": (
        change("benchmarks/run.py") + change("v1/core.py"), "takes", "vllm/benchmarks/run.py"),
    "without vllm, and another": (
        change("v1/core.py") + change("flashinfer/a.py"), "refuses", "flashinfer/a.py"),
    "without vllm, and a test": (
        change("v1/core.py") + change("tests/t.py"), "takes", "tests/t.py"),
    "files beside vllm": (change("setup.py") + new("tools/n.py"), "takes", "tools/n.py"),
    "code that is not there": (GOOD + git_change("vllm/gone.py"), "looks", "vllm/gone.py"),
    "tests, docs and CI": (
        GOOD + change("tests/test_a.py", "@@ -1 +1 @@\n-a\n+b\n")
        + change(".github/ci.yml", "@@ -1 +1 @@\n-a\n+b\n") + new("docs/n.md"),
        "takes", "docs/n.md"),
    # Empty files.
    "a new empty file": (GOOD + EMPTY, "takes", "vllm/pkg/__init__.py"),
    "a new empty file first": (EMPTY + GOOD, "takes", "vllm/pkg/__init__.py"),
    "a new empty file alone": (EMPTY, "takes", "vllm/pkg/__init__.py"),
    "a new empty file without ids": (
        header("vllm/n.py", "new file mode 100644") + GOOD, "takes", "vllm/n.py"),
    "a new empty executable": (
        GOOD + header("vllm/n.sh", "new file mode 100755", "index 0000000..e69de29"),
        "refuses", "vllm/n.sh"),
    "a new file without its hunk": (
        GOOD + header("vllm/n.py", "new file mode 100644", "index 0000000..1234567"),
        "refuses", "vllm/n.py"),
    "a removed empty file": (
        GOOD + header("vllm/empty.py", "deleted file mode 100644", "index e69de29..0000000"),
        "refuses", "vllm/empty.py"),
    "a file that becomes empty": (
        GOOD + change("vllm/b.py", "@@ -1 +0,0 @@\n-x = 1\n"), "empties", "vllm/b.py"),
    "an empty file that gets lines": (GOOD + change("vllm/empty.py", NEW), "empties", "empty"),
    "a removed file": (
        GOOD + header("vllm/b.py", "deleted file mode 100644")
        + "--- a/vllm/b.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-x = 1\n", "refuses", "vllm/b.py"),
    # Links, submodules and modes.
    "a new link": (GOOD + LINK, "refuses", "vllm/link.py"),
    "a new link first": (LINK + GOOD, "refuses", "vllm/link.py"),
    "a link elsewhere": (
        GOOD + git_change("vllm/b.py", "@@ -1 +1 @@\n-x = 1\n+x\n",
        "index 1234567..89abcde 120000\n"), "refuses", "vllm/b.py"),
    "a removed link": (
        GOOD + header("vllm/b.py", "deleted file mode 120000", "index 1234567..0000000")
        + "--- a/vllm/b.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-x = 1\n", "refuses", "vllm/b.py"),
    "a file replaced by a link": (
        header("vllm/b.py", "deleted file mode 100644")
        + "--- a/vllm/b.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-x = 1\n"
        + new("vllm/b.py", "@@ -0,0 +1 @@\n+a.py\n\\ No newline at end of file\n", mode="120000"),
        "refuses", "vllm/b.py"),
    "a submodule": (GOOD + SUBMODULE, "refuses", "vllm/sub"),
    "a submodule that changes": (
        GOOD + change("vllm/sub", f"@@ -1 +1 @@\n-Subproject commit {'1' * 40}\n"
        f"+Subproject commit {'2' * 40}\n"), "refuses", "vllm/sub"),
    "a submodule as a log": (GOOD + "Submodule vllm/sub 1234567..89abcde:\n  > more\n",
        "refuses", "vllm/sub"),
    "a new executable": (GOOD + new("vllm/run.sh", mode="100755"), "refuses", "vllm/run.sh"),
    "a new executable that is a test": (
        GOOD + new("tests/run.sh", mode="100755"), "takes", "tests/run.sh"),
    "a mode": (GOOD + header("vllm/b.py", "old mode 100644", "new mode 100755"),
        "refuses", "vllm/b.py"),
    "a mode with a hunk": (
        git_change("vllm/a.py", more="old mode 100644\nnew mode 100755\n"), "refuses", "vllm/a.py"),
    # Renames and copies.
    "a rename": (
        GOOD + header("vllm/b.py", "similarity index 100%", "rename from vllm/b.py",
        "rename to vllm/c.py", to="vllm/c.py"), "refuses", "vllm/c.py"),
    "a rename with a mode": (
        GOOD + header("vllm/b.py", "old mode 100644", "new mode 100755", "similarity index 100%",
        "rename from vllm/b.py", "rename to vllm/c.py", to="vllm/c.py"), "refuses", "mode"),
    "a copy": (
        GOOD + header("vllm/b.py", "similarity index 100%", "copy from vllm/b.py",
        "copy to vllm/c.py", to="vllm/c.py"), "refuses", "vllm/c.py"),
    # Binary files.
    "a binary file": (GOOD + BINARY, "refuses", "vllm/data.bin"),
    "a binary file first": (BINARY + GOOD, "refuses", "vllm/data.bin"),
    "a binary patch": (GOOD + GIT_BINARY, "refuses", "vllm/data.bin"),
    "a binary file of diff -r": (
        PLAIN + "Binary files old/vllm/data.bin and new/vllm/data.bin differ\n",
        "refuses", "vllm/data.bin"),
    "two binary files of diff -r": (
        "Binary files old/docs/x.png and new/docs/x.png differ\n"
        "Binary files old/vllm/data.bin and new/vllm/data.bin differ\n" + PLAIN,
        "refuses", "vllm/data.bin"),
    "a binary test": (
        PLAIN + "Binary files old/tests/x.png and new/tests/x.png differ\n", "takes",
        "tests/x.png"),
    "a file that diff -q names": (PLAIN + "Files old/vllm/b.py and new/vllm/b.py differ\n",
        "refuses", "vllm/b.py"),
    "a file in one folder only": (PLAIN + "Only in new/vllm: more.py\n", "refuses", "more.py"),
    "a file in one folder first": ("Only in new/vllm: more.py\n" + PLAIN, "refuses", "more.py"),
    "remains in one folder": (PLAIN + "Only in new/vllm: a.py.orig\n", "takes", "a.py.orig"),
    # Line ends.
    "CRLF": (GOOD.replace("\n", "\r\n"), "refuses", "CRLF"),
    "CRLF in a part": (GOOD + new("vllm/n.py").replace("x = 1\n", "x = 1\r\n"), "refuses", "CRLF"),
    "no newline in the end": (change("vllm/last.py", THEN_LAST), "takes", "vllm/last.py"),
    "a newline in the end": (change("vllm/last.py", LAST), "takes", "vllm/last.py"),
    "a new file without a newline": (
        new("vllm/n.py", NEW + "\\ No newline at end of file\n"), "takes", "vllm/n.py"),
    # Diffs that are cut off, and other damage.
    "cut in a hunk": (GOOD[: GOOD.index(" e\n")], "refuses", "vllm/a.py"),
    "cut in a line": (GOOD[:-1], "refuses", "vllm/a.py"),
    "cut in an added line": (
        new("vllm/n.py", "@@ -0,0 +1,2 @@\n+x = 1\n+y = 123")[:-2], "refuses", "vllm/n.py"),
    "cut in a header": (GOOD + header("vllm/n.py", "new file mode 100644")[:-1],
        "refuses", "vllm/n.py"),
    "cut in a header of a test": (
        GOOD + change("tests/test_a.py", "@@ -1 +1"), "refuses", "tests/test_a.py"),
    "cut in the last line": (
        change("vllm/last.py", THEN_LAST)[:-12], "refuses", "vllm/last.py"),
    "a test with wrong counts": (
        GOOD + change("tests/test_a.py", "@@ -1 +1 @@\n-a\n") + new("vllm/n.py"),
        "looks", "the counts of the hunk"),
    "cut below a name": (GOOD + change("vllm/b.py", ""), "refuses", "vllm/b.py"),
    "cut below a header": (GOOD + header("vllm/b.py", "index 1..2 100644"), "refuses", "vllm/b.py"),
    "cut below a hunk's header": (
        GOOD + change("vllm/b.py", "@@ -1 +1 @@\n"), "refuses", "vllm/b.py"),
    "cut, and then words": (
        GOOD.replace(" e\n", "") + "[120 more lines]\n", "refuses", "vllm/a.py"),
    "cut, and another file": (
        GOOD.replace(" e\n", "") + new("vllm/n.py"), "looks", "the counts of the hunk"),
    "a mail that is cut": (
        MAIL + GOOD.replace(" e\n", "") + MAIL + new("vllm/n.py") + SIGNED, "refuses", "vllm/a.py"),
    "lines more than counted": (GOOD + "+ALSO\n", "looks", "the counts of the hunk"),
    "a hunk without changes": (change("vllm/a.py", "@@ -3 +3 @@\n c\n") + new("vllm/n.py"),
        "refuses", "vllm/a.py"),
    "a hunk without numbers": (
        GOOD + change("vllm/b.py", "@@ ... @@\n-x = 1\n+x = 2\n"), "refuses", "vllm/b.py"),
    "a number without end": (
        change("vllm/a.py", f"@@ -{'9' * 5000} +1 @@\n-d\n+D\n"), "refuses", "vllm/a.py"),
    "lines behind words": (GOOD + "and also\n+x = 2\n", "refuses", "vllm/a.py"),
    "words behind": (GOOD + "\nThat is all.\n", "takes", "vllm/a.py"),
    "a combined diff": (
        GOOD + "diff --cc vllm/b.py\nindex 1,2..3\n--- a/vllm/b.py\n+++ b/vllm/b.py\n"
        "@@@ -1,1 -1,1 +1,1 @@@\n- x = 1\n -x = 2\n++x = 3\n", "refuses", "vllm/b.py"),
    "a context diff": (
        GOOD + "*** a/vllm/b.py\n--- b/vllm/b.py\n***************\n*** 1 ****\n! x = 1\n"
        "--- 1 ----\n! x = 2\n", "refuses", "vllm/b.py"),
    "properties of Subversion": (
        GOOD + "\nProperty changes on: vllm/b.py\n______\nAdded: svn:executable\n",
        "refuses", "vllm/b.py"),
    "an empty file of Subversion": (
        GOOD + f"Index: vllm/n.py\n{'=' * 67}\n", "refuses", "vllm/n.py"),
    "a NUL": (GOOD + new("vllm/n.py", "@@ -0,0 +1 @@\n+x = '\0'\n"), "refuses", "vllm/n.py"),
    "lines that are not UTF-8": (
        GOOD.encode() + new("vllm/n.py").encode().replace(b"x =", b"\xff ="), "refuses",
        "vllm/n.py"),
    "a name that is not UTF-8": (
        GOOD.encode() + new("vllm/NAME").encode().replace(b"NAME", b"n\xff.py"), "refuses",
        r"vllm/n\xff.py"),
    "a quoted name that is not UTF-8": (
        GOOD + 'diff --git "a/vllm/n\\377.py" "b/vllm/n\\377.py"\nnew file mode 100644\n'
        f'--- /dev/null\n+++ "b/vllm/n\\377.py"\n{NEW}', "refuses", r"vllm/n\xff.py"),
    "a name without end": (
        GOOD + change("vllm/" + "n" * 20_000, NEW), "refuses", "too long"),
    "a header without end": (
        GOOD + f"Binary files {' and ' * 100_000}\n", "looks", "Binary files"),
    "a byte order mark": (b"\xef\xbb\xbf" + GOOD.encode(), "takes", "vllm/a.py"),
    "UTF-16": (GOOD.encode("utf-16"), "refuses", "UTF-16"),
    # Mail.
    "a mail": (MAIL + GOOD + SIGNED, "takes", "vllm/a.py"),
    "a mail with an empty file": (MAIL + GOOD + EMPTY + SIGNED, "takes", "__init__"),
    "two mails": (
        MAIL + GOOD + SIGNED + MAIL.replace("it", "more")
        + git_change("vllm/a.py", HUNK.replace("+D", "+E").replace("-d", "-D")) + SIGNED,
        "takes", "vllm/a.py"),
    "an encoded mail": (
        MAIL.replace("\n\n", "\nContent-Transfer-Encoding: quoted-printable\n\n", 1)
        + new("vllm/n.txt").replace("x = 1", "x =3D 1") + SIGNED, "refuses", "quoted-printable"),
    # Names.
    "a quoted name": (
        QUOTED + f'--- "a/vllm/v\\303\\251.py"\n+++ "b/vllm/v\\303\\251.py"\n{HUNK}',
        "takes", "vllm/vé.py"),
    "a quoted name of an empty file": (
        'diff --git "a/vllm/n\\303\\251.py" "b/vllm/n\\303\\251.py"\nnew file mode 100644\n'
        "index 0000000..e69de29\n" + GOOD, "takes", "vllm/né.py"),
    "a quoted name with a mode": (
        QUOTED + "old mode 100644\nnew mode 100755\n" + GOOD, "refuses", "vllm/vé.py"),
    "a name with a line end": (
        GOOD + f'--- /dev/null\n+++ "b/vllm/n\\n.py"\n{NEW}', "refuses", "control characters"),
    "a name with a blank": (
        header("vllm/two words.py") + change("vllm/two words.py\t"), "takes", "vllm/two words.py"),
    "a new empty name with a blank": (
        header("vllm/more words.py", "new file mode 100644", "index 0000000..e69de29"), "takes",
        "vllm/more words.py"),
    "no prefixes": (
        f"diff --git vllm/a.py vllm/a.py\n{change('vllm/a.py', a='', b='')}", "takes", "vllm/a.py"),
    "prefixes by what they are": (
        f"diff --git i/vllm/a.py w/vllm/a.py\n{change('vllm/a.py', a='i/', b='w/')}",
        "takes", "vllm/a.py"),
    # quilt and diff -ru.
    "quilt": (
        f"Index: vllm/vllm/a.py\n{'=' * 67}\n"
        + change("a.py", a="vllm.orig/vllm/", b="vllm/vllm/"), "takes", "vllm/a.py"),
    "diff -ru": (PLAIN, "takes", "vllm/a.py"),
    "diff -ru of named folders": (
        timed("pristine", "mine", "vllm/a.py", HUNK) + timed("pristine", "mine", "setup.py", HUNK),
        "takes", "setup.py"),
    "without vllm, of diff -ru": (
        timed("pristine", "mine", "v1/core.py", HUNK), "takes", "vllm/v1/core.py"),
    "a new file of diff -ruN": (
        PLAIN + timed("old", "new", "vllm/n.py", NEW, (EPOCH, TIME)), "takes", "vllm/n.py"),
    "a new file of diff -ruN that is there": (
        PLAIN + timed("old", "new", "vllm/b.py", NEW, (EPOCH, TIME)), "refuses", "vllm/b.py"),
    "a removed file of diff -ruN in America": (
        PLAIN + timed("old", "new", "vllm/b.py", "@@ -1 +0,0 @@\n-x = 1\n",
        (TIME, "1969-12-31 16:00:00.000000000 -0800")), "refuses", "vllm/b.py"),
    "a new file by its hunk": (GOOD + change("vllm/n.py", NEW), "takes", "vllm/n.py"),
    "a removed file of diff -ruN": (
        PLAIN + timed("old", "new", "vllm/b.py", "@@ -1 +0,0 @@\n-x = 1\n", (TIME, EPOCH)),
        "refuses", "vllm/b.py"),
    # Several diffs of one file.
    "two diffs of a file": (
        GOOD + git_change("vllm/a.py", "@@ -5,3 +5,3 @@\n e\n-f\n+F\n g\n"), "takes", "vllm/a.py"),
    "a new file that changes": (
        new("vllm/n.py") + git_change("vllm/n.py", "@@ -1 +1 @@\n-x = 1\n+x = 2\n"), "takes",
        "vllm/n.py"),
    "a new file twice": (new("vllm/n.py") + new("vllm/n.py"), "refuses", "vllm/n.py"),
    "a new file that is there": (GOOD + new("vllm/b.py"), "refuses", "vllm/b.py"),
    "a file in a file": (GOOD + new("vllm/b.py/n.py"), "refuses", "vllm/b.py/n.py"),
    "a file for a folder": (GOOD + new("vllm/v1"), "refuses", "vllm/v1"),
    "a file elsewhere": (GOOD + new("vllm/../../n.py"), "refuses", "n.py"),
    "a file of git": (GOOD + new("vllm/.git/config"), "takes", "vllm/.git/config"),
}  # fmt: skip
