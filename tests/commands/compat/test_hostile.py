"""Targets that nobody can read end with a clear word, and take no other file along."""

from __future__ import annotations

import pytest

from tests.commands.compat.plugins import VLLM, write_plugin
from tests.projects import archive
from vpatch.commands.compat import target
from vpatch.commands.compat.code.read import LARGEST, read_outline

UNREADABLE = {
    "deep": (b"x = " + b"(" * 3000 + b")" * 3000 + b"\n", "not Python"),
    "deep chain": (b"x = a" + b".b" * 100_000 + b"\n", "nested too deeply"),
    "deep sum": (b"x = " + b"-" * 50_000 + b"1\n", "nested too deeply"),
    "newer": (b"match = 1\ntype X[T = int] = list[T]\nlazy import vllm\n", "not Python"),
    "binary": (b"\x00\xff\xfe\n", "no"),
    "encoding": (b"# -*- coding: nowhere -*-\n", "no"),
}


@pytest.fixture
def releases(project):
    project.index.add("0.50.0", archive("0.50.0", VLLM))
    return project


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_file_that_cannot_be_read_is_named(releases, name):
    text, word = UNREADABLE[name]
    plugin = write_plugin(releases.folder, {"my_plugin/strange.py": text})
    document = releases.run("compat", plugin, "--vllm", "0.50.0", "--json").json
    assert list(document["unread"]) == ["my_plugin/strange.py"]
    assert word in document["unread"]["my_plugin/strange.py"]
    # The others are read.
    assert any(one["name"] == "vllm.core.Runner" for one in document["items"])


def test_a_file_that_is_too_large_is_named(releases):
    plugin = write_plugin(releases.folder, {"my_plugin/large.py": b"#" * (LARGEST + 1)})
    document = releases.run("compat", plugin, "--vllm", "0.50.0", "--json").json
    assert document["unread"]["my_plugin/large.py"] == "is larger than 8 MB"


def test_links_are_not_followed(releases, tmp_path):
    secret = tmp_path / "secret.py"
    secret.write_text("from vllm.core import Secret\n")
    plugin = write_plugin(releases.folder)
    (plugin / "my_plugin" / "link.py").symlink_to(secret)
    (plugin / "my_plugin" / "around").symlink_to(plugin)
    document = releases.run("compat", plugin, "--vllm", "0.50.0", "--json").json
    assert document["links"] == ["my_plugin/around", "my_plugin/link.py"]
    assert not any("Secret" in one["name"] for one in document["items"])


def test_a_module_of_vllm_that_cannot_be_read_makes_its_names_unknown(releases):
    files = VLLM | {"vllm/utils.py": UNREADABLE["newer"][0]}
    releases.index.add("0.51.0", archive("0.51.0", files))
    document = releases.run(
        "compat", write_plugin(releases.folder), "--vllm", "0.51.0", "--json"
    ).json
    item = next(one for one in document["items"] if one["name"] == "vllm.utils.close")
    assert item["verdicts"]["0.51.0"]["state"] == "unknown"


def test_nothing_of_a_target_runs(releases):
    text = b"import pathlib\npathlib.Path('ran').touch()\nraise SystemExit\n"
    plugin = write_plugin(releases.folder, {"my_plugin/act.py": text, "setup.py": text})
    releases.run("compat", plugin, "--vllm", "0.50.0")
    assert not list(releases.folder.rglob("ran"))


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda folder: folder / "nowhere", "compat.wrong-target"),
        (lambda folder: folder, "compat.no-python"),
    ],
)
def test_what_is_no_target_is_refused(releases, tmp_path, make, code):
    empty = tmp_path / "empty"
    empty.mkdir()
    run = releases.run("compat", make(empty), "--vllm", "0.50.0", "--json", code=2)
    assert run.json_errors[0]["code"] == code


def test_a_folder_of_too_many_files_is_refused(releases, monkeypatch):
    monkeypatch.setattr(target, "MOST_FILES", 1)
    plugin = write_plugin(releases.folder, {"my_plugin/more.py": b""})
    run = releases.run("compat", plugin, "--vllm", "0.50.0", "--json", code=2)
    assert run.json_errors[0]["code"] == "compat.too-many-files"


def test_classes_that_inherit_in_a_circle_end():
    outline = read_outline(b"class A(B):\n    pass\n\n\nclass B(A):\n    pass\n")
    assert set(outline.names) == {"A", "B"}
