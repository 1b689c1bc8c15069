"""Large files of jobs, through storage that the nodes and the driver share."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import fsspec
import pytest

from vpatch.cluster.errors import ClusterError
from vpatch.cluster.storage import STORED, STORED_BYTES, Storage
from vpatch.errors import UsageError
from vpatch.runs.cluster_options import RunOptions
from vpatch.util.digest import digest_of

LARGE = b"x" * STORED_BYTES
KEPT = {"result.json"}


def written(folder, files):
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def left(folder):
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*.*")}


@pytest.fixture(params=["folder", "memory"], name="storage")
def fixture_storage(request, tmp_path):
    """A folder, and another kind of storage that fsspec knows by its URL."""
    base = tmp_path / "shared" if request.param == "folder" else "memory://bucket/shared"
    storage = Storage.of_a_run(str(base))
    yield storage
    storage.remove()


def test_large_files_go_through_the_storage_and_come_back_whole(storage, tmp_path):
    files = {"result.json": b"{}", "log.txt": LARGE, "a/b.json": b"1"}
    out = written(tmp_path / "out", files)
    storage.leave(out, "attempt", KEPT)
    through_ray = left(out)
    assert through_ray.keys() == {"result.json", STORED}
    assert sum(map(len, through_ray.values())) < 1000
    # The driver opens the same folder by the URL that the node was given.
    assert Storage(storage.url).take(through_ray) == files


def test_small_files_do_not(storage, tmp_path):
    files = {"result.json": b"{}", "log.txt": LARGE[:1000]}
    out = written(tmp_path / "out", files)
    storage.leave(out, "attempt", KEPT)
    assert left(out) == files
    assert storage.take(files) == files


@pytest.mark.parametrize(
    "stored",
    [
        b"[]",
        b"{",
        b"[" * 100_000,
        b'{"a": 1}',
        b'{"a": {"place": 1, "digest": "x"}}',
        b'{"../a": {"place": "a", "digest": "x"}}',
        b'{"a": {"place": "../../etc/passwd", "digest": "x"}}',
        b'{"a": {"digest": "x"}}',
    ],
)
def test_what_no_job_says_of_its_files(storage, stored):
    with pytest.raises(ClusterError, match="what a node says of its files is not understood"):
        storage.take({STORED: stored})


def test_a_file_that_is_too_large(storage, monkeypatch):
    storage.write("log.txt", b"x" * 11)
    monkeypatch.setattr("vpatch.cluster.storage._LARGEST", 10)
    with pytest.raises(ClusterError, match=r"does not give log\.txt: it is larger than 0 MB"):
        storage.read("log.txt")


def test_the_files_of_a_job_are_limited_together(storage, monkeypatch):
    storage.write("a", b"x" * 6)
    entry = {"place": "a", "digest": digest_of(b"x" * 6)}
    monkeypatch.setattr("vpatch.cluster.storage._LARGEST", 10)
    with pytest.raises(ClusterError, match="does not give a: it is larger"):
        storage.take({STORED: json.dumps({"a": entry, "b": entry}).encode()})
    monkeypatch.setattr("vpatch.cluster.storage._MOST_FILES", 1)
    with pytest.raises(ClusterError, match="there are more than 1"):
        storage.take({STORED: json.dumps({"a": entry, "b": entry}).encode()})


def test_what_others_put_into_a_shared_folder(tmp_path):
    """A pipe would never end, and a link leads elsewhere."""
    storage = Storage.of_a_run(str(tmp_path))
    storage.write("real", b"1")
    root = Path(storage.url)
    os.mkfifo(root / "pipe")
    (root / "link").symlink_to(root / "real")
    (root / "endless").symlink_to("/dev/zero")
    for name in ("pipe", "link", "endless"):
        with pytest.raises(ClusterError, match="it is not a regular file"):
            storage.read(name)


def test_a_storage_that_never_answers(storage, monkeypatch):
    end = threading.Event()
    monkeypatch.setattr("vpatch.cluster.storage._LONGEST", 0.01)
    monkeypatch.setattr(storage._system, "info", lambda _path: end.wait())
    with pytest.raises(ClusterError, match=r"did not answer within 0\.01 s"):
        storage.read("log")
    end.set()


def test_what_is_not_whole_does_not_count(storage, tmp_path):
    out = written(tmp_path / "out", {"result.json": b"{}", "log.txt": LARGE})
    storage.leave(out, "attempt", KEPT)
    came = left(out)
    place = json.loads(came[STORED])["log.txt"]["place"]
    storage.write(place, LARGE[:-1])
    with pytest.raises(ClusterError) as error:
        storage.take(came)
    assert error.value.code == "cluster.storage-failed"
    assert "log.txt in the storage is not what the node wrote" in error.value.what


def test_nothing_of_a_run_stays(tmp_path):
    (tmp_path / "of-others").mkdir()
    storage, other = (Storage.of_a_run(str(tmp_path)) for _ in range(2))
    for one in (storage, other):
        one.write("attempt/0", b"1")
    storage.remove()
    storage.remove()
    assert other.read("attempt/0") == b"1"
    other.remove()
    assert [path.name for path in tmp_path.iterdir()] == ["of-others"]


def test_a_node_that_shares_the_storage_answers(storage):
    storage.probe()
    name = Storage(storage.url).answer_probe()
    assert storage.read(name) == b""


def test_a_folder_that_is_not_shared(tmp_path):
    storage = Storage.of_a_run(str(tmp_path))
    with pytest.raises(ClusterError) as error:
        storage.answer_probe()
    assert error.value.code == "cluster.storage-failed"
    assert error.value.what.startswith("the storage does not give probe: ")
    assert str(tmp_path) in str(error.value)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("nothing://bucket", "Protocol not known: nothing"),
        ("s3://bucket", "s3fs"),
        ("reference://x", "missing 1 required positional argument"),
    ],
)
def test_a_kind_of_storage_that_is_not_there(monkeypatch, url, said):
    def missing(_url):
        if "s3" in _url:
            raise ImportError("Install s3fs to access S3")
        return known(_url)

    known = fsspec.core.url_to_fs
    monkeypatch.setattr(fsspec.core, "url_to_fs", missing)
    with pytest.raises(ClusterError) as error:
        Storage.of_a_run(url)
    assert error.value.code == "cluster.storage-failed"
    assert said in error.value.what


def test_a_storage_that_takes_nothing(tmp_path):
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(ClusterError) as error:
        Storage.of_a_run(str(tmp_path / "file")).probe()
    assert "the storage does not take files: " in error.value.what


def test_a_relative_folder_is_that_of_the_driver(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert Storage.of_a_run("shared").url.startswith(f"{tmp_path}/shared/vpatch-")


@pytest.mark.parametrize(
    ("url", "refused"),
    [
        ("sftp://user:word@host/path", True),
        ("sftp://user@host/path", False),
        ("https://word@host/path", True),
        ("https://host/path?sig=word", True),
        ("abfs://container@account.example/path#word", True),
        # A chain hides a password, reads through an archive, or keeps copies on one machine.
        ("simplecache::s3://key:word@bucket/path", True),
        ("zip://x::file:///shared/a.zip", True),
        ("/shared/a::b", True),
        ("http://[fd00", True),
        ("abfs://container@account.example/path", False),
        ("s3://bucket/path", False),
        ("/shared", False),
    ],
)
def test_a_password_never_travels(url, refused):
    options = RunOptions(on="head:1", storage=url)
    if not refused:
        assert options.where().storage == url
        return
    with pytest.raises(UsageError) as error:
        options.where()
    assert error.value.code == "cluster.bad-storage"
    assert "word@" not in str(error.value)
    assert "=word" not in str(error.value)
    assert "#word" not in str(error.value)


def test_it_needs_a_cluster():
    with pytest.raises(UsageError) as error:
        RunOptions(storage="/shared").where()
    assert error.value.what == "--storage would have no effect without --cluster"


@pytest.fixture(name="bucket")
def fixture_bucket(monkeypatch):
    """A server that speaks S3: `pip install s3fs 'moto[server]'`."""
    pytest.importorskip("s3fs")
    moto = pytest.importorskip("moto.server")
    boto3 = pytest.importorskip("boto3")
    server = moto.ThreadedMotoServer(port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "nobody")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    client = boto3.client("s3")
    client.create_bucket(Bucket="bucket")
    yield lambda: [
        one["Key"] for one in client.list_objects_v2(Bucket="bucket").get("Contents", [])
    ]
    server.stop()


def test_s3(bucket, tmp_path):
    storage = Storage.of_a_run("s3://bucket/runs")
    storage.probe()
    assert storage.read(Storage(storage.url).answer_probe()) == b""
    files = {"result.json": b"{}", "log.txt": LARGE}
    out = written(tmp_path / "out", files)
    storage.leave(out, "attempt", KEPT)
    assert len(bucket()) == 3
    assert storage.take(left(out)) == files
    storage.remove()
    assert bucket() == []
    with pytest.raises(ClusterError) as error:
        Storage.of_a_run("s3://no-such-bucket/runs").probe()
    assert "The specified bucket does not exist" in error.value.what
