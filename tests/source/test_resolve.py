from __future__ import annotations

import errno
import hashlib
import os
import shutil
import stat
import subprocess
from contextlib import chdir
from pathlib import Path

import pytest

from tests.helpers import fails
from tests.index_server import FILES
from vpatch.checkout.transaction import CheckoutTransaction
from vpatch.progress import Silent
from vpatch.source import folder as folder_module
from vpatch.source.spec import FolderSpec

ODD = {
    "vllm/__init__.py": b"x = 1\r\n",
    "vllm/version.py": b"",
    "vllm/utf16.txt": "a\n".encode("utf-16"),
    "vllm/$Id$.py": b"# $Id$\n",
    "vllm/no_newline.py": b"y",
    ".gitattributes": b"* text=auto eol=crlf ident export-subst\n"
    b"*.txt working-tree-encoding=UTF-16\nno* export-ignore\n",
    ".gitignore": b"*.log\n/build/\n",
}


def git(repo, *args):
    env = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    who = ["-c", "user.name=n", "-c", "user.email=e", "-c", "protocol.file.allow=always"]
    run = subprocess.run(
        ["git", "-C", str(repo), *who, *args], check=True, capture_output=True, text=True, env=env
    )
    return run.stdout.strip()


def write(root, files):
    for path, data in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)


