"""Lock -> image: the builds, in their order, and what each is given."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from vpatch import git_checkout as git
from vpatch.docker.buildkit import sent_files
from vpatch.docker.engine import Build
from vpatch.engine import INSIDE
from vpatch.errors import UsageError, VpatchError
from vpatch.git_found import opened_checkout
from vpatch.image.context import (
    labels_of,
    release_of,
    version_of,
    write_context,
)
from vpatch.image.source import needed, source_build
from vpatch.library import installed
from vpatch.source.urls import split_credentials

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from vpatch.docker.engine import Docker
    from vpatch.image.context import Payload
    from vpatch.lock import ImageMode
    from vpatch.source.pip_settings import PipSettings

_MOUNT = "--mount=type=secret"
_VERSION_FILE = "vllm/_version.py"
_OVERLAY, _CPU = "overlay.Dockerfile", "cpu.Dockerfile"
# What the lock says, and no argument may say otherwise.
_FIXED = {"BASE", "VLLM"}
# What the base of the last build is called as long as it is not built.
_EARLIER = "what the build before made"


@dataclass(frozen=True)
class Settings:
    """How to build. `certificates` are PEM files that pip is to trust in a cpu build.

    `network` is as `docker build --network` takes it; the overlay itself needs none. `arguments`
    are for vLLM's own Dockerfile, or for the one with its CPU build.
    """

    pip: PipSettings
    network: str | None = None
    platform: str | None = None
    secrets: Sequence[str] = ()
    certificates: Sequence[Path] = ()
    arguments: Mapping[str, str] = field(default_factory=dict)


def build_image(
    docker: Docker,
    payload: Payload,
    settings: Settings,
    checkout: Path | None,
    log: BinaryIO,
    tell: Callable[[str], None],
) -> str:
    """Build what a lock says on the base that it names, verified from inside.

    `checkout` is that of the lock, which only the mode source needs. `log` gets all that the
    builds say, `tell` each step. Returns the image's id.

    Raises:
        DockerError: a build failed, or what came of it is not what the lock says.
    """
    with prepared(payload, settings, checkout) as builds:
        *earlier, last = builds
        below = last.arguments["BASE"]
        for build in earlier:
            below = docker.build(build, log, tell)
        base = docker.image(below)
        if base is None:
            raise VpatchError(
                "the image that was built, or pulled, is not in this engine",
                where=below,
                todo="see that nothing removes images meanwhile",
            )
        # Whoever the base runs as, the image shall.
        arguments = {"BASE": below, "BASE_USER": base.user or "0"}
        return docker.build(replace(last, arguments=arguments), log, tell)


@contextmanager
def prepared(payload: Payload, settings: Settings, checkout: Path | None) -> Iterator[list[Build]]:
    """Write the context of each build, and remove them afterwards.

    Raises:
        UsageError: a setting has no use in this mode.
    """
    _refuse_idle(payload.image.mode, settings)
    with tempfile.TemporaryDirectory(prefix="vpatch-") as name:
        try:
            builds = _builds(payload, settings, checkout, Path(name))
        except OSError as error:
            raise VpatchError(
                f"the build could not be prepared: {error}",
                todo="free space in the folder for temporary files, or name another with TMPDIR",
            ) from error
        yield builds


def _builds(payload: Payload, settings: Settings, checkout: Path | None, room: Path) -> list[Build]:
    image = payload.image
    builds = []
    if image.mode == "cpu":
        builds.append(_cpu_build(payload, settings, _folder(room, "cpu")))
    if image.mode == "source":
        context = _clone(payload, checkout, room / "source")
        builds.append(source_build(context, image, settings))
    context = _folder(room, "overlay")
    write_context(payload, installed("docker") / _OVERLAY, context)
    last = Build(
        context,
        context / _OVERLAY,
        {"BASE": _EARLIER if builds else image.pinned},
        labels_of(payload.lock, payload.manifest),
        network="none",
        platform=settings.platform,
    )
    return [*builds, last]


def _refuse_idle(mode: ImageMode, settings: Settings) -> None:
    """Refuse what would be without effect: somebody relies on it."""
    if mode == "overlay":
        given = {
            "--network": settings.network,
            "--secret": settings.secrets,
            "--certificate": settings.certificates,
            "--build-arg": settings.arguments,
        }
        idle = [option for option, value in given.items() if value]
        if idle:
            raise UsageError(
                f"an overlay fetches nothing and takes no arguments: {', '.join(idle)} would have "
                "no effect",
                todo="leave it out, or choose another --mode",
            )
    fixed = sorted(settings.arguments.keys() & _FIXED) if mode == "cpu" else []
    if fixed:
        raise UsageError(
            f"the lock says {fixed[0]}, and --build-arg may not say another",
            todo="name the base with --base, and the release with --vllm",
        )
    if mode == "source" and settings.certificates:
        raise UsageError(
            "vLLM's Dockerfile has no place for certificates",
            todo="name bases that have them: --base, and --build-arg BUILD_BASE_IMAGE=NAME",
        )


def _cpu_build(payload: Payload, settings: Settings, context: Path) -> Build:
    """The build of vLLM's CPU wheel on a Python base."""
    text = (installed("docker") / _CPU).read_text(encoding="utf-8")
    (context / _CPU).write_text(text if settings.secrets else _without_mounts(text), "utf-8")
    room = _folder(context, "build")
    shutil.copyfile(INSIDE / "requirements.py", room / "requirements.py")
    bundle = b"\n".join(file.read_bytes() for file in settings.certificates)
    (room / "certificates.pem").write_bytes(bundle)
    arguments = {"BASE": payload.image.pinned, "VLLM": release_of(payload.lock)}
    # A pip.conf of its own says which indexes there are.
    has_settings = any("id=pip.conf" in secret.split(",") for secret in settings.secrets)
    arguments |= {} if has_settings else indexes(settings.pip)
    return Build(
        context,
        context / _CPU,
        arguments | dict(settings.arguments),
        network=settings.network,
        platform=settings.platform,
        secrets=settings.secrets,
    )


