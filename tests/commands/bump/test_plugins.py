"""vpatch bump: what a new release means for the plugins that a recipe names."""

from __future__ import annotations

import pytest

from tests.projects import FILES, LLAMA, archive

RECIPE = """vllm: 0.50.0
patches: [slow-mode]
plugins: [extension, other/module.py]
"""
PLUGIN = """from vllm.models.llama import Llama

class Mine(Llama):
    def forward(self, hidden):
        return self.head(hidden)
"""
MODULE = "import vllm.models.llama\n"


@pytest.fixture
def bumped(project):
    """A project with a recipe on 0.50.0; in 0.51.0, an attribute that a plugin reads is gone."""
    old = FILES[LLAMA]
    assert b"self.head = " in old
    later = old.replace(b"self.head", b"self.output")
    project.index.add("0.51.0", archive("0.51.0", {LLAMA: later}))
    for name, text in (
        ("recipes/small.yaml", RECIPE),
        ("extension/__init__.py", PLUGIN),
        ("other/module.py", MODULE),
    ):
        path = project.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return project


GONE = "gone  field extension.Mine.head, extension/__init__.py:5: Mine has no head"


def test_a_name_that_the_new_release_breaks_is_shown_with_the_next_command(bumped):
    text = bumped.run("bump", "small", "--to", "0.51", code=1).out
    assert (
        "  extension: 1 name breaks in 0.51.0 and not in 0.50.0\n"
        f"    {GONE}\n"
        "    next: vpatch compat extension --from 0.50.0 --to 0.51.0\n"
        "  other/module.py: no name breaks in 0.51.0 and not in 0.50.0\n"
    ) in text
    command = bumped.run("compat", "extension", "--from", "0.50.0", "--to", "0.51.0")
    assert "extension.Mine.head" in command.out


def test_the_plugins_of_a_project_are_read_from_any_folder(bumped):
    below = bumped.folder / "below"
    below.mkdir()
    args = ("bump", "small", "--to", "0.51", "--json")
    (recipe,) = bumped.run(*args, code=1, cwd=below).json["recipes"]
    first, second = recipe["plugins"]
    assert (first["target"], first["broken_before"], second["breaks"]) == ("extension", 0, [])
    assert first["breaks"] == [
        {
            "kind": "field",
            "name": "extension.Mine.head",
            "path": "extension/__init__.py",
            "line": 5,
            "state": "gone",
            "why": "Mine has no head",
            "where": "",
            "moved": "",
        }
    ]


@pytest.mark.parametrize("form", ["md", "html"])
def test_a_report_has_them_too(bumped, tmp_path, form):
    file = tmp_path / f"report.{form}"
    bumped.run("bump", "small", "--to", "0.51", "--output", file, code=1)
    text = file.read_text()
    assert "1 name breaks in 0.51.0 and not in 0.50.0" in text
    assert "extension/\\_\\_init\\_\\_.py:5" in text or "extension/__init__.py:5" in text
    assert "o name breaks in 0.51.0" in text


def test_a_step_that_breaks_only_a_plugin_has_findings(bumped):
    (bumped.folder / "extension/__init__.py").write_text(MODULE)
    bumped.run("bump", "small", "--to", "0.51", code=0)


def test_what_the_old_release_breaks_already_is_only_counted(bumped):
    text = "from vllm.models.llama import Missing\n"
    (bumped.folder / "other/module.py").write_text(text)
    (recipe,) = bumped.run("bump", "small", "--to", "0.51", "--json", code=1).json["recipes"]
    assert recipe["plugins"][1]["broken_before"] == 1
    assert recipe["plugins"][1]["breaks"] == []
    text = bumped.run("bump", "small", "--to", "0.51", code=1).out
    assert "broken in 0.50.0 already: 1" in " ".join(text.split())


def test_a_plugin_that_is_not_there_is_an_error(bumped):
    (bumped.folder / "other/module.py").unlink()
    result = bumped.run("bump", "small", "--to", "0.51", code=2)
    assert "other/module.py: this is not a folder, a wheel, a Python file" in result.err


def test_a_recipe_cannot_name_a_python_to_run(bumped):
    recipe = bumped.folder / "recipes/small.yaml"
    recipe.write_text(RECIPE.replace("extension", "extension=env:python3"))
    result = bumped.run("bump", "small", "--to", "0.51", code=2)
    assert "name a folder, a wheel, a Python file or NAME==VERSION, and no env:" in result.err
