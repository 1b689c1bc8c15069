from __future__ import annotations

import pytest

from tests.helpers import fails
from vpatch.source.spec import FolderSpec, GitSpec, PypiSpec, parse_tree, parse_vllm
from vpatch.util.urls import redact


@pytest.fixture(autouse=True)
def _folders(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "src" / "v@1").mkdir(parents=True)


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
        "./" + "a/" * 3000,
    ],
)
def test_wrong_vllm(text):
    with fails("source.wrong-spec", "write for instance"):
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