def _clone(payload: Payload, checkout: Path | None, context: Path) -> Path:
    """The patched checkout with its .git, which vLLM's Dockerfile asks for the version: a tag.

    The tree is that of the source archive, which has what .dockerignore keeps out of a build, and
    the file that a build writes its version to: neither may make it a changed one.
    """
    with opened_checkout(needed(checkout)) as repo:
        git.clone(repo, context, tag=f"v{version_of(payload.lock)}")
    tracked = git.tracked_files(context)
    git.overlook(context, (tracked & {_VERSION_FILE}) | (tracked - sent_files(context)))
    return context


def indexes(pip: PipSettings) -> dict[str, str]:
    """Return pip's indexes as build arguments, which an image's history shows.

    Those of this machine's files are left out: a build does not see them.

    Raises:
        UsageError: one has a password.
    """
    found = {}
    for name, urls in (
        ("PIP_INDEX_URL", (pip.index_url,)),
        ("PIP_EXTRA_INDEX_URL", pip.extra_index_urls),
    ):
        known = [url for url in urls if url and url.startswith(("http://", "https://"))]
        if any(split_credentials(url)[1] for url in known):
            raise UsageError(
                f"pip's setting {name} has a password, which the image's history would show",
                todo="hand pip's settings over as a secret: --secret id=pip.conf,src=FILE",
            )
        if known:
            found[name] = " ".join(known)
    return found


def _without_mounts(text: str) -> str:
    """A Dockerfile for the engine's own builder, which knows no secrets."""
    kept = []
    for line in text.splitlines(keepends=True):
        before, mount, _ = line.partition(_MOUNT)
        kept.append(f"{before}\\\n" if mount else line)
    return "".join(kept)


def _folder(room: Path, name: str) -> Path:
    made = room / name
    made.mkdir()
    return made
