"""docs/how-to/add-an-edit-kind.md, followed word for word on a copy of the repository."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys

import pytest

from tests.documents import ROOT, followed, page

pytestmark = pytest.mark.slow

PAGE = page("how-to/add-an-edit-kind.md")
DIFFS = re.findall(r"^```diff\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
NEW = "tests/codemods/test_remove_decorator.py"
CHECKED = (NEW, "tests/declare/test_edits.py", "tests/test_docs.py")


def git_apply(folder, diff):
    # Outside of a repository, git applies nothing below another one's root.
    env = os.environ | {"GIT_CEILING_DIRECTORIES": str(folder.parent)}
    command = ["git", "apply", "--whitespace=nowarn"]
    subprocess.run(command, input=diff, cwd=folder, env=env, check=True, text=True)


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """The repository as it is once somebody has done what the page says."""
    folder = tmp_path_factory.mktemp("clone")
    ignored = shutil.ignore_patterns("__pycache__", "examples")
    for name in ("vpatch", "tests", "docs"):
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    for name in ("README.md", "pyproject.toml"):
        shutil.copy(ROOT / name, folder / name)
    for name in ("advisories", "docker", "known-issues", "patches", "recipes", "targets"):
        (folder / name).symlink_to(ROOT / name)
    assert followed(PAGE, folder) == (2, 0)
    for diff in DIFFS:
        git_apply(folder, diff)
    return folder


def run(folder, *command):
    # The copy's vpatch comes before the one that is installed.
    env = os.environ | {"PYTHONPATH": str(folder)}
    done = subprocess.run(
        [sys.executable, *command], cwd=folder, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_tests_of_the_page_pass(copy):
    selected = "edit or decorator or definition or comment or format"
    run(copy, "-m", "pytest", "-q", "-p", "no:cacheprovider", *CHECKED, "-k", selected)


def test_the_code_of_the_page_has_the_style_of_vpatch(copy):
    files = (NEW, "vpatch/codemods", "vpatch/declare", "tests/declare")
    run(copy, "-m", "ruff", "check", "--no-cache", *files)
    run(copy, "-m", "ruff", "format", "--no-cache", "--check", *files)


def test_the_edit_kind_is_there(copy):
    assert "remove-decorator" in run(copy, "-m", "vpatch", "schema", "patch")


def test_every_file_of_the_table_is_shown_or_told_of():
    table = re.findall(r"^\| `([\w./]+\.\w+)` \|", PAGE, re.MULTILINE)
    changed = [line[6:] for line in "\n".join(DIFFS).splitlines() if line.startswith("+++ b/")]
    written = re.findall(r"^`([\w./]+)`\n\n```python", PAGE, re.MULTILINE)
    told = ["docs/reference/errors.yaml", "CHANGELOG.md"]
    assert sorted(table) == sorted([*changed, *written, *told])
    assert all((ROOT / path).exists() for path in [*changed, *told])