@pytest.fixture
def repo(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    root = tmp_path / "upstream"
    root.mkdir()
    git(root, "init", "-q", "-b", "main")
    # Blobs as they are: `git add` would apply the attributes.
    write(root, {path: data for path, data in ODD.items() if path != ".gitattributes"})
    (root / "run.sh").write_bytes(b"#!/bin/sh\n")
    (root / "run.sh").chmod(0o755)
    (root / "link").symlink_to("vllm")
    git(root, "add", "-A")
    write(root, {".gitattributes": ODD[".gitattributes"]})
    git(root, "-c", "core.attributesFile=/dev/null", "add", ".gitattributes")
    git(root, "commit", "-q", "-m", "one")
    git(root, "tag", "-a", "v0.23.0", "-m", "release")
    git(root, "config", "uploadpack.allowFilter", "true")
    return root


def check_odd(tree):
    expected = ODD | {"run.sh": b"#!/bin/sh\n"}
    assert {path: tree.read(path) for path in tree.paths()} == expected
    assert tree.records["run.sh"].mode == 0o100755
    assert "link" not in tree.paths()


@pytest.mark.parametrize("url", ["./upstream", "file"])
@pytest.mark.parametrize("ref", ["v0.23.0", "main", "commit"])
def test_git_byte_for_byte(repo, opening, notes, url, ref):
    commit = git(repo, "rev-parse", "HEAD")
    url = repo.as_uri() if url == "file" else url
    with opening(f"{url}@{commit if ref == 'commit' else ref}") as tree:
        check_odd(tree)
        assert (tree.pin.kind, tree.pin.digest, tree.pin.origin) == ("git", f"sha1:{commit}", url)
        assert tree.pin.version == ("0.23.0" if ref == "v0.23.0" else None)
        base, base_commit = tree.base_repository(notes)
        listing = git(base, "ls-tree", "-r", base_commit)
        assert listing == git(repo, "ls-tree", "-r", "HEAD")


def test_the_pin_and_base_do_not_depend_on_what_is_cached(repo, opening, notes):
    commit = git(repo, "rev-parse", "HEAD")
    bases = set()
    for ref, version in [("main", None), ("v0.23.0", "0.23.0"), (commit, None), (commit[:9], None)]:
        with opening(f"./upstream@{ref}") as tree:
            assert (tree.pin.ref, tree.pin.version) == (ref, version)
            bases.add(tree.base_repository(notes))
    assert len(bases) == 1
    assert sum("Fetching" in what for what in notes.started) == 1


def test_a_branch_that_moves(repo, opening):
    with opening("./upstream@main") as tree:
        first = tree.pin.digest
    write(repo, {"new.py": b""})
    git(repo, "add", "new.py")
    git(repo, "commit", "-q", "-m", "two")
    with opening("./upstream@main") as tree:
        assert "new.py" in tree.paths()
    with opening(f"{repo.as_uri()}@v0.23.0") as tree:
        assert tree.pin.digest == first


def test_git_offline(repo, opening):
    commit = git(repo, "rev-parse", "HEAD")
    with fails("source.not-in-cache", "--offline"):
        opening(f"{repo.as_uri()}@main", offline=True)
    opening("./upstream@main", offline=True).close()  # which is no network
    opening(f"{repo.as_uri()}@main").close()
    shutil.move(repo, repo.with_name("gone"))
    for ref in ("main", commit):
        with opening(f"{repo.as_uri()}@{ref}", offline=True) as tree:
            check_odd(tree)
    opening(f"{repo.as_uri()}@{commit}").close()  # online too: a full id needs no asking
    with fails("source.not-in-cache", "--offline"):
        opening(f"{repo.as_uri()}@{'1' * 40}", offline=True)


@pytest.mark.parametrize("form", ["./upstream@v9", "URL@v9"])
def test_no_such_ref(repo, opening, form):
    with fails("git.no-such-ref", "v9"):
        opening(form.replace("URL", repo.as_uri()))


def test_a_ref_of_a_folder_without_a_repository(opening, tmp_path):
    (tmp_path / "plain").mkdir()
    with fails("git.ref-without-repository"):
        opening(f"{tmp_path}/plain@v1")


def test_a_folder_that_is_not_there(opening):
    with fails("source.no-such-folder"):
        opening(FolderSpec("vllm", "./gone"))


def test_no_such_repository_and_no_credentials_told(tmp_path, opening):
    with fails("git.remote-unreachable") as caught:
        opening(f"http://bob:hunter2@127.0.0.1:9/{tmp_path.name}.git@v1")
    assert "hunter2" not in str(caught.value)
    assert "ls-remote" in str(caught.value)


def test_a_folder_in_a_work_tree(repo, opening):
    write(repo, {"noise.log": b"n", "build/x.py": b"n", "vllm/new.py": b"fresh\n"})
    with opening("./upstream") as tree:
        found = set(tree.paths())
        digest = tree.pin.digest
        assert tree.pin.origin == "./upstream"
        assert tree.read("vllm/new.py") == b"fresh\n"
    assert found == {*ODD, "run.sh", "vllm/new.py"}
    (repo / "noise.log").write_bytes(b"more")
    with opening("./upstream") as tree:
        assert tree.pin.digest == digest
    (repo / "run.sh").chmod(0o644)
    with opening("./upstream") as tree:
        assert tree.pin.digest != digest


def test_a_plain_folder(opening, tmp_path):
    root = tmp_path / "plain"
    write(root, FILES | {"vllm/__pycache__/x.pyc": b"c"})
    with opening(str(root)) as tree:
        assert tree.paths() == sorted(FILES)
        assert tree.pin.version == "0.23.0"
    (root / "alias").symlink_to("vllm")
    with opening(str(root), offline=True) as tree:
        assert tree.paths() == sorted(FILES)
        assert tree.records["alias"].mode == 0o120000


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("d/" * 2000 + "a.py", "too deep"),
        ("vllm/a\nb.py", "control characters"),
        ("vllm/git~1", "git refuses"),
    ],
)
def test_a_folder_with_what_no_checkout_can_have(opening, tmp_path, path, reason):
    root = tmp_path / "plain"
    write(root, FILES)
    with chdir(root):
        *folders, name = path.split("/")
        for folder in folders:
            os.makedirs(folder, exist_ok=True)  # noqa: PTH103 - a path of 4,000 bytes cannot be given
            os.chdir(folder)
        Path(name).write_bytes(b"")
    with fails("source.unusable-file", reason) as caught, opening(str(root)):
        pass
    assert caught.value.where == str(root)
    with chdir(root):
        if folders:
            subprocess.run(["rm", "-rf", "d"], check=True)


def test_an_empty_folder(opening, tmp_path):
    (tmp_path / "plain").mkdir()
    with fails("source.wrong-tree"):
        opening(str(tmp_path / "plain"))


def test_a_folder_that_changes_while_it_is_read(tmp_path):
    write(tmp_path, {"a": b"1"})
    records = folder_module.scan(tmp_path)
    write(tmp_path, {"a": b"2"})
    with fails("source.changed-while-read"):
        list(folder_module.reparse(tmp_path, records))


