from __future__ import annotations

import pytest

from tests.helpers import fails
from vpatch.declare.errors import DeclarationError
from vpatch.declare.project_settings import ProjectSettings, read_settings
from vpatch.declare.settings import settings_file


def test_no_settings(tmp_path):
    assert read_settings(tmp_path) == ProjectSettings()
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "x"\n')
    assert read_settings(tmp_path) == ProjectSettings()


def test_settings_of_vpatch_toml(tmp_path):
    (tmp_path / "vpatch.toml").write_text('patches = ["a", "b"]\nrecipes = ["c"]\n')
    assert read_settings(tmp_path) == ProjectSettings(patches=["a", "b"], recipes=["c"])


def test_settings_of_pyproject(tmp_path):
    (tmp_path / "pyproject.toml").write_text('[tool.vpatch]\npatches = ["a"]\n[tool.ruff]\nx = 1\n')
    assert read_settings(tmp_path) == ProjectSettings(patches=["a"])


def test_vpatch_toml_wins(tmp_path):
    (tmp_path / "pyproject.toml").write_text('[tool.vpatch]\npatches = ["a"]\n')
    (tmp_path / "vpatch.toml").write_text("")
    assert read_settings(tmp_path) == ProjectSettings()


LISTS = "vpatch.toml has lists of folders: patches, recipes, targets"
TOML = "correct the file; strings are in quotes, as in patches = ['carried']"


@pytest.mark.parametrize(
    ("file", "table"), [("vpatch.toml", ""), ("pyproject.toml", "tool.vpatch")]
)
@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("patchs = []", "unknown key 'patchs'", "did you mean 'patches'?"),
        ("zzz = 1", "unknown key 'zzz'", "valid keys: patches, recipes, targets"),
        ('patches = "a"', "patches: must be a list, not the string 'a'", LISTS),
        ("patches = [1]", r"patches\.0: must be a string, not the number 1", LISTS),
        ("patches = [", "not TOML: ", TOML),
        ("patches = []\npatches = []", "not TOML: ", TOML),
        (f"patches = {'[' * 3000}{']' * 3000}", "not TOML: nested too deeply", TOML),
        (f"patches = {'9' * 5000}", "not TOML: ", TOML),
        ('patches = ["a\\u0000b"]', "is not a path", LISTS),
        (f'patches = ["{"a" * 5000}"]', "is not a path", LISTS),
    ],
)
def test_settings_that_are_wrong(tmp_path, file, table, text, message, hint):
    head = f"[{table}]\n" if table else ""
    (tmp_path / file).write_text(head + text + "\n")
    with pytest.raises(DeclarationError, match=message) as caught:
        read_settings(tmp_path)
    assert caught.value.where == str(tmp_path / file)
    assert caught.value.hint == hint


def test_a_table_that_is_none(tmp_path):
    (tmp_path / "pyproject.toml").write_text("tool = 3\n")
    assert read_settings(tmp_path) == ProjectSettings()
    (tmp_path / "pyproject.toml").write_text("[tool]\nvpatch = 3\n")
    with fails("declare.wrong-value", "must be a mapping of keys, not the number 3"):
        read_settings(tmp_path)


@pytest.mark.parametrize("data", [b"# \xff\n", b"[[[\n", b"[tool.ruff]\n"])
def test_a_pyproject_that_says_nothing_of_vpatch_is_not_looked_into(tmp_path, data):
    (tmp_path / "pyproject.toml").write_bytes(data)
    assert settings_file(tmp_path) is None
    assert read_settings(tmp_path) == ProjectSettings()


def test_an_empty_table_is_a_project(tmp_path):
    (tmp_path / "pyproject.toml").write_text("[tool.vpatch]\n")
    assert settings_file(tmp_path) == tmp_path / "pyproject.toml"
    assert read_settings(tmp_path) == ProjectSettings()


def test_settings_that_are_no_utf8(tmp_path):
    (tmp_path / "vpatch.toml").write_bytes(b"# \xff\n")
    with fails("declare.wrong-syntax", "not TOML"):
        read_settings(tmp_path)


def test_settings_without_end(tmp_path):
    with (tmp_path / "vpatch.toml").open("wb") as file:
        file.truncate(1 << 40)
    with fails("declare.unreadable", "is larger than"):
        read_settings(tmp_path)
