from __future__ import annotations

from pathlib import Path

import pytest

from tests.image.locks import lock_of_files
from vpatch.docker.buildkit import buildkit_command
from vpatch.docker.engine import Build
from vpatch.errors import UsageError
from vpatch.image.build import Settings, indexes, prepared
from vpatch.image.context import Payload
from vpatch.library import installed
from vpatch.lock import LockedImage
from vpatch.outcome import Plan
from vpatch.source.pip_settings import PipSettings

LOCKED = LockedImage(mode="cpu", base="python:3", pinned="python@sha256:1")
PAYLOAD = Payload(lock_of_files({}, image=LOCKED), LOCKED, Plan(None, ()))
PIP = PipSettings(index_url="https://a/simple", extra_index_urls=("file:///b", "http://c/simple"))


def test_pips_indexes_reach_the_build():
    assert indexes(PIP) == {
        "PIP_INDEX_URL": "https://a/simple",
        "PIP_EXTRA_INDEX_URL": "http://c/simple",
    }
    assert indexes(PipSettings()) == {}


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"index_url": "https://me:secret@a/simple"}, "PIP_INDEX_URL"),
        ({"extra_index_urls": ("https://token@a/simple",)}, "PIP_EXTRA_INDEX_URL"),
    ],
)
def test_a_password_does_not(settings, name):
    with pytest.raises(UsageError) as caught:
        indexes(PipSettings(**settings))
    assert caught.value.what == (
        f"pip's setting {name} has a password, which the image's history would show"
    )
    assert caught.value.todo == (
        "hand pip's settings over as a secret: --secret id=pip.conf,src=FILE"
    )


def test_without_secrets_the_engines_own_builder_does(tmp_path):
    (tmp_path / "a.pem").write_bytes(b"A")
    (tmp_path / "b.pem").write_bytes(b"B")
    settings = Settings(PIP, certificates=(tmp_path / "a.pem", tmp_path / "b.pem"))
    with prepared(PAYLOAD, settings, None) as (first, last):
        text = first.dockerfile.read_text()
        assert "--mount" not in text
        whole = (installed("docker") / "cpu.Dockerfile").read_text()
        kept = [line for line in whole.splitlines() if "--mount" not in line]
        assert [line for line in text.splitlines() if line != "RUN \\"] == kept
        assert first.arguments == {
            "BASE": "python@sha256:1",
            "VLLM": "0.50.0",
            "PIP_INDEX_URL": "https://a/simple",
            "PIP_EXTRA_INDEX_URL": "http://c/simple",
        }
        assert (first.context / "build" / "certificates.pem").read_bytes() == b"A\nB"
        assert (first.secrets, first.target) == ((), None)
        # What is laid over needs nothing from a network, and gets none.
        assert last.network == "none"


def test_with_a_secret_pips_settings_are_in_it():
    settings = Settings(
        PipSettings(index_url="https://me:secret@a/simple"), secrets=("id=pip.conf,src=f",)
    )
    with prepared(PAYLOAD, settings, None) as (first, last):
        assert "RUN --mount=type=secret,id=pip.conf \\\n" in first.dockerfile.read_text()
        assert first.arguments == {"BASE": "python@sha256:1", "VLLM": "0.50.0"}
        assert (first.secrets, last.secrets) == (("id=pip.conf,src=f",), ())


def test_the_command_line_of_buildkit():
    build = Build(
        Path("/context"),
        Path("/context/Dockerfile"),
        {"A": "1"},
        {"b": "2"},
        network="host",
        platform="linux/arm64",
        secrets=("id=x,src=y",),
        target="vllm-openai",
    )
    assert " ".join(buildkit_command(build, Path("/iid"))) == (
        "docker build --progress plain --iidfile /iid --file /context/Dockerfile "
        "--target vllm-openai --network host --platform linux/arm64 --secret id=x,src=y "
        "--build-arg A=1 --label b=2 /context"
    )
