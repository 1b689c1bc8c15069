from __future__ import annotations

import pytest

from tests.helpers import fails
from vpatch.source.pip_settings import PipSettings, read_pip_settings


@pytest.fixture
def read(tmp_path):
    def run(files=(), **env):
        for name, text in dict(files).items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        env = {"HOME": str(tmp_path / "home"), **env}
        return read_pip_settings(env, etc=tmp_path / "etc", prefix=tmp_path / "venv")

    return run


def conf(url, section="global"):
    return f"[{section}]\nindex-url = {url}\n"


def test_nothing_set(read):
    assert read() == PipSettings()


def test_every_key(read):
    text = """[global]
index-url = https://a/simple
extra-index-url =
    https://b/simple
    https://c/simple
no_index = yes
cert = /c.pem
client-cert = /k.pem
proxy = http://p:1
timeout = 3
retries = 2
trusted-host = a b:8
"""
    assert read({"etc/pip.conf": text}) == PipSettings(
        index_url="https://a/simple",
        extra_index_urls=("https://b/simple", "https://c/simple"),
        no_index=True,
        cert="/c.pem",
        client_cert="/k.pem",
        proxy="http://p:1",
        timeout=3.0,
        retries=2,
        trusted_hosts=("a", "b:8"),
    )


def test_each_file_is_overridden_by_the_next(read, tmp_path):
    order = [
        "etc/xdg/pip/pip.conf",
        "etc/pip.conf",
        "home/.pip/pip.conf",
        "home/.config/pip/pip.conf",
        "venv/pip.conf",
    ]
    for name in order:
        assert read({name: conf(name)}).index_url == name
    named = str(tmp_path / "named.conf")
    assert read({"named.conf": conf("named")}, PIP_CONFIG_FILE=named).index_url == "named"
    assert read(PIP_CONFIG_FILE=named, PIP_INDEX_URL="env").index_url == "env"


def test_a_named_file_replaces_the_users_files(read, tmp_path):
    user = {"home/.config/pip/pip.conf": conf("user"), "named.conf": "[global]\ntimeout = 1\n"}
    assert read(user).index_url == "user"
    assert read(PIP_CONFIG_FILE=str(tmp_path / "named.conf")).index_url is None
    assert read(PIP_CONFIG_FILE="/dev/null") == PipSettings()


def test_the_download_section_wins_over_a_later_files_global(read):
    files = {"etc/pip.conf": conf("d", "download"), "venv/pip.conf": conf("g")}
    assert read(files).index_url == "d"


def test_several_extra_indexes_and_empty_variables(read):
    found = read({"etc/pip.conf": conf("kept")}, PIP_EXTRA_INDEX_URL="a  b", PIP_INDEX_URL="")
    assert (found.index_url, found.extra_index_urls) == ("kept", ("a", "b"))


def test_a_broken_file_is_named(read):
    with fails("source.pip-settings", r"etc/pip\.conf"):
        read({"etc/pip.conf": "index-url = x\n"})


def test_a_number_that_is_none(read):
    with fails("source.pip-settings", "PIP_TIMEOUT: pip's setting timeout is not a number"):
        read(PIP_TIMEOUT="soon")


def test_no_credentials_in_the_repr(read):
    assert "hunter2" not in repr(read(PIP_INDEX_URL="https://u:hunter2@a/simple"))
