"""From options to an image build: base, settings, log and tags."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, BinaryIO

from vpatch.app.checkout import hide_from_git
from vpatch.docker.names import is_tag
from vpatch.errors import UsageError
from vpatch.harness.machine import this_machine
from vpatch.image.build import BuildSettings, builds_below, contexts, overlay_build
from vpatch.image.context import EPOCH, release_of, version_of
from vpatch.image.mode import to_build
from vpatch.util.os_errors import cannot_write

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vpatch.app.context import Context
    from vpatch.app.locked import Locked
    from vpatch.checkout.lockfile import ImageMode, LockedImage, LockFile
    from vpatch.docker.engine import Docker
    from vpatch.image.base import Choice
    from vpatch.progress import Progress, Task

_REPOSITORY = "vllm-vpatch"


_STEP_WIDTH = 88


_DIGITS = 12


# What the base of the last build is called as long as it is not built.
_EARLIER = "what the build before made"


_LOCAL = "an id of this machine: no registry is known to have this base"


_LOG_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


# Before what `install.py` reports in the image.
_SAYS = "verified: "


@dataclass(frozen=True)
class PlannedBuild:
    """What would be built, as far as that is known without Docker and a registry.

    `pinned` is None if only the build asks for the digest of the base. `build_arguments` are by
    the path of the Dockerfile, and by name.
    """

    mode: ImageMode
    base: str
    pinned: str | None
    files: list[str]
    to_compile: list[str]
    build_arguments: dict[str, dict[str, str]]


def planned_build(locked: Locked, choice: Choice, settings: BuildSettings) -> PlannedBuild:
    """Return what would be built, and build nothing."""
    known = choice.known
    payload = locked.payload(known or choice.unpinned)
    with contexts(payload, settings) as workdir:
        builds = builds_below(payload, settings, locked.checkout, workdir)
        below = _EARLIER if builds else payload.image.pinned
        builds.append(overlay_build(payload, settings, below, workdir))
        arguments = {
            build.dockerfile.relative_to(build.context).as_posix(): dict(build.arguments)
            for build in builds
        }
    return PlannedBuild(
        mode=choice.mode,
        base=choice.base,
        pinned=known.pinned if known else None,
        files=[file.path for file in payload.lock.files],
        to_compile=to_build(payload.lock),
        build_arguments=arguments,
    )


def base_of(context: Context, recipe: str | None) -> str | None:
    """The base that a recipe names; None where it names none."""
    if recipe is None:
        return None
    declared, _ = context.library.read_recipe(context.library.recipe(recipe))
    return declared.image.base if declared.image else None


def note_overlay(progress: Progress, choice: Choice, lock: LockFile) -> None:
    """Say that a base means an overlay, where the user may expect a cpu image."""
    if choice.mode == "overlay" and not this_machine().gpus:
        progress.note(
            f"the image is an overlay, so {choice.base} must have vLLM {release_of(lock)}; "
            "--mode cpu installs the CPU build on a plain base instead"
        )


def trusted_certificates(context: Context, asked: tuple[Path, ...]) -> tuple[Path, ...]:
    """What pip trusts here, a build has to trust as well."""
    cert = context.pip_settings.cert
    return asked or ((Path(cert),) if cert else ())


def refuse_names(tags: tuple[str, ...], iidfile: Path | None, *, push: bool, offline: bool) -> None:
    """Say what is wrong with the names of what is to come, before it takes an hour to come."""
    for tag in tags:
        if not is_tag(tag):
            raise UsageError(
                f"{tag} cannot be the name of an image",
                hint="give --tag NAME:TAG in small letters, such as registry.example/team/vllm:1",
                code="cli.bad-value",
            )
    if iidfile is not None and not os.access(iidfile.absolute().parent, os.W_OK):
        raise UsageError(
            "there is no such folder to write the image's id to",
            where=str(iidfile.parent),
            hint="make the folder, or give another path",
            code="cli.bad-value",
        )
    if push and not tags:
        raise UsageError(
            "--push needs a name to push",
            hint="give --tag REGISTRY/NAME:TAG",
            code="cli.missing-option",
        )
    if push and offline:
        raise UsageError(
            "--push needs a registry, which --offline forbids",
            hint="leave out one of the two",
            code="image.offline",
        )


def split_arguments(arguments: tuple[str, ...]) -> dict[str, str]:
    wrong = [text for text in arguments if not text.partition("=")[1]]
    if wrong:
        raise UsageError(
            f"--build-arg {wrong[0]} has no value", hint="give NAME=VALUE", code="cli.bad-value"
        )
    return {name: value for name, _, value in (text.partition("=") for text in arguments)}


def log_path_of(context: Context, lock: LockFile, mode: ImageMode) -> Path:
    hide_from_git(context.checkouts)
    # By the commit of the patched tree: the lock of the image is known only after the build.
    return context.checkouts / f"build-image-{release_of(lock)}-{lock.head[:_DIGITS]}-{mode}.log"


def pinned_base(image: LockedImage) -> str:
    """The digest of the base, in words for people."""
    return image.pinned if not image.local else f"{image.pinned} ({_LOCAL})"


def source_date_epoch() -> int:
    """Return the time of all files of an image, as https://reproducible-builds.org names it."""
    text = os.environ.get("SOURCE_DATE_EPOCH", str(EPOCH))
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS):
        raise UsageError(
            f"SOURCE_DATE_EPOCH is {text!r}, not a number of seconds since 1970",
            hint="set it to what `git log -1 --format=%ct` prints, or unset it",
            code="image.bad-source-date-epoch",
        )
    return int(text)


def _without_links(path: str, _flags: int) -> int:
    return os.open(path, _LOG_FLAGS, 0o666)


@contextmanager
def opened_log(path: Path) -> Iterator[BinaryIO]:
    try:
        # A project may have put a link there, to have a file of the user's overwritten.
        log = open(path, "wb", opener=_without_links)  # noqa: SIM115 - for the opener
    except OSError as error:
        raise cannot_write(
            "the log",
            error,
            where=str(path),
            hint="free space or correct the permissions; if it is a link or a pipe, remove it",
        ) from error
    with log:
        yield log


def verified_by_build(log: Path) -> list[str]:
    """What the last step said of itself; nothing where the engine had its layer already."""
    said = log.read_text(encoding="utf-8", errors="replace").splitlines()
    found = [line for line in said if line.startswith(_SAYS)]
    return [line.removeprefix(_SAYS) for line in found] or [
        "when this layer was made, by an earlier build"
    ]


def default_tag(lock: LockFile) -> str:
    # A tag has no plus.
    return f"{_REPOSITORY}:{version_of(lock).replace('+', '-')}"


class Steps:
    """Tasks that follow one another: one begins when the last one ends."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task: Task | None = None

    def tell(self, step: str) -> None:
        self.end()
        # A step may be a whole script; the log has it.
        self._task = self._progress.start(shorten(step, _STEP_WIDTH, placeholder=" ..."))

    def end(self) -> None:
        if self._task is not None:
            self._task.done()
            self._task = None


def push_image(docker: Docker, name: str, progress: Progress) -> str:
    task = progress.start(f"Pushing {name}")
    digest = docker.push(name, task)
    task.done()
    return digest
