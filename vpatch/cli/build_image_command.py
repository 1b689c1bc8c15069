"""vpatch build-image: a lock becomes a container image that has what was applied, verified."""

from __future__ import annotations

import os
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from vpatch.cli import render
from vpatch.cli.apply_command import hide_from_git
from vpatch.cli.locked import Locked, applied, from_lock
from vpatch.cli.session import (
    Session,
    json_option,
    library_options,
    request_from,
    source_options,
)
from vpatch.declare.recipe import RecipeDeclaration
from vpatch.declare.yamlfile import read_yaml
from vpatch.docker.engine import Docker
from vpatch.docker.names import is_tag
from vpatch.errors import ExitCode, UsageError, VpatchError
from vpatch.image.base import Choice, choose, pin, refuse_network
from vpatch.image.build import Settings, build_image, builds_below, contexts, overlay_build
from vpatch.image.context import EPOCH, labels_of, release_of, version_of
from vpatch.image.mode import to_build
from vpatch.smoke.machine import this_machine

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vpatch.lock import ImageMode, Lock, LockedImage
    from vpatch.progress import Progress, Task

_MODES: dict[str, ImageMode] = {"overlay": "overlay", "source": "source", "cpu": "cpu"}
_REPOSITORY = "vllm-vpatch"
_STEP_WIDTH = 88
_DIGITS = 12
# What the base of the last build is called as long as it is not built.
_EARLIER = "what the build before made"
_LOCAL = "an id of this machine: no registry is known to have this base"
_LOG_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
# Before what `install.py` reports in the image.
_SAYS = "verified: "


