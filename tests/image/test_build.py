from __future__ import annotations

import stat
from pathlib import Path

import pytest
from pydantic import ValidationError

from tests.helpers import fails
from tests.image.locks import lock_of_files
from vpatch.checkout.lockfile import LockedImage, LockedPackage
from vpatch.docker.build import Build
from vpatch.docker.buildkit import buildkit_command
from vpatch.errors import ExitCode
from vpatch.image.build import builds_below, contexts, overlay_build
from vpatch.image.context import Payload, release_of
from vpatch.image.cpu import apt_pins, indexes, pip_pins
from vpatch.image.settings import BuildSettings
from vpatch.library.catalog import installed
from vpatch.planning.state import Plan
from vpatch.source.pip_settings import PipSettings

LOCKED = LockedImage(mode="cpu", base="python:3", pinned="python@sha256:1")
PAYLOAD = Payload(lock_of_files({}, image=LOCKED), Plan(None, ()), image=LOCKED)
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
    with fails("image.password-in-settings") as caught:
        indexes(PipSettings(**settings))
    assert caught.value.what == (
        f"pip's setting {name} contains a password, which the image's history would show"
    )
    assert caught.value.hint == ("pass pip's settings as a secret: --secret id=pip.conf,src=FILE")


def test_an_index_that_is_no_url():
    with fails("source.wrong-url"):
        indexes(PipSettings(index_url="https://[bad/simple"))


def below(settings):
    """The one build of a cpu image, and those files of its context that vpatch writes."""
    with contexts(PAYLOAD, settings) as workdir:
        (build,) = builds_below(PAYLOAD, settings, None, workdir)
        names = ("python/certificates.pem", "python/pins", "system/pins")
        at = workdir / "cpu"
        texts = [(at / n.partition("/")[0] / "opt/vpatch-build" / n).read_text() for n in names]
        yield build, (at / "cpu.Dockerfile").read_text(), *texts


def test_without_secrets_the_engines_own_builder_does(tmp_path):
    (tmp_path / "a.pem").write_bytes(b"A")
    (tmp_path / "b.pem").write_bytes(b"B")
    settings = BuildSettings(PIP, certificates=(tmp_path / "a.pem", tmp_path / "b.pem"))
    ((build, text, certificates, *pins),) = below(settings)
    assert "--mount" not in text
    whole = (installed("docker") / "cpu.Dockerfile").read_text()
    kept = [line for line in whole.splitlines() if "--mount" not in line]
    assert [line for line in text.splitlines() if line != "RUN \\"] == kept
    assert build.arguments == {
        "BASE": "python@sha256:1",
        "VLLM": "0.50.0",
        "PIP_INDEX_URL": "https://a/simple",
        "PIP_EXTRA_INDEX_URL": "http://c/simple",
    }
    assert certificates == "A\nB"
    assert pins == ["", ""]
    assert (build.secrets, build.target, build.no_cache) == ((), None, False)


def test_the_overlay_gets_no_network(tmp_path):
    build = overlay_build(PAYLOAD, BuildSettings(PIP, no_cache=True), "below", tmp_path)
    assert build.network == "none"
    assert build.no_cache
    assert build.arguments == {"BASE": "below"}


def test_a_context_has_one_time_and_the_usual_modes(tmp_path):
    overlay_build(PAYLOAD, BuildSettings(PIP, epoch=86400), "below", tmp_path)
    found = [path.stat() for path in (tmp_path / "overlay").rglob("*")]
    assert {one.st_mtime for one in found} == {86400}
    assert {stat.S_IMODE(one.st_mode) for one in found} == {0o755, 0o644}


def test_with_a_secret_pips_settings_are_in_it():
    settings = BuildSettings(
        PipSettings(index_url="https://me:secret@a/simple"), secrets=("id=pip.conf,src=f",)
    )
    ((build, text, *_),) = below(settings)
    assert "RUN --mount=type=secret,id=pip.conf \\\n" in text
    assert not any("secret" in value for value in build.arguments.values())
    assert build.secrets == ("id=pip.conf,src=f",)


PACKAGES = {
    "apt": (LockedPackage(name="g++", version="4:12.2.0-3"),),
    "pip": (
        LockedPackage(name="torch", version="2.11.0", sha256="a" * 64),
        LockedPackage(name="tiny", version="1.0", sha256="b" * 64),
    ),
}


def test_what_was_locked_is_installed_again():
    image = LOCKED.model_copy(update=PACKAGES)
    assert apt_pins(image) == ["g++=4:12.2.0-3"]
    assert pip_pins(image) == [
        f"torch==2.11.0 --hash=sha256:{'a' * 64}",
        f"tiny==1.0 --hash=sha256:{'b' * 64}",
    ]


@pytest.mark.parametrize(
    "package",
    [
        {"name": "-oAPT::Update::Pre-Invoke::=id", "version": "1"},
        {"name": "a b", "version": "1"},
        {"name": "a", "version": "1 --index-url=http://b"},
        {"name": "a\n--index-url=http://b", "version": "1"},
        {"name": "a", "version": "1\n"},
        {"name": "a", "version": "1", "sha256": "b" * 64 + " -e ."},
    ],
)
def test_a_lock_cannot_give_apt_or_pip_options(package):
    with pytest.raises(ValidationError):
        LockedPackage(**package)


def test_pip_wants_all_hashes_or_none():
    plain = LockedPackage(name="tiny", version="1.0")
    image = LOCKED.model_copy(update={"pip": (PACKAGES["pip"][0], plain)})
    assert pip_pins(image) == ["torch==2.11.0", "tiny==1.0"]


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
        no_cache=True,
    )
    assert " ".join(buildkit_command(build, Path("/iid"))) == (
        "docker build --progress plain --iidfile /iid --file /context/Dockerfile "
        "--target vllm-openai --network host --platform linux/arm64 --no-cache "
        "--secret id=x,src=y "
        "--build-arg A=1 --label b=2 /context"
    )


def test_a_build_without_room_for_its_files(tmp_path):
    (tmp_path / "overlay").touch()
    with fails("image.not-prepared") as caught:
        overlay_build(PAYLOAD, BuildSettings(PIP), "sha256:1", tmp_path)
    assert caught.value.exit_code == ExitCode.ENVIRONMENT


def test_an_image_of_no_release():
    source = PAYLOAD.lock.source.model_copy(update={"version": None})
    with fails("image.not-a-release"):
        release_of(PAYLOAD.lock.model_copy(update={"source": source}))
