"""vLLM's own Dockerfile: what it is built on, and what it is told."""

from __future__ import annotations

import re
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from vpatch.docker.build import Build
from vpatch.errors import UsageError, VpatchError
from vpatch.util.untrusted import MEGABYTE, read_file

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vpatch.checkout.lockfile import LockedImage
    from vpatch.image.settings import BuildSettings

DOCKERFILE = Path("docker/Dockerfile")
# The stage that is vLLM's image with the server.
_TARGET = "vllm-openai"
# What its stages begin with: that in which all is compiled, and that which is shipped.
COMPILER, FINAL = "BUILD_BASE_IMAGE", "FINAL_BASE_IMAGE"
_ARGUMENT = re.compile(r"ARG[ \t]+(\w+)=([^\"']*|\"[^\"']*\"|'[^\"']*')")
# The largest of vLLM's has 64 kB.
_LARGEST = MEGABYTE
# Of a name of an image, with its registry and digest.
_LONGEST = 1000
_BY_HAND = "build it by hand, and use that image as --base with --mode overlay"


def bases(checkout: Path, arguments: Mapping[str, str]) -> dict[str, str]:
    """Return what a checkout's Dockerfile is built on, by the names of its arguments.

    Raises:
        VpatchError: it has none, or one that begins otherwise.
    """
    file = checkout / DOCKERFILE
    if not file.is_file():
        raise _unusable(checkout, f"this vLLM has no {DOCKERFILE}", _BY_HAND)
    try:
        text = read_file(file, _LARGEST).decode()
    except (OSError, UnicodeDecodeError) as error:
        what = f"cannot be read: {getattr(error, 'strerror', None) or error}"
        raise _unusable(file, what, "correct it in the source") from error
    known: dict[str, str] = {}
    for line in text.split("\n"):
        if line.startswith(("FROM ", "FROM\t")):
            break
        # Those before the first stage: their defaults may name earlier ones.
        match = _ARGUMENT.fullmatch(line.rstrip())
        if match is not None:
            default = Template(match[2].strip("\"'")).safe_substitute(known)
            known[match[1]] = arguments.get(match[1], default)[:_LONGEST]
    missing = [name for name in (COMPILER, FINAL) if name not in known]
    if missing:
        what = f"it has no argument {missing[0]}, so its base cannot be pinned"
        raise _unusable(file, what, _BY_HAND)
    return {name: known[name] for name in (COMPILER, FINAL)}


def _unusable(where: Path, what: str, hint: str) -> VpatchError:
    return VpatchError(what, where=str(where), hint=hint, code="image.unusable-dockerfile")


def needed(checkout: Path | None) -> Path:
    """Return the checkout, without which vLLM's own Dockerfile is not there.

    Raises:
        UsageError: there is only a lock.
    """
    if checkout is None:
        raise UsageError(
            "the mode source needs the lock's checkout as well",
            hint="give --vllm or --recipe",
            code="image.no-checkout",
        )
    return checkout


def source_build(context: Path, image: LockedImage, settings: BuildSettings) -> Build:
    """Return the build of a context that is a checkout of vLLM with its .git."""
    pins = {FINAL: image.pinned} | ({COMPILER: image.compiler} if image.compiler else {})
    return Build(
        context,
        context / DOCKERFILE,
        {**settings.arguments, **pins},
        network=settings.network,
        platform=settings.platform,
        secrets=settings.secrets,
        target=_TARGET,
    )