@click.command("build-image")
@source_options
@library_options
@click.option(
    "--lock",
    "lock_file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Build what a lock says that is kept elsewhere, on the base that it pins.",
)
@click.option(
    "--to",
    "target",
    type=click.Path(path_type=Path),
    help="The checkout's folder  [default: .vpatch/TREE-VERSION]",
)
@click.option("--force", is_flag=True, help="Overwrite a checkout that holds your changes.")
@click.option(
    "--mode",
    type=click.Choice(list(_MODES)),
    help="What to build  [default: as locked, or the least that carries the patches]",
)
@click.option(
    "--base", metavar="IMAGE", help="Build on this image  [default: the recipe's, or as locked]"
)
@click.option("--repin", is_flag=True, help="Ask again what the base's name means.")
@click.option(
    "--tag",
    "tags",
    multiple=True,
    metavar="NAME",
    help="Of the image  [default: vllm-vpatch:VERSION]; repeatable.",
)
@click.option("--push", is_flag=True, help="Push every tag to its registry.")
@click.option("--no-cache", is_flag=True, help="Build every step anew.")
@click.option("--platform", metavar="OS/ARCH", help="Of the image, as linux/arm64.")
@click.option("--network", metavar="NAME", help="For what the build fetches, as docker build.")
@click.option(
    "--secret",
    "secrets",
    multiple=True,
    metavar="id=NAME,src=FILE",
    help="For the build alone; id=pip.conf is pip's settings. Needs BuildKit; repeatable.",
)
@click.option(
    "--certificate",
    "certificates",
    multiple=True,
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="A PEM file that pip trusts in the build  [default: pip's cert]; repeatable.",
)
@click.option(
    "--build-arg",
    "arguments",
    multiple=True,
    metavar="NAME=VALUE",
    help="For vLLM's Dockerfile, or for pip's build; repeatable.",
)
@click.option(
    "--iidfile", type=click.Path(path_type=Path), help="Write the image's id to this file."
)
@click.option("--dry-run", is_flag=True, help="Apply, say what would be built, and build nothing.")
@json_option
def command(
    vllm: str | None,
    recipe: str | None,
    trees: tuple[str, ...],
    only: tuple[str, ...],
    patches: tuple[Path, ...],
    recipes: tuple[Path, ...],
    lock_file: Path | None,
    target: Path | None,
    mode: str | None,
    base: str | None,
    tags: tuple[str, ...],
    platform: str | None,
    network: str | None,
    secrets: tuple[str, ...],
    certificates: tuple[Path, ...],
    arguments: tuple[str, ...],
    iidfile: Path | None,
    *,
    offline: bool,
    force: bool,
    repin: bool,
    push: bool,
    no_cache: bool,
    dry_run: bool,
    as_json: bool,
) -> ExitCode:
    """Apply patches as `vpatch apply` does, and build an image of exactly what its lock says.

    \b
    overlay  only Python was changed: patched files over the vLLM of a base, in seconds
    cpu      the same over vLLM's CPU build from the package index: the default without a GPU
    source   anything else was changed: vLLM's own Dockerfile, on the patched checkout

    The last step of every build runs in the image, and fails it: digests of all touched files and
    of those that they replace, bytecode, imports, and the effect of each patch.
    """  # noqa: D301 - click reads the character itself
    session = Session(patches, recipes, offline)
    _refuse_names(tags, iidfile, push=push, offline=offline)
    with ExitStack() as stack:
        if lock_file is not None:
            if vllm or recipe or trees or only or base or mode or repin:
                raise UsageError(
                    "a lock says the source, the patches, the mode and the base",
                    where=str(lock_file),
                    todo="leave out what names one of them, or --lock",
                )
            locked = from_lock(session, lock_file, stack)
        else:
            request = request_from(vllm, recipe, trees, only)
            locked = applied(session, request, target, stack, force=force)
        settings = Settings(
            session.pip_settings,
            network,
            platform,
            secrets,
            certificates,
            _split(arguments),
            no_cache,
            _epoch(),
        )
        named = base or _base_of(session, recipe or locked.lock.recipe)
        asked = _MODES[mode] if mode else None
        choice = choose(
            locked.lock,
            locked.checkout,
            mode=asked,
            base=named,
            arguments=settings.arguments,
            repin=repin,
            has_gpu=bool(this_machine().gpus),
        )
        if offline:
            refuse_network(choice)
        if base and asked is None:
            _tell_overlay(session.progress, choice, locked.lock)
        if choice.mode == "cpu":
            settings = replace(settings, certificates=_trusted(session, certificates))
        if dry_run:
            _show(_dry(locked, choice, settings), as_json=as_json)
            return ExitCode.CLEAN
        docker = stack.enter_context(closing(Docker()))
        image = pin(docker, choice, platform, session.progress, offline=offline)
        payload = locked.payload(image)
        log_path = _log_path(session, payload.lock, choice.mode)
        steps = _Steps(session.progress)
        with _log(log_path) as log:
            built = build_image(docker, payload, settings, locked.checkout, log, steps.tell)
        steps.end()
        lock = built.payload.lock
        locked.keep(lock)
        names = tags or (_default_tag(lock),)
        for name in names:
            docker.tag(built.identity, name)
        if iidfile is not None:
            iidfile.write_text(built.identity, encoding="ascii")
        digests = [_push(docker, name, session.progress) for name in names] if push else []
    document: dict[str, Any] = {
        "image": built.identity,
        "version": version_of(lock),
        "mode": choice.mode,
        "base": choice.base,
        "pinned": _pinned(built.payload.image, as_json=as_json),
        "tags": list(names),
        "pushed": digests,
        "lock": str(locked.path),
        "log": str(log_path),
        "verified": _verified(log_path),
    }
    if as_json:
        document["labels"] = labels_of(lock, built.payload.manifest)
    _show(document, as_json=as_json)
    return ExitCode.CLEAN


def _dry(locked: Locked, choice: Choice, settings: Settings) -> dict[str, Any]:
    """What would be built, as far as it can be told without asking an engine or a registry."""
    known = choice.known
    payload = locked.payload(known or choice.unpinned)
    with contexts(payload, settings) as room:
        builds = builds_below(payload, settings, locked.checkout, room)
        below = _EARLIER if builds else payload.image.pinned
        builds.append(overlay_build(payload, settings, below, room))
        arguments = {
            build.dockerfile.relative_to(build.context).as_posix(): dict(build.arguments)
            for build in builds
        }
    return {
        "mode": choice.mode,
        "base": choice.base,
        "pinned": known.pinned if known else "not yet: the build asks for its digest",
        "files": [file.path for file in payload.lock.files],
        "to compile": to_build(payload.lock),
        "build arguments": arguments,
    }


def _base_of(session: Session, recipe: str | None) -> str | None:
    """The base that a recipe names; None where it names none."""
    if recipe is None:
        return None
    declared, _ = read_yaml(session.library.recipe(recipe), RecipeDeclaration)
    return declared.image.base if declared.image else None


