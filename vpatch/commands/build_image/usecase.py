"""The use case `build-image`: choose base and settings, build, tag, push and keep the lock."""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vpatch.commands.audit.author import Author
from vpatch.commands.build_image.advisories import statuses_of
from vpatch.commands.build_image.locks import applied, from_locks
from vpatch.commands.build_image.log import log_path_of, opened_log
from vpatch.commands.build_image.phases import BuildPhases
from vpatch.commands.build_image.provenance import provenance_of
from vpatch.commands.build_image.settings import (
    base_of,
    default_tag,
    note_overlay,
    refuse_names,
    refuse_unwritable,
    split_arguments,
    trusted_certificates,
)
from vpatch.docker.buildkit import refuse_no_buildkit
from vpatch.docker.engine import Docker
from vpatch.errors import ConflictingOptionsError
from vpatch.harness.machine import this_machine
from vpatch.image.base import choose, pin, refuse_network
from vpatch.image.build import build_image, builds_below, contexts, overlay_build
from vpatch.image.context import EPOCH, labels_of
from vpatch.image.mode import to_build
from vpatch.image.settings import BuildSettings
from vpatch.source.spec import IMAGE
from vpatch.util.extras import require
from vpatch.util.source_date import source_date_epoch
from vpatch.workspace.selection import Request

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from vpatch.checkout.lockfile import ImageMode, LockedImage, LockFile
    from vpatch.commands.build_image.locks import Locked
    from vpatch.image.base import Choice
    from vpatch.progress import Progress
    from vpatch.workspace.context import Context


# What the base of the last build is called as long as it is not built.
_EARLIER = "what the build before made"


_LOCAL = "an id of this machine: no registry is known to have this base"


@dataclass(frozen=True)
class PlannedBuild:
    """What would be built, as far as that is known without Docker and a registry.

    `pinned` is None if only the build asks for the digest of the base. `trees` are the files of
    each tree beside vLLM. `build_arguments` are by the path of the Dockerfile, and by name.
    `patches` are the states of patches by tree and id, without those that find nothing there.
    """

    patches: dict[str, dict[str, str]]
    mode: ImageMode
    base: str
    pinned: str | None
    files: list[str]
    to_compile: list[str]
    trees: dict[str, list[str]]
    build_arguments: dict[str, dict[str, str]]


@dataclass(frozen=True)
class BuildOptions:
    """What to build, and how.

    Attributes:
        lock_files: locks to build from, in place of a request.
        checkout: the folder of the checkout; by default `.vpatch/TREE-VERSION` in the project.
        force: whether a checkout that holds changes by its user is overwritten.
        mode: `overlay`, `source` or `cpu`; by default the lock's, or the simplest one that fits.
        base: the base image; by default that of the recipe or of the lock.
        repin: whether the digest of the base is asked for again.
        tags: the names of the image; by default `vllm-vpatch:VERSION`.
        push: whether every tag is pushed to its registry.
        no_cache: whether every step is built again.
        platform: such as `linux/arm64`.
        network: the network of downloads during the build, as in `docker build`.
        secrets: `id=NAME,src=FILE`, for the build alone.
        certificates: PEM files that pip trusts during the build.
        arguments: build arguments, as `NAME=VALUE`.
        iidfile: a file that gets the id of the image.
        author: who answers for the documents for scanners: `NAME` or `NAME <ADDRESS>`.
    """

    lock_files: tuple[Path, ...] = ()
    checkout: Path | None = None
    force: bool = False
    mode: ImageMode | None = None
    base: str | None = None
    repin: bool = False
    tags: tuple[str, ...] = ()
    push: bool = False
    no_cache: bool = False
    platform: str | None = None
    network: str | None = None
    secrets: tuple[str, ...] = ()
    certificates: tuple[Path, ...] = ()
    arguments: tuple[str, ...] = ()
    iidfile: Path | None = None
    author: str | None = None


@dataclass(frozen=True)
class PreparedBuild:
    """All that a build needs: what was applied, the base and the mode, and the settings."""

    locked: Locked
    choice: Choice
    settings: BuildSettings

    def planned(self) -> PlannedBuild:
        """Return what would be built, and build nothing."""
        known = self.choice.known
        payload = self.locked.payload(known or self.choice.unpinned)
        with contexts(payload, self.settings) as workdir:
            builds = builds_below(payload, self.settings, self.locked.checkout, workdir)
            below = _EARLIER if builds else payload.image.pinned
            builds.append(overlay_build(payload, self.settings, below, workdir))
            arguments = {
                one.dockerfile.relative_to(one.context).as_posix(): dict(one.arguments)
                for one in builds
            }
        return PlannedBuild(
            patches=self.locked.states,
            mode=self.choice.mode,
            base=self.choice.base,
            pinned=known.pinned if known else None,
            files=[file.path for file in payload.lock.files],
            to_compile=to_build(payload.lock),
            trees={one.tree: [file.path for file in one.lock.files] for one in payload.others},
            build_arguments=arguments,
        )


@dataclass(frozen=True)
class BuiltImage:
    """An image that was built. `pushed` has a digest for each tag, and is empty without a push.

    `trees` are the paths of the locks of the trees beside vLLM, by name. `patches` are as in
    `PlannedBuild`. `advisories` are how many have each status in the VEX of the image.
    """

    identity: str
    patches: dict[str, dict[str, str]]
    advisories: dict[str, int]
    choice: Choice
    image: LockedImage
    lock: LockFile
    lock_path: Path
    labels: dict[str, str]
    tags: tuple[str, ...]
    pushed: list[str]
    log: Path
    trees: dict[str, Path]


