"""Upstream's hooks, run by pre-commit in a checkout of a small upstream."""

from __future__ import annotations

import socket
from pathlib import Path

import platformdirs
import pytest

from tests.helpers import fails
from tests.index_server import Index, serve
from tests.projects import opened
from vpatch.checkout import hooks
from vpatch.checkout.hooks import run_hooks
from vpatch.progress import Silent

pytestmark = pytest.mark.slow

CONFIG = ".pre-commit-config.yaml"
# Kept from run to run: pre-commit makes environments there.
HOME = Path(platformdirs.user_cache_dir("vpatch-tests")) / "pre-commit"
LOCAL = """
default_stages: [pre-commit, manual]
repos:
- repo: local
  hooks:
  - {id: passes, name: It passes, entry: "true", language: system, always_run: true}
  - {id: words, name: No bad words, entry: "tools/words.sh", language: script, types: [python]}
  - {id: idle, name: For CUDA, entry: "false", language: system, files: '\\.cu$'}
  - {id: message, name: A message's, entry: "false", language: system, stages: [commit-msg]}
  - {id: suggestion, name: Only talks, entry: "false", language: system}
- repo: https://github.com/somebody/else
  rev: v1
  hooks: [{id: away}]
"""
RUFF = """
repos:
- repo: https://github.com/astral-sh/ruff-pre-commit
  rev: v0.14.0
  hooks:
  - {id: ruff-check, args: [--fix]}
  - {id: ruff-format}
"""
WORDS = b"""#!/bin/sh
test -f vllm/models/llama.py || exit 3
if grep -n bad "$@"; then echo 'mind your words'; exit 1; fi
"""
PYPROJECT = b'[tool.ruff.lint]\nselect = ["E", "F", "I"]\n'


NETWORK = """
repos:
- repo: local
  hooks:
  - id: asks
    name: It asks
    language: system
    always_run: true
    pass_filenames: false
    entry: >-
      python3 -c "import socket; socket.create_connection(('127.0.0.1', PORT), 5)"
"""


def hooked(tmp_path, config, text, home=None, **options):
    files = {CONFIG: config.encode(), "tools/words.sh": WORDS, "pyproject.toml": PYPROJECT}
    files |= {"vllm/__init__.py": b"", "vllm/version.py": b""}
    files["vllm/models/llama.py"] = b"class Llama:\n    pass\n"
    with opened(tmp_path, files) as tree:
        new = {"vllm/new.py": text}
        found = run_hooks(tree, CONFIG, new, home or tmp_path / "home", Silent(), **options)
    return {hook.id: hook for hook in found}


def test_hooks_of_upstreams_own_tree(tmp_path):
    found = hooked(tmp_path, LOCAL, b"good = 1\n")
    assert {name: hook.verdict for name, hook in found.items()} == {
        "passes": "pass",
        "words": "pass",
        "idle": "idle",
        "away": "elsewhere",
    }
    assert found["away"].output == "it lies in https://github.com/somebody/else"


def test_no_hook_sees_a_token(tmp_path, monkeypatch):
    names = ("GH_TOKEN", "GH_ENTERPRISE_TOKEN", "AWS_SECRET_ACCESS_KEY", "HF_TOKEN", "ANYTHING")
    for name in names:
        monkeypatch.setenv(name, "ghp_test")
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "https://me:ghp_test@index.example/simple")
    config = LOCAL.replace(
        'entry: "tools/words.sh", language: script', "entry: env, language: system"
    )
    config = config.replace("types: [python]", "verbose: true, pass_filenames: false")
    found = hooked(
        tmp_path, config.replace("entry: env", "entry: sh -c 'env; false'"), b"good = 1\n"
    )
    assert "PRE_COMMIT_HOME=" in found["words"].output
    assert "ghp_test" not in found["words"].output


