"""An image that nobody built by vpatch, as a source: layers are read, and nothing of it runs."""

from __future__ import annotations

import io
import tarfile
import uuid
from contextlib import contextmanager

import pytest

from tests.commands.install import official
from tests.projects import ENGINE, FILES, VERSION

LOCAL = f"{VERSION}+amzn2023"
SITE = "opt/venv/lib/python3.12/site-packages"
PATH = "ENV PATH=/opt/venv/bin:/usr/local/bin:/usr/bin"


def installed(version=LOCAL):
    """What an installer leaves of the small wheel, by paths in an image."""
    content, _ = official.contents(version=version)
    content["vllm/_version.py"] = f"__version__ = version = '{version}'\n".encode()
    return {f"{SITE}/{path}": data for path, data in content.items()}


def packed(files, entries=()):
    """A file system of an image; `entries` are further members of the archive."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for path, data in files.items():
            entry = tarfile.TarInfo(path)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
        for entry in entries:
            archive.addfile(entry)
    return content.getvalue()


def member(path, kind, target=""):
    entry = tarfile.TarInfo(f"{SITE}/{path}")
    entry.type, entry.linkname = kind, target
    return entry


@pytest.fixture
def image(docker):
    """Make an image of a file system, and forget it after the test."""

    @contextmanager
    def made(files, entries=()):
        name = f"vpatch-test-source:{uuid.uuid4().hex[:8]}"
        repository, tag = name.split(":")
        docker.api.import_image_from_data(
            packed(files, entries), repository=repository, tag=tag, changes=[PATH]
        )
        try:
            yield name
        finally:
            docker.forget(name)

    return made


def status(project, name, code=0):
    return project.run("status", "--vllm", f"image:{name}", "--json", code=code)


def test_the_states_of_an_image_are_those_of_its_files(project, image, docker):
    with image(installed()) as name:
        (tree,) = status(project, name).json["trees"]
        assert (tree["kind"], tree["version"], tree["origin"]) == ("image", LOCAL, name)
        assert tree["digest"] == docker.id(name)
        states = {one["patch"]: one["state"] for one in tree["decisions"]}
        assert states == {"name-proj": "needed", "slow-mode": "needed"}
        project.run("apply", "--vllm", f"image:{name}")
        folder = project.folder / ".vpatch" / f"vllm-{LOCAL}"
        assert b"slow" in (folder / ENGINE).read_bytes()
        assert not (folder / "vllm" / "_C.abi3.so").exists()
        project.run("check", "--checkout", folder)
        run = project.run("audit", "--vllm", f"image:{name}", code=None)
        assert f"vllm {LOCAL} (image {name})" in run.out


def test_another_image_than_the_lock_says(project, image, docker):
    with image(installed()) as name:
        project.run("apply", "--vllm", f"image:{name}")
        with image({**installed(), f"{SITE}/{ENGINE}": FILES[ENGINE] + b"\n"}) as other:
            docker.api.tag(other, *name.split(":"), force=True)
            run = project.run("check", code=None)
            assert run.code != 0
            assert "was expected" in run.err


@pytest.mark.parametrize(
    ("files", "entries", "named", "code"),
    [
        (
            {},
            [member("vllm/out.py", tarfile.SYMTYPE, "/etc/passwd")],
            "out.py",
            "source.unsafe-path",
        ),
        (
            {},
            [member("vllm/up.py", tarfile.SYMTYPE, "../../../../../../x")],
            "up.py",
            "source.unsafe-path",
        ),
        ({}, [member("vllm/pipe.py", tarfile.FIFOTYPE)], "pipe.py", "docker.unusable-file"),
        ({f"{SITE}/vllm/engine.so": b"x"}, [], "hides vllm/engine.py", "source.hidden-code"),
        ({f"{SITE}/vllm/.git/config": b"x"}, [], ".git", "source.unsafe-path"),
    ],
    ids=["absolute link", "link that leaves", "pipe", "hidden source", "git folder"],
)
def test_a_hostile_image_is_refused_by_name(files, entries, named, code, project, image, tmp_path):
    with image({**installed(), **files}, entries) as name:
        run = status(project, name, code=None)
        assert (run.code, run.codes) == (1, (code,))
        assert named in run.err
    assert not list(project.cache.glob("trees/vllm-image-*"))
    assert not (tmp_path / "x").exists()


def test_a_file_that_a_later_layer_removes_is_not_there(project, docker):
    """The layers below still have it: its name is taken away by a whiteout."""
    name = f"vpatch-test-source:{uuid.uuid4().hex[:8]}"
    dockerfile = f"FROM {docker.base}\nCOPY opt /opt\n{PATH}\nRUN rm /{SITE}/{ENGINE}\n"
    docker.build(name, dockerfile, installed())
    try:
        (tree,) = status(project, name, code=1).json["trees"]
    finally:
        docker.forget(name)
    states = {one["patch"]: one["state"] for one in tree["decisions"]}
    assert states == {"name-proj": "needed", "slow-mode": "conflict"}


@pytest.mark.parametrize(
    "packages",
    [
        "usr/lib64/python3.12/site-packages",
        "usr/lib/python3/dist-packages",
        "usr/local/lib/python3.12/dist-packages",
    ],
)
def test_the_packages_of_other_systems(packages, project, image):
    files = {path.replace(SITE, packages): data for path, data in installed().items()}
    with image(files) as name:
        assert status(project, name).json["trees"][0]["version"] == LOCAL


def test_what_is_no_image_with_vllm(project, image):
    run = status(project, "vpatch-test-source:none", code=2)
    assert run.codes == ("source.no-such-image",)
    assert "docker pull vpatch-test-source:none" in run.err
    with image({f"{SITE}/numpy/__init__.py": b""}) as name:
        assert "no Python on PATH of the image has vllm" in status(project, name, code=2).err