def plan_build(context: Context, request: Request, options: BuildOptions) -> PlannedBuild:
    """Apply the patches or read the lock, and return what would be built.

    Raises:
        UsageError: options contradict each other, or a name is not valid.
        VpatchError: a patch cannot be applied, or no mode fits.
    """
    refuse_cheaply(context, options)
    with ExitStack() as stack:
        return _prepare(context, request, options, stack).planned()


def apply_and_build(context: Context, request: Request, options: BuildOptions) -> BuiltImage:
    """Apply the patches or read the lock, build the image and verify it; see `BuildOptions`.

    Raises:
        UsageError: options contradict each other, or a name is not valid.
        VpatchError: a patch cannot be applied, no mode fits, there is no Docker Engine, or the
            build or a push failed.
    """
    refuse_cheaply(context, options)
    with ExitStack() as stack:
        engine: list[Docker] = []

        def connect() -> None:
            if not engine:
                engine.append(stack.enter_context(closing(Docker())))

        # To plan takes a while, and all of it is for an engine. Offline, what would be fetched is
        # wrong use, and comes first.
        before = connect if not context.offline else lambda: None
        prepared = _prepare(context, request, options, stack, before)
        connect()
        return _build(context, engine[0], prepared, options)


def refuse_cheaply(context: Context, options: BuildOptions) -> None:
    """Refuse what cannot end well, before a source is fetched or a patch is planned.

    Raises:
        UsageError: a name is not valid, options contradict each other, or a folder is missing.
        UnavailableError: a package or a program for the build is not installed.
    """
    refuse_names(options.tags, options.iidfile, push=options.push, offline=context.offline)
    split_arguments(options.arguments)
    if options.author is not None:
        Author.parse(options.author)
    source_date_epoch()
    refuse_unwritable(options.checkout or context.checkouts)
    require("audit", "the SBOM of an image")
    if options.secrets:
        refuse_no_buildkit()


def _prepare(
    context: Context,
    request: Request,
    options: BuildOptions,
    stack: ExitStack,
    before_planning: Callable[[], None] = lambda: None,
) -> PreparedBuild:
    """Choose the base and the mode; `stack` keeps the checkout open until the build is over."""
    author = None if options.author is None else Author.parse(options.author)
    if not options.lock_files and options.base and options.mode in (None, "overlay"):
        request = request.or_what_is_there(f"{IMAGE}{options.base}")
    if not options.lock_files:
        locked = applied(
            context,
            request,
            options.checkout,
            stack,
            force=options.force,
            author=author,
            before_planning=before_planning,
        )
    elif request != Request() or options.base or options.mode or options.repin:
        raise ConflictingOptionsError(
            "a lock says the source, the patches, the mode and the base",
            where=str(options.lock_files[0]),
            hint="leave out --lock, or all options that name one of them",
        )
    else:
        locked = from_locks(
            context,
            options.lock_files,
            stack,
            author=author,
            before_planning=before_planning,
        )
    epoch = source_date_epoch()
    settings = BuildSettings(
        context.pip_settings,
        options.network,
        options.platform,
        options.secrets,
        options.certificates,
        split_arguments(options.arguments),
        options.no_cache,
        EPOCH if epoch is None else epoch,
        provenance_of(context, epoch),
    )
    choice = choose(
        locked.lock,
        locked.checkout,
        mode=options.mode,
        base=options.base or base_of(context, request.recipe or locked.lock.recipe),
        arguments=settings.arguments,
        repin=options.repin,
        has_gpu=bool(this_machine().gpus),
    )
    locked.refuse_trees(choice)
    if context.offline:
        refuse_network(choice)
    if options.base and options.mode is None and locked.lock.source.kind != "image":
        note_overlay(context.progress, choice, locked.lock)
    if choice.mode == "cpu":
        certificates = trusted_certificates(context, options.certificates)
        settings = replace(settings, certificates=certificates)
    return PreparedBuild(locked, choice, settings)


def _build(
    context: Context, docker: Docker, prepared: PreparedBuild, options: BuildOptions
) -> BuiltImage:
    """Build the image and verify it; then tag it, keep its lock, and push it if asked."""
    progress = context.progress
    locked, choice, settings = prepared.locked, prepared.choice, prepared.settings
    image = pin(docker, choice, options.platform, context.progress, offline=context.offline)
    payload = locked.payload(image)
    log_path = log_path_of(context, payload.lock, choice.mode)
    phases = BuildPhases(context.progress)
    with opened_log(log_path) as log:
        built = build_image(
            docker, payload, settings, locked.checkout, log, phases, locked.documents
        )
    phases.end()
    lock = built.payload.lock
    locked.keep(lock)
    names = options.tags or (default_tag(lock),)
    for name in names:
        docker.tag(built.identity, name)
    if options.iidfile is not None:
        options.iidfile.write_text(built.identity, encoding="ascii")
    pushed = [push_image(docker, name, progress) for name in names] if options.push else []
    return BuiltImage(
        identity=built.identity,
        patches=locked.states,
        advisories=statuses_of(built.payload.documents),
        choice=choice,
        image=built.payload.image,
        lock=lock,
        lock_path=locked.path,
        labels={**settings.labels, **labels_of(lock, built.payload.manifest)},
        tags=names,
        pushed=pushed,
        log=log_path,
        trees={other.tree: path for path, other in locked.others.items()},
    )


def pinned_base(image: LockedImage) -> str:
    """The digest of the base, in words for people."""
    return image.pinned if not image.local else f"{image.pinned} ({_LOCAL})"


def push_image(docker: Docker, name: str, progress: Progress) -> str:
    task = progress.start(f"Pushing {name}")
    digest = docker.push(name, task)
    task.done()
    return digest
