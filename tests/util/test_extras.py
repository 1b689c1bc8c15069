"""The table of extras, held to pyproject.toml and to what vpatch imports."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.documents import page
from tests.helpers import fails
from vpatch.registry import COMMANDS
from vpatch.util import extras
from vpatch.util.extras import EXTRAS, require

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
# What people who change vpatch install; no command needs them.
DEVELOPMENT = {"dev", "docs", "lint", "test"}
DISTRIBUTIONS = {
    module: {canonicalize_name(name) for name in names}
    for module, names in packages_distributions().items()
}


def distributions(requirements):
    """The names of the distributions, with those of vpatch's own extras."""
    found = set()
    for requirement in map(Requirement, requirements):
        if requirement.name == "vpatch":
            for extra in requirement.extras:
                found |= distributions(PROJECT["optional-dependencies"][extra])
        else:
            found.add(canonicalize_name(requirement.name))
    return found


def test_the_table_has_the_modules_of_every_extra():
    declared = {
        extra: distributions(requirements)
        for extra, requirements in PROJECT["optional-dependencies"].items()
        if extra not in DEVELOPMENT | {"all"}
    }
    table = {extra: set().union(*map(DISTRIBUTIONS.get, EXTRAS[extra])) for extra in EXTRAS}
    assert table == declared


def test_the_page_has_every_extra_with_its_commands_and_packages():
    found = re.findall(
        r"^\| `(\w+)` \| (.+) \| (.+) \|$", page("reference/extras.md"), re.MULTILINE
    )
    rows = {extra: (commands, packages) for extra, commands, packages in found}
    assert {extra: set(packages.split(", ")) for extra, (_, packages) in rows.items()} == {
        extra: distributions(PROJECT["optional-dependencies"][extra]) for extra in EXTRAS
    }
    needing = [(name, command.extra) for name, command in COMMANDS.items() if command.extra]
    assert len(needing) > 5
    for name, extra in needing:
        assert f"`vpatch {name}`" in rows[extra][0]


def test_all_has_every_extra():
    (requirement,) = map(Requirement, PROJECT["optional-dependencies"]["all"])
    assert requirement.name == "vpatch"
    assert requirement.extras == set(EXTRAS)


def test_the_commands_without_an_extra_need_twelve_distributions():
    assert len(PROJECT["dependencies"]) <= 12
    assert not distributions(PROJECT["dependencies"]) & {
        name for extra in EXTRAS for module in EXTRAS[extra] for name in DISTRIBUTIONS[module]
    }


def imports():
    """The modules of others that vpatch imports, each with a file and line."""
    for path in sorted((ROOT / "vpatch").rglob("*.py")):
        if "payload" in path.parts:
            continue  # it runs in an engine's Python
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module]
            for module in {name.partition(".")[0] for name in names}:
                if module not in sys.stdlib_module_names | {"vpatch"}:
                    yield f"{path.relative_to(ROOT)}:{node.lineno}", module


def test_what_vpatch_imports_is_declared():
    declared = distributions(PROJECT["dependencies"])
    # requests and pydantic depend on these, and show their classes.
    declared |= {"pydantic-core", "urllib3"}
    of_extras = {module for extra in EXTRAS for module in EXTRAS[extra]}
    found = list(imports())
    undeclared = [
        (place, module)
        for place, module in found
        if module not in of_extras and not DISTRIBUTIONS[module] & declared
    ]
    assert undeclared == []
    # pre-commit is run, not imported.
    assert {module for _, module in found} >= of_extras - {"pre_commit"}


def test_a_package_that_is_missing_is_said_with_its_extra(monkeypatch):
    monkeypatch.setitem(EXTRAS, "made-up", ("json", "no_such_package", "nor_this"))
    with fails("util.missing-extra", match="no_such_package, nor_this") as caught:
        require("made-up", "`vpatch dream`")
    assert caught.value.exit_code == 4
    assert str(caught.value).startswith("`vpatch dream` needs the packages of the extra 'made-up'")
    assert caught.value.hint == "pip install 'vpatch[made-up]'"


def test_what_is_installed_is_not_imported(monkeypatch, tmp_path):
    package = tmp_path / "broken_package"
    package.mkdir()
    (package / "__init__.py").write_text("import no_such_module")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(EXTRAS, "made-up", ("broken_package",))
    require("made-up", "`vpatch dream`")
    # A fault of that package stays one.
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        importlib.import_module("broken_package")


def test_a_folder_of_that_name_is_no_package(monkeypatch, tmp_path):
    (tmp_path / "no_package").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    assert importlib.util.find_spec("no_package") is not None
    assert not extras._is_installed("no_package")
