"""What `python -m build` makes works where there is no checkout.

It takes minutes, as a new environment gets all dependencies, so it runs where
VPATCH_TEST_DISTRIBUTION is set: in `.ci/run`.
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

from vpatch import __version__

ROOT = Path(__file__).parents[1]
LIBRARY = ("docker", "patches", "recipes", "targets")
PATCH = "mtp-proj-prefix"
EXAMPLE = "needed-0.23"
SECONDS = 1200


def run(*command, cwd):
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
    assert ended.returncode == 0, f"{command}\n{ended.stdout}\n{ended.stderr}"
    return ended.stdout


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
    """A fresh environment with the wheel and what it depends on."""
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
        path.parent.name for path in (ROOT / "patches").glob("*/patch.yaml")
    }
    example = package / "data" / "patches" / PATCH / "examples" / EXAMPLE
    tree = shutil.copytree(example / "before", tmp_path / "tree")
    (tree / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 0.23.0\n")
    (tree / "vllm" / "__init__.py").touch()
    run(
        vpatch,
        "apply",
        "--vllm",
        tree,
        "--patch",
        PATCH,
        "--checkout",
        tmp_path / "made",
        cwd=tmp_path,
    )
    for path in (example / "after").rglob("*.py"):
        made = tmp_path / "made" / path.relative_to(example / "after")
        assert made.read_bytes() == path.read_bytes()
    run(vpatch, "check", "--checkout", tmp_path / "made", cwd=tmp_path)


def test_the_changelog_has_the_version():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"\n## [{__version__}] - " in text
