"""Members of a wheel that are copied without unpacking, and those that are refused."""

from __future__ import annotations

import io
import struct
import zipfile

import pytest

from tests.commands.install import official
from tests.helpers import fails
from vpatch.commands.install.wheels.writer import WheelWriter
from vpatch.source.wheel.archive import WheelArchive


def archive_of(path, *members):
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members:
            archive.writestr(zipfile.ZipInfo(name), data)
    return path


def copied(source, target):
    """Copy every member, and return the digest of what was written."""
    with WheelArchive(source) as archive:
        writer = WheelWriter(target)
        try:
            for name, member in archive.members.items():
                writer.copy(archive, member, name)
            return writer.finish()
        finally:
            writer.discard()


def test_members_are_read_and_have_digests(tmp_path):
    path = official.write(tmp_path)
    expected = official.members(path)
    with WheelArchive(path) as archive:
        assert {name: archive.read(name) for name in archive.members} == expected
        for name, data in expected.items():
            assert "sha256=" + archive_digest(archive, name) == official.digest(data)


def archive_digest(archive, name):
    import base64

    digest = bytes.fromhex(archive.sha256_of(name))
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def test_members_are_copied_as_they_lie_there(tmp_path):
    path = official.write(tmp_path)
    copied(path, tmp_path / "copy.whl")
    assert official.members(tmp_path / "copy.whl") == official.members(path)
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(tmp_path / "copy.whl") as new:
        for before, after in zip(old.infolist(), new.infolist(), strict=True):
            for fact in ("compress_size", "CRC", "date_time", "external_attr", "compress_type"):
                assert getattr(before, fact) == getattr(after, fact)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["copy.whl", path.name]


class _Stream(io.RawIOBase):
    """A pipe: zipfile cannot go back in it, so sizes follow the bytes of a member."""

    def __init__(self, path):
        self.file = path.open("wb")

    def writable(self):
        return True

    def write(self, data):
        return self.file.write(data)

    def close(self):
        self.file.close()
        super().close()


def test_sizes_that_follow_the_bytes_are_put_into_the_header(tmp_path):
    with _Stream(tmp_path / "a.whl") as stream, zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("a.txt", b"one" * 100, zipfile.ZIP_DEFLATED)
        archive.writestr("b.txt", b"two")
    with zipfile.ZipFile(tmp_path / "a.whl") as archive:
        assert all(info.flag_bits & 8 for info in archive.infolist())
    copied(tmp_path / "a.whl", tmp_path / "b.whl")
    assert official.members(tmp_path / "b.whl") == {"a.txt": b"one" * 100, "b.txt": b"two"}
    with zipfile.ZipFile(tmp_path / "b.whl") as archive:
        assert not any(info.flag_bits & 8 for info in archive.infolist())


def test_a_member_with_the_header_of_a_large_one(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.whl", "w") as archive:
        with archive.open("large.so", "w", force_zip64=True) as member:
            member.write(b"compiled")
        archive.writestr("b.txt", b"two")
    copied(tmp_path / "a.whl", tmp_path / "b.whl")
    assert official.members(tmp_path / "b.whl") == {"large.so": b"compiled", "b.txt": b"two"}


def test_extra_fields_and_comments_of_members_go(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.whl", "w") as archive:
        info = zipfile.ZipInfo("a.txt")
        # A time as unzip writes it: of another length in the two headers of a member.
        info.extra = b"UT\x05\x00\x01" + bytes(4)
        info.comment = b"a comment"
        archive.writestr(info, b"one")
    copied(tmp_path / "a.whl", tmp_path / "b.whl")
    with zipfile.ZipFile(tmp_path / "b.whl") as archive:
        (found,) = archive.infolist()
        assert (found.extra, found.comment, archive.read(found)) == (b"", b"", b"one")


def test_large_members_and_far_ones_get_long_fields(tmp_path, monkeypatch):
    path = official.write(tmp_path)
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 400)
    copied(path, tmp_path / "copy.whl")
    monkeypatch.undo()
    text = (tmp_path / "copy.whl").read_bytes()
    assert b"PK\x06\x06" in text  # the end of a zip64 directory
    assert official.members(tmp_path / "copy.whl") == official.members(path)


@pytest.mark.parametrize(
    "name", ["../evil.py", "/etc/evil", "vllm/../../evil.py", "vllm//a.py", "a\\b.py", "a\nb.py"]
)
def test_a_path_that_leaves_the_tree_is_refused(name, tmp_path):
    path = archive_of(tmp_path / "a.whl", (name, b"1"))
    with fails("wheel.unsafe", match="member"):
        WheelArchive(path)


def test_a_name_that_is_there_twice_is_refused(tmp_path):
    path = archive_of(tmp_path / "a.whl", ("vllm/a.py", b"1"), ("vllm/b.py", b"2"))
    path.write_bytes(path.read_bytes().replace(b"vllm/b.py", b"vllm/a.py"))
    with fails("wheel.unsafe", match="twice"):
        WheelArchive(path)


def test_a_file_below_a_file_is_refused(tmp_path):
    path = archive_of(tmp_path / "a.whl", ("vllm/a", b"1"), ("vllm/a/b", b"2"))
    with fails("wheel.unsafe", match="below a file"):
        WheelArchive(path)


def test_a_header_with_another_name_is_refused(tmp_path):
    path = archive_of(tmp_path / "a.whl", ("vllm/a.py", b"1"))
    path.write_bytes(path.read_bytes().replace(b"vllm/a.py", b"vllm/b.py", 1))
    with fails("wheel.unsafe", match="another name"):
        WheelArchive(path)


def test_members_that_share_bytes_are_refused(tmp_path):
    inner = archive_of(tmp_path / "inner", ("vllm/b.py", b"2")).read_bytes()
    inner = inner[: inner.index(b"PK\x01\x02")]
    path = archive_of(tmp_path / "a.whl", ("vllm/a.py", inner), ("vllm/b.py", b"2"))
    text = bytearray(path.read_bytes())
    # The second one is said to begin within the first one.
    struct.pack_into("<L", text, text.rindex(b"PK\x01\x02") + 42, text.index(inner))
    path.write_bytes(bytes(text))
    with fails("wheel.unsafe", match="belong to another member"):
        WheelArchive(path)


def test_an_encrypted_member_is_refused(tmp_path):
    path = archive_of(tmp_path / "a.whl", ("vllm/a.py", b"1"))
    text = bytearray(path.read_bytes())
    text[text.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(bytes(text))
    with fails("wheel.unsafe", match="encrypted"):
        WheelArchive(path)


def test_another_compression_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.whl", "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("vllm/a.py", b"1")
    with fails("wheel.unsafe", match="compressed"):
        WheelArchive(tmp_path / "a.whl")


@pytest.mark.parametrize("kept", [0, 100, -10])
def test_a_wheel_that_is_cut_off_is_damaged(kept, tmp_path):
    path = official.write(tmp_path)
    path.write_bytes(path.read_bytes()[:kept])
    with fails("wheel.damaged"):
        WheelArchive(path)


def test_bytes_that_were_changed_are_damaged(tmp_path):
    path = official.write(tmp_path)
    with zipfile.ZipFile(path) as archive:
        member = archive.getinfo("vllm/_C.abi3.so")
    with WheelArchive(path) as archive:
        start = archive.members["vllm/_C.abi3.so"].start
    text = bytearray(path.read_bytes())
    text[start + member.compress_size // 2] ^= 255
    path.write_bytes(bytes(text))
    with WheelArchive(path) as archive, fails("wheel.damaged", match="_C.abi3.so"):
        archive.sha256_of("vllm/_C.abi3.so")
