"""What README.md shows is true, and what the documentation shows is what the terminal prints."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from tests.checkpoint.builders import large_v4
from tests.documents import DOCS, README, ROOT, followed, page, run, shown

PROPOSED = "cpu-spec-decode-fp64-gumbel"
TARGET = "vllm/config/speculative.py"
# Made for the first; the second is where the lines around it changed.
MADE_FOR, NEXT, LAST = "0.23.0", "0.25.0", "0.33.0"


def test_it_can_be_read_at_a_sitting():
    assert len(README.splitlines()) <= 150


@pytest.mark.slow
def test_the_first_command_prints_what_is_shown(tmp_path):
    command = re.search(r"&& \.venv/bin/(vpatch apply .*)$", README, re.MULTILINE)[1]
    assert run(command, tmp_path) == shown("apply")


def test_the_status_is_what_is_shown(tmp_path):
    command = re.search(r"^(vpatch status .* --patch .*)$", README, re.MULTILINE)[1]
    assert run(command, tmp_path) == shown("status")


@pytest.mark.slow
def test_the_start_page_shows_what_is_printed(tmp_path):
    assert followed(page("index.md"), tmp_path) == (0, 7)


@pytest.fixture(scope="module")
def releases(tmp_path_factory):
    """The file that the README's example changes, of three releases."""
    found = {}
    for version in (MADE_FOR, NEXT, LAST):
        folder = tmp_path_factory.mktemp(version)
        run(f"vpatch apply --vllm {version} --patch draft-hf-config-path", folder)
        git = ["git", "-C", folder / ".vpatch" / f"vllm-{version}", "show", f"HEAD~1:{TARGET}"]
        found[version] = subprocess.run(git, capture_output=True, check=True).stdout
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("version", "applies"), [(MADE_FOR, True), (NEXT, False), (LAST, False)])
def test_the_diff_dies_where_it_is_said_to(releases, version, applies, tmp_path):
    diff = re.search(r"^```diff\n(.*?)^```", README, re.MULTILINE | re.DOTALL)[1]
    (tmp_path / "edit.diff").write_text(diff)
    (tmp_path / TARGET).parent.mkdir(parents=True)
    (tmp_path / TARGET).write_bytes(releases[version])
    done = subprocess.run(["git", "apply", "edit.diff"], cwd=tmp_path, check=False)
    assert (done.returncode == 0) == applies
    added = [line[1:] for line in diff.splitlines() if re.match(r"\+ ", line)]
    assert (added[0] in (tmp_path / TARGET).read_text().splitlines()) == applies


@pytest.mark.slow
def test_the_patch_beside_it_survives(tmp_path):
    patch = re.search(r"^```yaml\n(id: .*?)^```", README, re.MULTILINE | re.DOTALL)[1]
    folder = tmp_path / "patches" / "draft-config-path"
    folder.mkdir(parents=True)
    (folder / "patch.yaml").write_text(patch)
    asked = f"vpatch status --vllm 0.20.0,{MADE_FOR},{NEXT},{LAST} --patch draft-config-path"
    assert ["draft-config-path", *"NNNN"] in [
        line.split() for line in run(asked, tmp_path).splitlines()
    ]
    run(f"vpatch apply --vllm {MADE_FOR} --patch draft-config-path", tmp_path)
    diff = re.search(r"^```diff\n.*?^(\+ .*?)$", README, re.MULTILINE | re.DOTALL)[1]
    assert diff in run("vpatch diff", tmp_path).splitlines()


@pytest.mark.slow
def test_a_patch_that_upstream_has_is_what_is_shown(tmp_path):
    command = re.search(r"`(vpatch upstream-pr \S+ --onto .*?)`", page("how-to/upstream.md"))[1]
    # The archive is fetched, where it is not in the cache.
    run(f"vpatch status --vllm 0.33.0 --patch {PROPOSED}", tmp_path)
    assert run(command, tmp_path, codes=(1,)) == shown("upstream-pr")


@pytest.mark.slow
def test_a_diagnosis_is_what_is_shown(tmp_path):
    log = ROOT / "tests" / "resources" / "vllm-0.23.0-cpu-mtp.log"
    shutil.copy(log, tmp_path / "engine.log")
    assert run("vpatch diagnose engine.log", tmp_path, codes=(1,)) == shown("diagnose")


@pytest.mark.slow
def test_a_checkpoint_is_looked_at_as_is_shown(tmp_path):
    large_v4(tmp_path / "DeepSeek-V4-W4A16")
    command = "vpatch checkpoint inspect DeepSeek-V4-W4A16"
    assert command in page("how-to/checkpoints.md")
    assert run(command, tmp_path, codes=(1,)) == shown("checkpoint")


def test_ci_finds_the_test_command():
    script = (ROOT / ".ci" / "parts").read_text(encoding="utf-8")
    found = re.search(r"<!-- tests -->\n```bash\n(.*)\n```\n<!-- /tests -->", README)
    assert found
    assert found[1].endswith(".venv/bin/pytest -n 2")
    assert "<!-- tests -->" in script


def test_its_links_lead_somewhere():
    links = re.findall(r"\]\((?!https?:)([^)#]+)", README)
    assert len(links) > len(list(DOCS.iterdir()))
    assert [link for link in links if not (ROOT / link).is_file()] == []
