"""What CONTRIBUTING says of the packages, held to the packages and to import-linter's layers."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from benchmarks.readers import SMOKE_OPTIONS, readers

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "vpatch"
PACKAGES = sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py"))
# These and the packages are all that lies in vpatch.
MODULES = {"__init__", "__main__", "main", "node", "registry", "api", "errors", "progress"}
# The folders of commands.
FEATURES = sorted(path.parent.name for path in PACKAGE.glob("commands/*/__init__.py"))
_CLASS = re.compile(r"^\s*class (\w+)", re.MULTILINE)
MOST_FILES, MOST_LINES, MOST_READERS = 25, 7_000, 12


def importlinter():
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]


def layers():
    """The layers that import-linter holds, from the top; packages of one layer are a set."""
    (contract,) = [c for c in importlinter()["contracts"] if c["type"] == "layers"]
    return [set(layer.split(" | ")) for layer in contract["layers"]]


def test_no_module_lies_loose():
    assert {path.stem for path in PACKAGE.glob("*.py")} == MODULES


def test_the_layers_name_every_package():
    assert set().union(*layers()) == {*PACKAGES, *MODULES} - {"__init__"}


def test_the_map_is_in_the_order_of_the_layers():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    mapped = re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)
    assert sorted(mapped) == PACKAGES
    ranks = {name: rank for rank, layer in enumerate(layers()) for name in layer}
    assert [ranks[name] for name in mapped] == sorted(ranks[name] for name in mapped)


@pytest.mark.parametrize("name", PACKAGES)
def test_a_package_says_what_it_is_and_what_it_may_import(name):
    docstring = ast.get_docstring(ast.parse((PACKAGE / name / "__init__.py").read_text()))
    assert docstring
    assert "may import" in docstring


def test_every_folder_of_commands_is_held_apart():
    contracts = importlinter()["contracts"]
    (contract,) = [one for one in contracts if one["type"] == "independence"]
    assert contract["modules"] == [f"vpatch.commands.{name}" for name in FEATURES]


def test_contributing_says_which_folders_of_commands_import_another():
    contracts = importlinter()["contracts"]
    (contract,) = [one for one in contracts if one["type"] == "independence"]
    allowed = [re.findall(r"commands\.(\w+)", one) for one in contract["ignore_imports"]]
    text = (ROOT / "CONTRIBUTING.md").read_text()
    assert re.findall(r"`(\w+)` -> `(\w+)`", text) == [tuple(pair) for pair in allowed]


@pytest.mark.parametrize("name", FEATURES)
def test_a_folder_of_commands_has_a_command_and_says_what_it_is_for(name):
    folder = PACKAGE / "commands" / name
    assert list(folder.glob("*command.py"))
    docstring = ast.get_docstring(ast.parse((folder / "__init__.py").read_text()))
    assert docstring.startswith(("`vpatch ", "A patched vLLM without an image: `vpatch "))


@pytest.mark.parametrize("name", FEATURES)
def test_a_folder_of_commands_can_be_read(name):
    folder = PACKAGE / "commands" / name
    files = list(folder.rglob("*.py"))
    in_folders = Counter(path.parent for path in files)
    assert max(in_folders.values()) <= MOST_FILES
    assert sum(len(path.read_text().splitlines()) for path in files) < MOST_LINES
    # The folder says it already.
    assert [path.name for path in files if path.stem.startswith(name)] == []


def test_no_class_name_is_defined_twice():
    sources = {path: path.read_text() for path in PACKAGE.rglob("*.py")}
    # Text may look like a class. It takes long to parse all files.
    named = Counter(name for text in sources.values() for name in _CLASS.findall(text))
    defined = defaultdict(list)
    for path, text in sources.items():
        if any(named[name] > 1 for name in _CLASS.findall(text)):
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.ClassDef):
                    defined[node.name].append(path.name)
    assert {name: files for name, files in defined.items() if len(files) > 1} == {}


def test_few_files_read_the_options_of_a_smoke_run():
    sources = {path: path.read_text() for path in PACKAGE.rglob("*.py")}
    reading = {path.relative_to(PACKAGE).as_posix() for path in readers(sources, SMOKE_OPTIONS)}
    assert {"commands/smoke/usecase.py", "runs/cluster_run.py"} <= reading
    assert len(reading) <= MOST_READERS


@pytest.mark.parametrize(
    "text",
    [
        "def f(options: Options):\n    return options.on",
        "def f(place: Place | None):\n    return place.on",
        "def f(it):\n    options = Options(on=it)\n    return getattr(options, 'on')",
        "def f(it):\n    options = options_of(it)\n    return options.on",
        "def f(it):\n    match it:\n        case Options(on):\n            pass",
        "def f(it):\n    match it:\n        case Options() as one:\n            return one.on",
        "def f(it):\n    return it.held.on",
        "def f(it):\n    return it.kept.on",
    ],
)
def test_a_reader_of_options_is_seen(text):
    sources = {
        "defined": "class Options:\n    on: str\nPlace = Options | Other\n"
        "def options_of(it) -> Options: ...\nclass Run:\n    held: Options\n"
        "    def __init__(self, a: Options, b):\n        self.kept, self.rest = a, b",
        "reads": text,
        "hands on": "def f(options: Options, it):\n    it.rest.on\n    return g(options)",
    }
    assert readers(sources, {"Options"}) == ["reads"]


@pytest.mark.parametrize("name", ["AGENTS.md", "CONTRIBUTING.md", "noxfile.py"])
def test_each_file_that_is_named_is_there(name):
    named = re.findall(r"(?:tests|vpatch)/[a-z_/]+\.\w+", (ROOT / name).read_text())
    assert named
    assert [file for file in named if not (ROOT / file).is_file()] == []


def test_contributing_links_every_page_of_decisions():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    linked = set(re.findall(r"\]\((docs/[\w/.-]+\.md)", text))
    assert {link for link in linked if not (ROOT / link).is_file()} == set()
    heading = re.compile(r"^##? Decisions", re.MULTILINE)
    pages = (ROOT / "docs" / "explanation").glob("*.md")
    decisions = [page for page in pages if heading.search(page.read_text())]
    assert len(decisions) == 7
    assert {page.relative_to(ROOT).as_posix() for page in decisions} - linked == set()
