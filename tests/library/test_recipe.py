"""What of a recipe selects is kept by the recipe's bytes, and nothing else is taken for it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.helpers import fails
from vpatch.declare import yamlfile
from vpatch.declare.errors import DeclarationError
from vpatch.library import recipe
from vpatch.library.recipe import RecipePin, Recipes, RecipeSelection, UnsettledPatches

SHA = "ab" * 32
TEXT = (
    f"vllm: {{source: 0.23.0, sha256: {SHA}}}\ntrees: {{vllm-x: ./x}}\npatches: [b, a]\n"
    "strict: true\nsecurity: all\nwhy: It is a recipe.\n"
    "unsettled: {release: 0.23.0, patches: [a]}\n"
)
SELECTION = RecipeSelection(
    RecipePin("0.23.0", SHA),
    {"vllm-x": RecipePin("./x", None)},
    ("b", "a"),
    strict=True,
    security="all",
    unsettled=UnsettledPatches("0.23.0", ("a",)),
)


@pytest.fixture
def file(tmp_path):
    (tmp_path / "r.yaml").write_text(TEXT)
    return tmp_path / "r.yaml"


@pytest.fixture
def selection(tmp_path, file):
    return lambda: Recipes(tmp_path / "kept").selection(file)


@pytest.fixture
def parsed(monkeypatch):
    """The files that were parsed."""
    calls = []
    read_yaml = yamlfile.read_yaml

    def counting(path, model):
        calls.append(path)
        return read_yaml(path, model)

    monkeypatch.setattr(yamlfile, "read_yaml", counting)
    return calls


def test_what_is_kept_is_what_was_read(selection, parsed):
    assert [selection(), selection()] == [SELECTION, SELECTION]
    assert len(parsed) == 1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("[b, a]", "[a]"),
        ("strict: true", "strict: false"),
        (SHA, "cd" * 32),
        ("0.23.0", "0.24.0"),
        ("./x", "./y"),
        ("It is", "It was"),
    ],
)
def test_an_edit_is_read(file, selection, parsed, old, new):
    selection()
    before = file.stat()
    file.write_text(TEXT.replace(old, new))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    edited = selection()
    assert edited == Recipes(None).selection(file)
    assert (edited == SELECTION) == (old == "It is")
    assert len(parsed) == 3


def test_what_is_wrong_is_not_kept(file, selection):
    file.write_text(TEXT.replace("why:", "wy:"))
    for _ in range(2):
        with pytest.raises(DeclarationError, match="unknown key"):
            selection()
    file.unlink()
    with fails("declare.unreadable"):
        selection()


def test_other_code_reads_again(selection, parsed, monkeypatch):
    selection()
    monkeypatch.setattr(recipe, "code_digest", lambda: "other")
    assert selection() == SELECTION
    assert len(parsed) == 2


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text.replace('"a"', '"c"'),
        lambda text: text[:-9],
        lambda text: text[5:],
        lambda _: "",
    ],
)
def test_what_is_damaged_is_read_again(tmp_path, selection, parsed, damage):
    selection()
    (kept,) = (tmp_path / "kept").iterdir()
    text = kept.read_text()
    kept.write_text(damage(text))
    assert selection() == SELECTION
    assert len(parsed) == 2
    assert kept.read_text() == text


def test_what_changes_before_the_rest_is_read_is_refused(tmp_path, file, selection):
    selection()
    recipes = Recipes(tmp_path / "kept")
    recipes.selection(file)
    file.write_text(TEXT.replace("b, a", "a"))
    with fails("trust.changed-while-read"):
        recipes.read(file)


def test_what_was_read_is_selected_from(tmp_path, file, selection):
    """Both are about the same bytes, whichever is asked for first."""
    other = TEXT.replace("b, a", "a")
    file.write_text(other)
    assert selection().patches == ("a",)
    file.write_text(TEXT)
    recipes = Recipes(tmp_path / "kept")
    recipes.read(file)
    file.write_text(other)
    assert recipes.selection(file) == SELECTION


def test_a_folder_that_cannot_be_written(tmp_path, selection, parsed):
    (tmp_path / "kept").write_text("a file is in the way")
    assert [selection(), selection()] == [SELECTION, SELECTION]
    assert len(parsed) == 2


def test_what_is_kept_needs_no_parser(tmp_path, file, selection):
    selection()
    code = """
import sys
from pathlib import Path
from vpatch.library.recipe import Recipes
print(Recipes(Path(sys.argv[1])).selection(Path(sys.argv[2])).patches)
print({"libcst", "pydantic", "ruamel.yaml"} & sys.modules.keys())
"""
    command = [sys.executable, "-c", code, tmp_path / "kept", file]
    run = subprocess.run(command, check=True, capture_output=True, text=True)
    assert run.stdout == "('b', 'a')\nset()\n"
