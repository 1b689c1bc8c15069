"""What a log may not hold, and how long a step took."""

from __future__ import annotations

import logging

import pytest

from tests.index_server import Index, serve
from tests.projects import VERSION, archive
from vpatch.engine import process
from vpatch.git import command
from vpatch.github.tokens import Token
from vpatch.source.network import index_urls, list_releases
from vpatch.source.pip_settings import read_pip_settings
from vpatch.util import run_log
from vpatch.util.run_log import command_line, hide, hide_environment, redacted, timed


@pytest.fixture(autouse=True)
def _nothing_hidden(monkeypatch):
    monkeypatch.setattr(run_log, "_hidden", set())


@pytest.fixture
def index():
    with serve(Index()) as served:
        yield served


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("from https://me:pa55@host/x.git", "from https://host/x.git"),
        ("from https://pa55@host/x.git", "from https://host/x.git"),
        ("from ssh://git@host/x.git", "from ssh://git@host/x.git"),
        ("https://host/simple/?a=1&token=pa55", "https://host/simple/"),
        ('"GET /simple/vllm/?token=pa55 HTTP/1.1" 200', '"GET /simple/vllm/?*** HTTP/1.1" 200'),
        ("http.extraHeader=Authorization: Basic pa55", "http.extraHeader=Authorization: ***"),
        ("AUTHORIZATION: bearer pa55 and more", "AUTHORIZATION: *** and more"),
        ("{'Authorization': 'token pa55'}", "{'Authorization': '***'}"),
        ("Proxy-Authorization: pa55", "Proxy-Authorization: ***"),
        ("HF_TOKEN=pa55 vllm serve", "HF_TOKEN=*** vllm serve"),
        ("password='pa55 pa55' user=me", "password=*** user=me"),
        ("vllm serve --api-key pa55 --port 1", "vllm serve --api-key *** --port 1"),
        ("vllm serve --api-key=pa55 --port 1", "vllm serve --api-key=*** --port 1"),
        ("['--hf-token', 'pa55', '--k']", "['--hf-token', '***', '--k']"),
        ("with ghp_0123456789abcdefghij.", "with ***."),
        ("with github_pat_0123456789abcdefghij", "with ***"),
        ("with hf_0123456789abcdefghij", "with ***"),
    ],
)
def test_secrets_are_known_by_what_stands_around_them(text, shown):
    assert redacted(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "vllm serve --max-num-batched-tokens 8192 --tokenizer /models/a",
        "mtp-proj-prefix is needed: 0.12 s",
        "git -C /tmp/x fetch --depth=1 -- https://github.com/vllm-project/vllm.git v0.23.0",
        "the token is from GH_TOKEN, and the key is new",
        "is it done? key",
    ],
)
def test_other_text_stays(text):
    assert redacted(text) == text


def test_values_of_secret_variables_are_hidden():
    hide_environment(
        {
            "GH_TOKEN": "pa55word",
            "MY_PASSWORD": "it's/pa55",
            "SSH_KEY": "line-one\nline-two",
            "SOME_PROXY": "http://me:pr0xy%2Fpa55@proxy:3128",
            "OTHER_INDEX": "https://t0ken@host/simple",
            "TOKENIZERS_PARALLELISM": "false",
            "HOME": "/home/me",
        }
    )
    text = "pa55word it's/pa55 it%27s%2Fpa55 line-two pr0xy/pa55 t0ken"
    assert redacted(text) == "*** *** *** *** *** ***"
    assert redacted("false /home/me me") == "false /home/me me"


def test_a_longer_secret_goes_before_a_shorter_one_in_it():
    hide("pa55")
    hide("pa55word")
    assert redacted("pa55word pa55") == "*** ***"


def test_a_token_is_hidden_wherever_it_was_found():
    Token("0f-gh-or-git", "gh")
    assert redacted("used 0f-gh-or-git") == "used ***"


def test_a_password_of_a_credential_helper_is_hidden(isolated):
    (isolated / "home" / ".gitconfig").write_text(
        '[credential]\nhelper = "!f() { echo username=me; echo password=0f-a-helper; }; f"\n',
        encoding="utf-8",
    )
    assert command.credential("https://host") == "0f-a-helper"
    assert redacted("used 0f-a-helper") == "used ***"


def test_a_command_is_shown_without_the_values_of_secret_options():
    words = ["vllm", "serve", "--api-key", "pa55 word", "--hf-token=a b", "--seed", 1, "A_KEY=c d"]
    shown = command_line(words)
    assert shown == "vllm serve --api-key '***' '--hf-token=***' --seed 1 'A_KEY=***'"


def test_a_command_with_thousands_of_files_is_cut():
    shown = command_line(["git", *map(str, range(10_000))])
    assert len(shown) < 3000
    assert shown.endswith(" ...")


def test_a_step_has_its_seconds(caplog):
    logger = logging.getLogger("vpatch.test")
    caplog.set_level(logging.INFO, "vpatch")
    with timed(logger, logging.INFO, "a step"):
        pass
    with pytest.raises(KeyError), timed(logger, logging.INFO, "another"):
        raise KeyError
    first, second = caplog.messages
    assert first.startswith("a step: ")
    assert second.startswith("another: KeyError after ")


def test_gits_commands_are_logged_without_secrets(caplog):
    caplog.set_level(logging.DEBUG, "vpatch")
    header = "http.extraHeader=Authorization: Basic cGE1NQ"
    command.run(None, "-c", header, "-c", "a.url=https://me:pa55@host/", "version")
    assert any("version: " in message for message in caplog.messages)
    assert "pa55" not in caplog.text
    assert "cGE1NQ" not in caplog.text


def test_an_engines_commands_are_logged_without_secrets(caplog, tmp_path):
    caplog.set_level(logging.INFO, "vpatch")
    command = ["sh", "-c", "exit 3", "--api-key", "pa55"]
    process.run(command, cwd=tmp_path, log=tmp_path / "log", timeout=60)
    assert f"the output in {tmp_path / 'log'}: sh -c 'exit 3' --api-key '***'" in caplog.text
    assert " ended with 3: " in caplog.text
    assert "pa55" not in caplog.text


def test_the_credentials_of_an_index_are_hidden(isolated, index, caplog):
    """From pip's settings, and from netrc."""
    caplog.set_level(logging.INFO, "vpatch")
    index.add(VERSION, archive())
    (isolated / "home" / ".netrc").write_text("machine localhost login me password 0f-netrc\n")
    (isolated / "home" / ".netrc").chmod(0o600)
    named = index.url.replace("http://", "http://me:0f-pip@")
    other = index.url.replace("127.0.0.1", "localhost")
    (isolated / "pip.conf").write_text(
        f"[global]\nindex-url = {named}\nextra-index-url = {other}\n"
    )
    settings = read_pip_settings({"PIP_CONFIG_FILE": str(isolated / "pip.conf")})
    assert index_urls(settings) == (named, other)
    list_releases("vllm", settings)
    assert redacted("0f-pip 0f-netrc") == "*** ***"
    assert f"asking the index {index.url} for vllm: " in caplog.text
    assert "0f-pip" not in caplog.text
