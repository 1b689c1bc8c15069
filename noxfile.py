"""What one does here: `nox -s test`, `nox -s lint`, `nox -s docs`, or all with `nox -s all`.

`nox -s coverage` runs the quick tests and shows the lines that they do not reach.

The sessions use the Python that runs nox and install nothing: `pip install -e '.[dev]'` did that.
`.ci/run` runs more: it sets up a real vLLM, a Docker Engine and a browser for the tests first.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

import nox

nox.needs_version = ">=2024.4"
nox.options.default_venv_backend = "none"
nox.options.sessions = ["all"]
nox.options.stop_on_first_error = False

# The programs of this environment, whatever comes first on the PATH.
PROGRAMS = Path(sys.executable).parent


def run(session: nox.Session, program: str, *args: str, env: dict[str, str] | None = None) -> None:
    session.run(str(PROGRAMS / program), *args, env=env, external=True)


@nox.session
def test(session: nox.Session) -> None:
    """Run the tests, or those that are named: nox -s test -- tests/planning/test_plan.py."""
    run(session, "pytest", *(session.posargs or ["-n", "2"]))


@nox.session
def coverage(session: nox.Session) -> None:
    """Run the quick tests, or those that are named, and show the lines that none reaches."""
    run(session, "coverage", "erase")
    tests = session.posargs or ["-n", "2"]
    run(session, "coverage", "run", "-m", "pytest", *tests)
    run(session, "coverage", "combine", "--quiet")
    run(session, "coverage", "report")


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, types, Dockerfiles and workflows."""
    run(session, "ruff", "check", ".")
    run(session, "ruff", "format", "--check", ".")
    run(session, "mypy")
    # ruff has no rule for a name that hides one of its module.
    run(session, "pylint", "--disable=all", "--enable=redefined-outer-name", "vpatch")
    run(session, "lint-imports")
    run(session, "hadolint", *map(str, sorted(Path("docker").glob("*.Dockerfile"))))
    with tempfile.TemporaryDirectory() as name:
        audited = ["action.yml", ".github/workflows", *workflows_of_docs(Path(name))]
        run(session, "zizmor", "--offline", "--quiet", "--strict-collection", *audited)


def workflows_of_docs(folder: Path) -> list[str]:
    """Write the workflows that the docs show into files of a folder, and return their paths."""
    written = []
    for page in [Path("README.md"), *sorted(Path("docs").rglob("*.md"))]:
        blocks = re.findall(
            r"^```ya?ml\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE
        )
        for text in blocks:
            if re.search("^jobs:", text, re.MULTILINE):
                file = folder / f"{page.stem}-{len(written)}.yml"
                file.write_text(text, encoding="utf-8")
                written.append(str(file))
    if not written:
        raise RuntimeError("no page of the docs shows a workflow")
    return written


@nox.session
def docs(session: nox.Session) -> None:
    """Build the documentation's site into site/, and fail on every broken link."""
    # Material for MkDocs advertises its successor in every build otherwise. With --quiet, --strict
    # sees no warnings.
    run(session, "mkdocs", "build", "--strict", env={"NO_MKDOCS_2_WARNING": "1"})


@nox.session(name="all")
def everything(session: nox.Session) -> None:
    """Run all of these."""
    session.notify("lint")
    session.notify("docs")
    session.notify("test")