def _tell_overlay(progress: Progress, choice: Choice, lock: Lock) -> None:
    """Say that a base means an overlay, where the user may expect a cpu image."""
    if choice.mode == "overlay" and not this_machine().gpus:
        progress.note(
            f"the image is an overlay, so {choice.base} must have vLLM {release_of(lock)}; "
            "--mode cpu installs the CPU build on a plain base instead"
        )


def _trusted(session: Session, asked: tuple[Path, ...]) -> tuple[Path, ...]:
    """What pip trusts here, a build has to trust as well."""
    cert = session.pip_settings.cert
    return asked or ((Path(cert),) if cert else ())


def _refuse_names(
    tags: tuple[str, ...], iidfile: Path | None, *, push: bool, offline: bool
) -> None:
    """Say what is wrong with the names of what is to come, before it takes an hour to come."""
    for tag in tags:
        if not is_tag(tag):
            raise UsageError(
                f"{tag} is no name of an image",
                todo="give --tag NAME:TAG in small letters, such as registry.example/team/vllm:1",
            )
    if iidfile is not None and not os.access(iidfile.absolute().parent, os.W_OK):
        raise UsageError("there is no such folder to write to", where=str(iidfile.parent))
    if push and not tags:
        raise UsageError("--push needs a name to push", todo="give --tag REGISTRY/NAME:TAG")
    if push and offline:
        raise UsageError("--offline, and --push needs a registry", todo="leave out one of the two")


def _split(arguments: tuple[str, ...]) -> dict[str, str]:
    wrong = [text for text in arguments if not text.partition("=")[1]]
    if wrong:
        raise UsageError(f"--build-arg {wrong[0]} has no value", todo="give NAME=VALUE")
    return {name: value for name, _, value in (text.partition("=") for text in arguments)}


def _log_path(session: Session, lock: Lock, mode: ImageMode) -> Path:
    hide_from_git(session.checkouts)
    # By the commit of the patched tree: the lock of the image is known only after the build.
    return session.checkouts / f"build-image-{release_of(lock)}-{lock.head[:_DIGITS]}-{mode}.log"


def _pinned(image: LockedImage, *, as_json: bool) -> str:
    return image.pinned if as_json or not image.local else f"{image.pinned} ({_LOCAL})"


def _epoch() -> int:
    """Return the time of all files of an image, as https://reproducible-builds.org names it."""
    text = os.environ.get("SOURCE_DATE_EPOCH", str(EPOCH))
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS):
        raise UsageError(
            f"SOURCE_DATE_EPOCH is {text!r}, and not a number of seconds since 1970",
            todo="give such a number, as `git log -1 --format=%ct` prints it, or unset it",
        )
    return int(text)


@contextmanager
def _log(path: Path) -> Iterator[BinaryIO]:
    try:
        # A project may have put a link there, to have a file of the user's overwritten.
        log = open(os.open(path, _LOG_FLAGS, 0o666), "wb")  # noqa: PTH123, SIM115 - of a descriptor
    except OSError as error:
        raise VpatchError(
            f"the log cannot be written: {error.strerror}",
            where=str(path),
            todo="free space or correct the permissions; if it is a link or a pipe, remove it",
        ) from error
    with log:
        yield log


def _verified(log: Path) -> list[str]:
    """What the last step said of itself; nothing where the engine had its layer already."""
    said = log.read_text(encoding="utf-8", errors="replace").splitlines()
    found = [line for line in said if line.startswith(_SAYS)]
    return [line.removeprefix(_SAYS) for line in found] or [
        "when this layer was made, by an earlier build"
    ]


def _default_tag(lock: Lock) -> str:
    # A tag has no plus.
    return f"{_REPOSITORY}:{version_of(lock).replace('+', '-')}"


class _Steps:
    """Tasks of which one begins where the last one ends."""

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


def _push(docker: Docker, name: str, progress: Progress) -> str:
    task = progress.start(f"Pushing {name}")
    digest = docker.push(name, task)
    task.done()
    return digest


def _show(document: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        render.print_json(document)
        return
    width = max(map(len, document))
    for key, value in document.items():
        for number, line in enumerate(_lines(value)):
            click.echo(f"{'' if number else key:<{width}}  {line}")


def _lines(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [f"{outer}: {k}={v}" for outer, inner in value.items() for k, v in inner.items()]
    return [str(one) for one in value] if isinstance(value, list) else [str(value)]
