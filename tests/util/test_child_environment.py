from __future__ import annotations

import pytest

from vpatch.util.child_environment import environment, environment_of_a_node

SECRETS = {
    "AWS_SECRET_ACCESS_KEY": "s",
    "AWS_PROFILE": "s",
    "GH_TOKEN": "s",
    "HF_TOKEN": "s",
    "HF_HUB_TOKEN": "s",
    "VLLM_API_KEY": "s",
    "CUDA_AUTH": "s",
    "GIT_DIR": "/elsewhere",
    "SSH_AUTH_SOCK": "/socket",
    "PYTHONPATH": "/elsewhere",
    "PYTEST_ADDOPTS": "-p evil",
    "LD_PRELOAD": "/evil.so",
    "PIP_INDEX_URL": "https://user:secret@index.example/simple",
    "PIP_EXTRA_INDEX_URL": "https://one.example https://secret@two.example/simple",
    "HTTPS_PROXY": "http://user:secret@proxy.example",
}
NEEDED = {
    "PATH": "/bin",
    "HOME": "/home/me",
    "LC_ALL": "C",
    "https_proxy": "http://proxy.example",
    "PIP_CONFIG_FILE": "/pip.conf",
}
OF_ENGINES = {"CUDA_VISIBLE_DEVICES": "0", "VLLM_CPU_KVCACHE_SPACE": "1", "ASCEND_HOME": "/x"}


@pytest.mark.parametrize(
    ("engine", "expected"), [(False, NEEDED), (True, NEEDED | OF_ENGINES)], ids=["hook", "engine"]
)
def test_what_is_needed_and_no_more(engine, expected):
    found = environment(engine=engine, of=SECRETS | NEEDED | OF_ENGINES)
    assert found == expected


def test_a_job_on_a_node_gets_no_secret_that_is_called_as_ours(monkeypatch):
    monkeypatch.setenv("VPATCH_HUB_TOKEN", "1")
    monkeypatch.setenv("VPATCH_CACHE_DIR", "/cache")
    kept = environment_of_a_node()
    assert (kept.get("VPATCH_CACHE_DIR"), kept.get("VPATCH_HUB_TOKEN")) == ("/cache", None)
