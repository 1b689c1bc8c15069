"""What `python -m build` makes works where there is no checkout.

A new environment gets the wheel without any extra. That takes a while, so `.ci/run` runs it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.commands.test_extras import NEEDED
from vpatch import __version__

ROOT = Path(__file__).parents[1]
LIBRARY = ("advisories", "docker", "known-issues", "patches", "recipes", "targets")
PATCH = "mtp-proj-prefix"
EXAMPLE = "needed-0.23"
SECONDS = 1200


def run(*command, cwd, code=0):
    """Run a command to which nothing of this checkout and its environment is known."""
    hidden = ("PYTHON", "VIRTUAL_ENV", "VPATCH_")
    env = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
    env["VPATCH_CACHE_DIR"] = str(cwd / "cache")
    ended = subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert ended.returncode == code, f"{command}\n{ended.stdout}\n{ended.stderr}"
    return ended.stderr if code else ended.stdout


def build(source, folder, *kinds):
    folder.mkdir()
    run(sys.executable, "-m", "build", *kinds, "--outdir", folder, source, cwd=folder.parent)
    return sorted(folder.iterdir())


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A wheel and an sdist of this checkout, each made of it."""
    folder = tmp_path_factory.mktemp("built")
    return build(ROOT, folder / "dist", "--wheel", "--sdist")


@pytest.fixture(scope="module")
def installed(built, tmp_path_factory):
    """A fresh environment with the wheel and what it depends on, without any extra."""
    folder = tmp_path_factory.mktemp("installed")
    run(sys.executable, "-m", "venv", folder / "venv", cwd=folder)
    python = folder / "venv" / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", built[0], cwd=folder)
    return python


@pytest.mark.slow
def test_the_wheel_has_the_package_and_the_library(built):
    wheel, sdist = built
    assert wheel.name == f"vpatch-{__version__}-py3-none-any.whl"
    assert sdist.name == f"vpatch-{__version__}.tar.gz"
    with zipfile.ZipFile(wheel) as archive:
        found = {name for name in archive.namelist() if ".dist-info/" not in name}
    listed = subprocess.run(
        ["git", "ls-files", "-z", "vpatch", *LIBRARY],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("\0")[:-1]
    places = [p if p.startswith("vpatch/") else f"vpatch/data/{p}" for p in listed]
    assert found == set(places)


@pytest.mark.slow
def test_the_sdist_makes_the_same_wheel(built, tmp_path):
    wheel, sdist = built
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (made,) = build(tmp_path / f"vpatch-{__version__}", tmp_path / "dist", "--wheel")
    assert made.name == wheel.name
    assert made.read_bytes() == wheel.read_bytes()


@pytest.mark.slow
def test_the_wheel_applies_a_patch_of_its_library(installed, tmp_path):
    vpatch = installed.with_name("vpatch")
    assert run(vpatch, "--version", cwd=tmp_path) == f"vpatch, version {__version__}\n"
    where = run(installed, "-c", "import vpatch; print(vpatch.__file__)", cwd=tmp_path)
    package = Path(where.strip()).parent
    assert package.is_relative_to(installed.parents[1])
    listed = json.loads(run(vpatch, "list", "--json", cwd=tmp_path))
    assert {patch["id"] for patch in listed["result"]["patches"]} == {
        path.parent.name for path in (ROOT / "patches").rglob("patch.yaml")
    }
    example = package / "data" / "patches" / PATCH / "examples" / EXAMPLE
    tree = shutil.copytree(example / "before", tmp_path / "tree")
    (tree / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 0.23.0\n")
    (tree / "vllm" / "__init__.py").touch()
    asked = ("--vllm", tree, "--patch", PATCH)
    assert "needed" in run(vpatch, "status", *asked, cwd=tmp_path)
    checkout = ("--checkout", tmp_path / "made")
    run(vpatch, "apply", *asked, *checkout, cwd=tmp_path)
    for path in (example / "after").rglob("*.py"):
        made = tmp_path / "made" / path.relative_to(example / "after")
        assert made.read_bytes() == path.read_bytes()
    run(vpatch, "check", *checkout, cwd=tmp_path)
    assert run(vpatch, "diff", *checkout, cwd=tmp_path).startswith("diff --git ")


@pytest.mark.slow
def test_the_wheel_needs_29_distributions_and_less_than_90_megabytes(installed, tmp_path):
    before = {"pip", "setuptools"}  # what a new environment has
    listed = json.loads(run(installed, "-m", "pip", "list", "--format=json", cwd=tmp_path))
    names = {one["name"].lower() for one in listed} - before
    assert "vpatch" in names
    assert len(names) <= 29
    packages = Path(run(installed, "-c", "import click; print(click.__path__[0])", cwd=tmp_path))
    files = [
        path
        for path in packages.parent.rglob("*")
        if path.relative_to(packages.parent).parts[0].partition("-")[0] not in before
    ]
    size = sum(path.stat().st_size for path in files if path.is_file())
    assert 20e6 < size < 90e6


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        *("--help", "list", f"show {PATCH}", "schema patch", f"test {PATCH}"),
        *("cache list", "evidence list", "checkpoint --help", "trust --help"),
        "upstream-status --help",
    ],
)
def test_these_commands_need_no_extra(installed, command, tmp_path):
    assert run(installed.with_name("vpatch"), *command.split(), cwd=tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("command", "extra"), NEEDED.items())
def test_another_command_says_its_extra(installed, command, extra, tmp_path):
    told = run(installed.with_name("vpatch"), command, cwd=tmp_path, code=4)
    assert told.startswith(f"error: `vpatch {command}` needs the packages of the extra '{extra}'")
    assert told.endswith(f"  next: pip install 'vpatch[{extra}]'\n")


@pytest.mark.slow
def test_what_it_says_to_install_is_enough(installed, tmp_path):
    vpatch = installed.with_name("vpatch")
    assert "vpatch[engine]" in run(vpatch, "engine", "--help", cwd=tmp_path, code=4)
    # The last test of this file, since it changes the environment.
    run(installed, "-m", "pip", "install", "--quiet", "vpatch[engine]", cwd=tmp_path)
    assert "--vllm" in run(vpatch, "engine", "--help", cwd=tmp_path)


def test_the_changelog_has_the_version():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"\n## [{__version__}] - " in text
