from __future__ import annotations

import gzip
import hashlib
import tarfile
import time

import pytest

from tests.helpers import fails
from tests.index_server import FILES, archive_of, member, sdist
from vpatch.progress import Silent
from vpatch.source import archive
from vpatch.source.archive import read_archive

GOOD = member("t/a", b"1")


def read(tmp_path, data):
    path = tmp_path / "x.tar.gz"
    path.write_bytes(data)
    return list(read_archive(path, "vllm-0.23.0.tar.gz", Silent()))


def test_files_and_modes(tmp_path):
    found = {file.path: file for file in read(tmp_path, sdist())}
    assert {path: file.data for path, file in found.items()} == FILES
    assert found["tools/run.sh"].mode == 0o100755
    assert found["vllm/__init__.py"].mode == 0o100644


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (member("/etc/passwd", b"x"), "absolute"),
        (member("../evil", b"x"), "'..'"),
        (member("t/../../evil", b"x"), "'..'"),
        (member("t/l", type=tarfile.SYMTYPE, linkname="/etc"), "link"),
        (member("t/l", type=tarfile.LNKTYPE, linkname="t/a"), "link"),
        (member("t/d", type=tarfile.CHRTYPE), "neither a file nor a folder"),
        (member("t/p", type=tarfile.FIFOTYPE), "neither a file nor a folder"),
        (member("other/a", b"x"), "top folder"),
        (member("t", b"x"), "top folder"),
        (member("t/a", b"2"), "twice"),
        (member("t/./a", b"2"), "twice"),
        (member("t/a/b", b"2"), "below a file"),
        (member("t/.git/hooks/post-checkout", b"x"), "repository"),
        (member("t/.GIT/config", b"x"), "repository"),
        (member("t/a\nb", b"x"), "control"),
        (member("t/a\x9bb", b"x"), "control"),
        (member("t/a\u202eb", b"x"), "control"),
        (member("t/git~1/config", b"x"), "git refuses"),
        (member("t/.g\u200cit/config", b"x"), "git refuses"),
        (member("t/" + "d/" * 2000 + "a", b"x"), "too deep"),
        (member("t/" + "d" * 256, b"x"), "too long"),
    ],
)
def test_refused_members(tmp_path, bad, reason):
    with fails("source.unsafe-archive", reason) as caught:
        read(tmp_path, archive_of([GOOD, bad]))
    assert repr(bad[0].name) in str(caught.value)


def test_a_folder_in_place_of_a_file(tmp_path):
    folder = member("t/a", type=tarfile.DIRTYPE)
    with fails("source.unsafe-archive", "twice"):
        read(tmp_path, archive_of([GOOD, folder]))


@pytest.mark.parametrize("keep", [0, 5, 60, -20, -6, -1])
def test_cut_off_gzip(tmp_path, keep):
    with fails("source.damaged-archive"):
        read(tmp_path, sdist()[:keep])


def test_flipped_bits(tmp_path):
    data = bytearray(sdist())
    for place in (len(data) // 2, len(data) - 6):
        broken = bytes(data[:place]) + bytes([data[place] ^ 0xFF]) + bytes(data[place + 1 :])
        with fails("source.damaged-archive"):
            read(tmp_path, broken)


def test_cut_off_tar_in_a_sound_gzip(tmp_path):
    inner = gzip.decompress(archive_of([member("t/a", b"x" * 5000)]))
    with fails("source.damaged-archive"):
        read(tmp_path, gzip.compress(inner[:3000]))


def test_no_files(tmp_path):
    with fails("source.damaged-archive", "no files"):
        read(tmp_path, archive_of([member("t", type=tarfile.DIRTYPE)]))


def test_a_sound_digest_does_not_save_a_cut_gzip(index, opening, tmp_path):
    cut = sdist()[:-30]
    index.add("0.23.0", cut)
    with fails("source.damaged-archive", r"vllm-0\.23\.0\.tar\.gz: the archive is damaged"):
        opening(expected_digest="sha256:" + hashlib.sha256(cut).hexdigest())
    assert not list((tmp_path / "cache/staging").iterdir())


def test_five_thousand_files_are_quick(tmp_path):
    files = {f"vllm/d{n % 100}/f{n}.py": b"x = 1\n" * 50 for n in range(5000)}
    data = sdist(files=files)
    start = time.process_time()
    assert len(read(tmp_path, data)) == 5000
    assert time.process_time() - start < 3


def announced(name, size, kind=tarfile.REGTYPE):
    """A tar that announces a member of some size, and ends there."""
    info = tarfile.TarInfo(name)
    info.size, info.type = size, kind
    return gzip.compress(GOOD_BYTES + info.tobuf(tarfile.GNU_FORMAT) + b"\0" * 4096)


GOOD_BYTES = gzip.decompress(archive_of([GOOD])).rstrip(b"\0").ljust(1024, b"\0")


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (tarfile.REGTYPE, "it has 10000000000 bytes"),
        (tarfile.XHDTYPE, "a header of it has 10000000000 bytes"),
        (tarfile.XGLTYPE, "a header of it has 10000000000 bytes"),
        (tarfile.GNUTYPE_LONGNAME, "a header of it has 10000000000 bytes"),
        (tarfile.GNUTYPE_LONGLINK, "a header of it has 10000000000 bytes"),
    ],
)
def test_what_announces_too_much_is_not_read(tmp_path, kind, reason):
    with fails("source.unsafe-archive", reason):
        read(tmp_path, announced("t/large", 10**10, kind))


def test_little_that_unpacks_to_much(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "_LARGEST", 10_000_000)
    zeros = [member(f"t/{number}", b"\0" * 3_000_000) for number in range(4)]
    with fails("source.unsafe-archive", "unpacks to more than 10000000 bytes"):
        read(tmp_path, archive_of(zeros))
    # Behind the end of the tar, too.
    data = gzip.compress(gzip.decompress(archive_of([GOOD])) + b"\0" * 11_000_000)
    with fails("source.unsafe-archive", "unpacks to more than 10000000 bytes"):
        read(tmp_path, data)


def test_too_many_files(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "_MOST_FILES", 3)
    with fails("source.unsafe-archive", "more than 3 of them"):
        read(tmp_path, archive_of([member(f"t/{number}", b"") for number in range(4)]))
