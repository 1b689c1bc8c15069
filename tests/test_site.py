"""The site of the documentation: its search finds the page that answers a question."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands.bench.browser import fixture_open_page  # noqa: F401
from tests.documents import ROOT
from vpatch import __version__

# The build of the site takes seconds.
pytestmark = pytest.mark.slow

# What users ask, in several wordings, and the page or section that answers it. Add a row for each
# question that the docs answer. A section has the form page/#heading.
QUESTIONS = {
    "how-to/plain-tree/": (
        "a plain tree",
        "How do I get a plain tree of vLLM?",
        "plain unpatched source tree",
        "How do I get unpatched vLLM source?",
    ),
    "how-to/take-back/": (
        "taking a patch back from a running deployment",
        "take a patch back from a running deployment",
        "How do I take a patch back from a running server?",
        "roll back an image",
        "undo a patch",
    ),
    "how-to/which-command/": (
        "which of run, install, wheel and image",
        "which of run, install, wheel, build-image",
        "Which command is for me: run, install, wheel or build-image?",
    ),
    "explanation/alternatives/": (
        "vpatch against a fork with rebase and against quilt",
        "vpatch against a fork with rebase and against quilt, and when not to use it",
        "vpatch or a fork with rebase or quilt",
        "compare vpatch with quilt",
        "fork and rebase",
    ),
    "explanation/alternatives/#when-not-to-use-vpatch": ("when not to use vpatch",),
    "how-to/several-releases/": (
        "several releases in production without copies",
        "recipes that extend another",
        "Can a recipe extend another recipe?",
    ),
    "how-to/write-a-behaviour-test/": (
        "a behaviour test from nothing",
        "How do I write a behaviour test?",
        "write a behaviour test from nothing",
    ),
    "how-to/ci/#what-a-team-commits-and-ignores": (
        "what a team commits and ignores",
        "What does a team commit, and what does it ignore?",
    ),
    "how-to/ci/#how-two-people-review-a-patchyaml": (
        "how two people review a patch.yaml",
        "How do two people review a patch.yaml?",
    ),
    "explanation/cost/": (
        "what 19 releases cost in cache, time and network",
        "what do 19 releases cost in cache, time, network",
        "cost of all releases in disk and network",
    ),
    "explanation/backports/": (
        "who stands behind the backports, and how fast",
        "Who stands behind the backports of security fixes, and how fast?",
    ),
}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        check=True,
        capture_output=True,
    )
    return folder


@pytest.fixture(scope="module")
def search(site):
    """Ask the site's own search, and return the groups of results of each question."""
    (worker,) = site.glob("assets/javascripts/workers/search.*.min.js")
    script = Path(__file__).with_name("site_search.js")

    def ask(questions):
        done = subprocess.run(
            ["node", script, worker, site / "search/search_index.json"],
            input=json.dumps(questions),
            check=True,
            capture_output=True,
            text=True,
        )
        return json.loads(done.stdout)

    return ask


def test_the_search_finds_the_answer_to_a_question_first(search):
    asked = [(question, target) for target, group in QUESTIONS.items() for question in group]
    wrong = []
    for (question, target), groups in zip(
        asked, search([question for question, _ in asked]), strict=True
    ):
        # The site shows a page, and below it the sections of this page that fit best.
        shown = [groups[0][0].partition("#")[0], *(one for one in groups[0] if "#" in one)][:2]
        if target not in shown:
            wrong.append(f"{question}: {' and '.join(shown)}, not {target}")
    assert not wrong, "\n".join(wrong)


# What the copy button does: it marks the code, and takes the text that shows.
_COPIED = """() => {
  const code = document.querySelector('.language-console code');
  code.setAttribute('data-md-copying', '');
  return code.innerText.trimEnd();
}"""


def test_an_example_is_copied_without_its_prompt_and_output(site, open_page):
    with open_page(site / "how-to/series/index.html") as opened:
        assert opened.page.evaluate(_COPIED) == "vpatch diff --vllm 0.23 --series series"


def test_each_page_names_the_version_and_the_next_page(site):
    text = (site / "how-to/series/index.html").read_text(encoding="utf-8")
    assert f"vpatch {__version__}" in text
    assert "md-footer__link--prev" in text
    assert "md-footer__link--next" in text