def test_no_module_of_upstreams_tree_runs_in_place_of_pre_commits(tmp_path):
    ran = tmp_path / "ran"
    evil = f"open({str(ran)!r}, 'w').close()\n".encode()
    files = {CONFIG: LOCAL.encode(), "tools/words.sh": WORDS, "vllm/__init__.py": b""}
    files |= {"vllm/version.py": b"", "vllm/models/llama.py": b"", "yaml.py": evil}
    files["pre_commit/__init__.py"] = evil
    with opened(tmp_path, files) as tree:
        changes = {"vllm/new.py": b"good = 1\n"}
        found = run_hooks(tree, CONFIG, changes, tmp_path / "home", Silent())
    assert not ran.exists()
    assert {hook.verdict for hook in found if hook.id == "passes"} == {"pass"}


def test_a_hook_of_a_mirror_that_is_not_known(tmp_path):
    config = RUFF.replace("id: ruff-check", "id: ruff-other")
    found = hooked(tmp_path, config, b"A = 1\n", HOME)
    assert (found["ruff-other"].verdict, found["ruff-format"].verdict) == ("elsewhere", "pass")


def test_a_hook_that_fails(tmp_path):
    found = hooked(tmp_path, LOCAL, b"bad = 1\n")
    assert found["words"].verdict == "fail"
    assert "1:bad = 1" in found["words"].output
    assert "mind your words" in found["words"].output
    assert found["passes"].verdict == "pass"


def test_hooks_of_a_mirror_by_the_package_they_wrap(tmp_path):
    found = hooked(tmp_path, RUFF, b'A = "it"\n', HOME)
    assert [hook.verdict for hook in found.values()] == ["pass", "pass"]


def test_what_a_hook_mends_is_a_failure(tmp_path):
    found = hooked(tmp_path, RUFF, b"import os\nA  =  1\nB = undefined\n", HOME)
    assert found["ruff-check"].verdict == found["ruff-format"].verdict == "fail"
    assert "undefined" in found["ruff-check"].output
    assert "files were modified by this hook" in found["ruff-format"].output
    # What it made of the file is shown, and not handed on.
    assert "-import os\n" in found["ruff-check"].output
    assert "-A  =  1\n+\n+A = 1\n" in found["ruff-format"].output
    assert "-import os" not in found["ruff-format"].output


def test_an_index_that_is_out_of_reach(tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    found = hooked(tmp_path, RUFF, b"A = 1\n")
    assert found["ruff-check"].verdict == "not run"
    assert "rror" in found["ruff-check"].output


def test_whoever_runs_vpatch_as_a_hook(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("SKIP", "words")
    assert hooked(tmp_path, LOCAL, b"bad = 1\n")["words"].verdict == "fail"


@pytest.mark.parametrize("config", ["repos: [", "other: 1", "- 1"])
def test_what_is_no_configuration(tmp_path, config):
    with fails("upstream.unreadable-rules", "no hooks that vpatch can read"):
        hooked(tmp_path, config, b"A = 1\n")


def test_no_configuration(tmp_path):
    with opened(tmp_path) as tree, fails("upstream.unreadable-rules", "not in upstream's tree"):
        run_hooks(tree, CONFIG, {}, tmp_path, Silent())


def test_offline_nothing_is_fetched(tmp_path, monkeypatch):
    """An index that counts: pre-commit would install ruff from it."""
    with serve(Index()) as index:
        monkeypatch.setenv("PIP_INDEX_URL", index.url)
        monkeypatch.setenv("PIP_RETRIES", "0")
        offline = hooked(tmp_path / "a", RUFF, b"x = 1\n", tmp_path / "home", offline=True)
        assert index.asked == []
        assert {hook.verdict for hook in offline.values()} == {"not run"}
        assert offline["ruff-check"].output == "offline, and it is not installed yet"


def test_offline_hooks_of_upstreams_tree_have_no_network(tmp_path):
    if not hooks._without_network():
        pytest.skip("this system gives no process a network of its own")
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(5)
        config = NETWORK.replace("PORT", str(server.getsockname()[1]))
        assert hooked(tmp_path / "a", config, b"")["asks"].verdict == "pass"
        server.accept()[0].close()
        assert hooked(tmp_path / "b", config, b"", offline=True)["asks"].verdict == "fail"
        server.settimeout(0)
        with pytest.raises(BlockingIOError):
            server.accept()
