"""What images and platforms are called."""

from __future__ import annotations

import re

from docker.utils import parse_repository_tag

# A reference as https://github.com/distribution/reference has it, without a digest.
_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_TAG = re.compile(
    rf"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::\d+)?/)?{_PART}(?:/{_PART})*"
    r"(?::\w[\w.-]{0,127})?"
)


def repository_of(name: str) -> str:
    """Return an image's name without its tag or digest, as an engine has it."""
    repository: str = parse_repository_tag(name)[0]
    for host in ("index.docker.io/", "docker.io/"):
        repository = repository.removeprefix(host)
    return repository.removeprefix("library/")


def is_tag(name: str) -> bool:
    """Whether an image can be called this."""
    return _TAG.fullmatch(name) is not None


def platform_of(system: str, architecture: str) -> str:
    """A platform as images name it: engines say x86_64 and aarch64 as well."""
    known = {"x86_64": "amd64", "aarch64": "arm64"}
    return f"{system}/{known.get(architecture, architecture)}"
