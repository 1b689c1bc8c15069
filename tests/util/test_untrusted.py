"""What somebody else wrote, and may have meant harm by."""

from __future__ import annotations

import os

import pytest

from vpatch.util.untrusted import parse_json, plain_path, read_file


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"a":' * 100_000, "1" * 5000, "", "{", b"\xff", "-" + "9" * 10_000]
)
def test_json_that_is_none(text):
    with pytest.raises(ValueError, match=r"\w"):
        parse_json(text)


def test_a_file_is_read_up_to_its_limit(tmp_path):
    file = tmp_path / "a"
    file.write_bytes(b"12345")
    assert read_file(file, 5) == b"12345"
    with pytest.raises(OSError, match="larger than 4 bytes"):
        read_file(file, 4)


def test_what_is_no_file_is_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "endless").symlink_to("/dev/zero")
    for name in ("pipe", "endless"):
        with pytest.raises(OSError, match="not a regular file"):
            read_file(tmp_path / name, 10)
    with pytest.raises(IsADirectoryError):
        read_file(tmp_path, 10)
    with pytest.raises(FileNotFoundError):
        read_file(tmp_path / "none", 10)


@pytest.mark.parametrize(
    "path",
    [
        *("", "/a", "a/", "a//b", ".", "..", "../a", "a/../b", "a/./b"),
        *("a\nb", "a\tb", "a\x1bb", "a\x00b", "a\x9bb", "a\u202eb", "a\u2028b", "a\u2066b"),
        *("a/" * 100 + "b", "a" * 256, "/".join(["a" * 200] * 6), "\u00e4" * 128),
        *(".git", "a/.GIT/b", ".git.", ".git ", ".git. .", ".git::$INDEX_ALLOCATION"),
        *("git~1", "GIT~1/config", "a/git~1.", ".g\u200cit", "\u200e.git", "a\\.git", ".gi\ufefft"),
    ],
)
def test_paths_that_are_none(path):
    with pytest.raises(ValueError, match=r"path|control|long|git"):
        plain_path(path)


@pytest.mark.parametrize(
    "path",
    [
        "a",
        "a/b.py",
        ".github/x",
        ".gitignore",
        "a b",
        "git~2",
        "x.git",
        "\u00e4",
        "a/...",
        "-a",
        "~",
    ],
)
def test_paths_that_are(path):
    assert plain_path(path) == path
