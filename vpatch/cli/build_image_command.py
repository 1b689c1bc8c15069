"""vpatch build-image: a lock becomes a container image that has what was applied, verified."""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vpatch.app.build import (
    Steps,
    base_of,
    default_tag,
    log_path_of,
    note_overlay,
    opened_log,
    pinned_base,
    planned_build,
    push_image,
    refuse_names,
    source_date_epoch,
    split_arguments,
    trusted_certificates,
    verified_by_build,
)
from vpatch.app.locked import applied, from_lock
from vpatch.cli.options import (
    folder_option,
    json_option,
    library_options,
    open_context,
    request_from,
    source_options,
)
from vpatch.cli.result import CommandResult
from vpatch.docker.engine import Docker
from vpatch.errors import ExitCode, UsageError
from vpatch.harness.machine import this_machine
from vpatch.image.base import choose, pin, refuse_network
from vpatch.image.build import BuildSettings, build_image
from vpatch.image.context import labels_of, version_of
from vpatch.output.images import BuildImageOutput, BuiltImageOutput, PlannedImageOutput

if TYPE_CHECKING:
    from vpatch.checkout.lockfile import ImageMode

_MODES: dict[str, ImageMode] = {"overlay": "overlay", "source": "source", "cpu": "cpu"}


@click.command("build-image")
@source_options
@library_options
@click.option(
    "--lock",
    "lock_file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Build from this lock file, on the base image that it pins.",
)
@folder_option(
    "--checkout",
    old="--to",
    help="Folder of the checkout  [default: .vpatch/TREE-VERSION in the project]",
)
@click.option("--force", is_flag=True, help="Overwrite the checkout even if it has your changes.")
@click.option(
    "--mode",
    type=click.Choice(list(_MODES)),
    help="What to build  [default: as in the lock, or the simplest mode that fits the patches]",
)
@click.option("--base", metavar="IMAGE", help="Base image  [default: from the recipe or the lock]")
@click.option("--repin", is_flag=True, help="Resolve the base image's digest again.")
@click.option(
    "--tag",
    "tags",
    multiple=True,
    metavar="NAME",
    help="Tag of the image; repeatable  [default: vllm-vpatch:VERSION]",
)
@click.option("--push", is_flag=True, help="Push every tag to its registry.")
@click.option("--no-cache", is_flag=True, help="Build every step again.")
@click.option("--platform", metavar="OS/ARCH", help="Platform of the image, such as linux/arm64.")
@click.option(
    "--network", metavar="NAME", help="Network for downloads during the build, as in docker build."
)
@click.option(
    "--secret",
    "secrets",
    multiple=True,
    metavar="id=NAME,src=FILE",
    help="Secret for the build only; id=pip.conf has pip's settings. Needs BuildKit; repeatable.",
)
@click.option(
    "--certificate",
    "certificates",
    multiple=True,
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="PEM file that pip trusts during the build; repeatable  [default: pip's cert]",
)
@click.option(
    "--build-arg",
    "arguments",
    multiple=True,
    metavar="NAME=VALUE",
    help="Build argument for vLLM's Dockerfile or for pip's build; repeatable.",
)
@click.option(
    "--iidfile", type=click.Path(path_type=Path), help="Write the image's id to this file."
)
@click.option(
    "--dry-run",
    is_flag=True,
    help="Apply the patches and show what would be built, but build nothing.",
)
@json_option
def command(
    vllm: str | None,
    recipe: str | None,
    trees: tuple[str, ...],
    only: tuple[str, ...],
    patches_dirs: tuple[Path, ...],
    recipes_dirs: tuple[Path, ...],
    lock_file: Path | None,
    checkout: Path | None,
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
) -> CommandResult | ExitCode:
    """Apply patches like `vpatch apply`, and build a container image from the lock.

    \b
    overlay  only Python changed: put the patched files over a base with vLLM
    cpu      like overlay, over vLLM's CPU build (default without a GPU)
    source   anything else changed: build the checkout with vLLM's Dockerfile

    The last step of every build verifies the image, and fails the build if something is wrong. It
    compares the digests of all touched files and of the files that they replace. It also checks
    bytecode, imports, and the effect of each patch.
    """  # noqa: D301 - click reads the character itself
    context = open_context(patches_dirs, recipes_dirs, offline)
    refuse_names(tags, iidfile, push=push, offline=offline)
    with ExitStack() as stack:
        if lock_file is not None:
            if vllm or recipe or trees or only or base or mode or repin:
                raise UsageError(
                    "a lock says the source, the patches, the mode and the base",
                    where=str(lock_file),
                    hint="leave out --lock, or all options that name one of them",
                    code="cli.conflicting-options",
                )
            locked = from_lock(context, lock_file, stack)
        else:
            request = request_from(vllm, recipe, trees, only)
            locked = applied(context, request, checkout, stack, force=force)
        settings = BuildSettings(
            context.pip_settings,
            network,
            platform,
            secrets,
            certificates,
            split_arguments(arguments),
            no_cache,
            source_date_epoch(),
        )
        named = base or base_of(context, recipe or locked.lock.recipe)
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
            note_overlay(context.progress, choice, locked.lock)
        if choice.mode == "cpu":
            settings = replace(settings, certificates=trusted_certificates(context, certificates))
        if dry_run:
            made = planned_build(locked, choice, settings)
            planned = PlannedImageOutput.model_validate(made)
            pinned = planned.pinned or "not yet: the build asks for its digest"
            return _ended(planned, pinned, as_json=as_json)
        docker = stack.enter_context(closing(Docker()))
        image = pin(docker, choice, platform, context.progress, offline=offline)
        payload = locked.payload(image)
        log_path = log_path_of(context, payload.lock, choice.mode)
        steps = Steps(context.progress)
        with opened_log(log_path) as log:
            built = build_image(docker, payload, settings, locked.checkout, log, steps.tell)
        steps.end()
        lock = built.payload.lock
        locked.keep(lock)
        names = tags or (default_tag(lock),)
        for name in names:
            docker.tag(built.identity, name)
        if iidfile is not None:
            iidfile.write_text(built.identity, encoding="ascii")
        digests = [push_image(docker, name, context.progress) for name in names] if push else []
    done = BuiltImageOutput(
        image=built.identity,
        version=version_of(lock),
        mode=choice.mode,
        base=choice.base,
        pinned=built.payload.image.pinned,
        tags=list(names),
        pushed=digests,
        lock=locked.path,
        log=log_path,
        verified=verified_by_build(log_path),
        labels=labels_of(lock, built.payload.manifest),
    )
    return _ended(done, pinned_base(built.payload.image), as_json=as_json)


def _ended(
    found: BuiltImageOutput | PlannedImageOutput, pinned: str, *, as_json: bool
) -> CommandResult | ExitCode:
    """Print what was built, or would be; `pinned` says in words what the base is."""
    if as_json:
        return CommandResult(BuildImageOutput.of(found))
    shown = found.model_dump(mode="json", exclude={"labels"}) | {"pinned": pinned}
    width = max(map(len, shown))
    for key, value in shown.items():
        for number, line in enumerate(_lines(value)):
            name = "" if number else key.replace("_", " ")
            click.echo(f"{name:<{width}}  {line}")
    return ExitCode.CLEAN


def _lines(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [f"{outer}: {k}={v}" for outer, inner in value.items() for k, v in inner.items()]
    return [str(one) for one in value] if isinstance(value, list) else [str(value)]