@pytest.mark.parametrize("offline", [False, True])
def test_another_digest_than_expected(index, cache, opening, offline):
    right = "sha256:" + hashlib.sha256(index.archives["vllm-0.23.0.tar.gz"]).hexdigest()
    wrong = f"sha256:{'1' * 64}"
    opening("0.23.0", expected_digest=right).close()
    opening("0.23.0", expected_digest=right, offline=offline).close()
    shutil.rmtree(cache.answers("index"))
    with fails("source.pin-mismatch") as caught:
        opening("0.23.0", expected_digest=wrong, offline=offline)
    assert right in str(caught.value)
    assert wrong in str(caught.value)


@pytest.mark.parametrize("spec", ["./upstream@main", "./upstream"])
@pytest.mark.usefixtures("repo")
def test_another_digest_than_expected_elsewhere(opening, spec):
    with fails("source.pin-mismatch"):
        opening(spec, expected_digest=f"sha1:{'1' * 40}")


@pytest.mark.parametrize("target", ["/etc/shadow", "../secret", "vllm/../../secret", ".."])
def test_a_link_that_leaves_the_tree(opening, tmp_path, target):
    root = tmp_path / "plain"
    write(root, FILES)
    (root / "leads-out").symlink_to(target)
    with fails("source.unsafe-path", "which is not in the tree") as caught:
        opening(str(root))
    assert caught.value.where == "leads-out"


def test_a_link_that_leaves_a_commit(repo, opening):
    (repo / "leads-out").symlink_to("../../secret")
    git(repo, "add", "leads-out")
    git(repo, "commit", "-q", "-m", "out")
    with fails("source.unsafe-path", "which is not in the tree"):
        opening("./upstream@HEAD")


def test_a_commit_with_a_name_that_no_checkout_can_have(repo, opening):
    (repo / "vllm/a\nb.py").write_bytes(b"")
    git(repo, "add", "--all")
    git(repo, "commit", "-q", "-m", "odd")
    with fails("source.unsafe-path", "control characters"):
        opening("./upstream@HEAD")


def test_what_is_no_file_is_not_of_the_source(repo, opening, tmp_path):
    write(tmp_path / "plain", FILES)
    os.mkfifo(tmp_path / "plain/vllm/pipe")
    with opening(str(tmp_path / "plain")) as tree:
        assert tree.paths() == sorted(FILES)
    with opening("./upstream") as tree:
        paths = tree.paths()
    (repo / "run.sh").unlink()  # git still tracks it
    with opening("./upstream") as tree:
        assert tree.paths() == [path for path in paths if path != "run.sh"]


def test_a_file_that_cannot_be_read(opening, tmp_path, monkeypatch):
    write(tmp_path / "plain", FILES)

    def refuse(path, _limit):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(folder_module, "read_file", refuse)
    with fails("source.unusable-file", "Permission denied") as caught:
        opening(str(tmp_path / "plain"))
    assert caught.value.where.startswith(str(tmp_path / "plain/"))


def test_a_file_that_git_lists_behind_a_link(repo, opening, tmp_path):
    """An index can name files in a folder that has become a link to somewhere else."""
    secret = tmp_path / "elsewhere"
    secret.mkdir()
    (secret / "shadow").write_text("secret")
    (repo / "etc").mkdir()
    (repo / "etc" / "shadow").write_text("")
    git(repo, "add", "etc/shadow")
    (repo / "etc" / "shadow").unlink()
    (repo / "etc").rmdir()
    (repo / "etc").symlink_to(secret)
    with fails("source.unusable-file", "is a link to a folder"):
        opening("./upstream")


@pytest.mark.parametrize("private", ["a file", "a folder", "nothing"])
def test_what_others_cannot_read_stays_so(opening, tmp_path, private):
    root = tmp_path / "plain"
    write(root, FILES)
    root.chmod(0o755)
    for path in root.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    if private == "a file":
        (root / "vllm" / "__init__.py").chmod(0o640)
    if private == "a folder":
        (root / "vllm").chmod(0o711)
    old = os.umask(0o022)
    try:
        with opening(str(root)) as tree:
            modes = {stat.S_IMODE(tree.folder.stat().st_mode)}
            assert tree.is_private == (private != "nothing")
            checkout = tmp_path / "out" / "checkout"
            checkout.parent.mkdir()
            with CheckoutTransaction(checkout, tree, Silent()) as workplace:
                staging, _ = workplace.repository()
                modes.add(stat.S_IMODE(staging.stat().st_mode))
    finally:
        os.umask(old)
    assert modes == {0o755 if private == "nothing" else 0o700}
