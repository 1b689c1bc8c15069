"""A lock on its way into a checkout: its keys, checked and in order, without pydantic.

`vpatch.checkout.lockfile` reads locks, and takes 0.2 s to import. Who applies a plan only writes.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from packaging.version import Version

from vpatch.checkout.lock_text import lock_text, plain_name, plain_version
from vpatch.util.digest import digest_of
from vpatch.util.untrusted import plain_path

if TYPE_CHECKING:
    from vpatch.checkout.lockfile import LockedImage, LockFile
    from vpatch.source.tree import Pin

_DIGITS = 12


@dataclass(frozen=True)
class NewFile:
    """A `LockedFile`; see there. ValueError where its path leads out of the checkout."""

    path: str
    before: str | None
    after: str

    def __post_init__(self) -> None:
        plain_path(self.path)


@dataclass(frozen=True)
class NewPatch:
    """A `LockedPatch`; see there."""

    id: str
    digest: str
    variant: str | None
    commit: str
    files: tuple[NewFile, ...]


@dataclass(frozen=True)
class NewSkipped:
    """A `SkippedPatch`; see there."""

    id: str
    state: str


@dataclass(frozen=True)
class NewLock:
    """A `LockFile`; see there."""

    recipe: str | None
    source: Pin
    base: str
    head: str
    patches: tuple[NewPatch, ...]
    skipped: tuple[NewSkipped, ...]
    files: tuple[NewFile, ...]
    carried: tuple[str, ...] = ()
    chosen: tuple[str, ...] = ()
    security: str | None = None
    image: LockedImage | None = None

    def dump(self) -> str:
        """Return the text of the lock, the same as that of its `LockFile`."""
        image = self.image and self.image.model_dump()
        return lock_text(lock_version=1, **asdict(self) | {"image": image})

    def model(self) -> LockFile:
        """Return the lock as it is read."""
        from vpatch.checkout.lockfile import LockFile  # noqa: PLC0415 - see above

        return LockFile.model_validate_json(self.dump())


def build_version(lock: NewLock | LockFile) -> str | None:
    """Return the version of what is built from a checkout: 0.23.0+vpatch.1a2b3c4d5e6f.

    `None` if the source is not a release of vLLM.
    """
    source = lock.source
    if source.tree != "vllm" or source.kind != "pypi" or source.version is None:
        return None
    return f"{Version(source.version).public}+{local_part(lock)}"


def local_part(lock: NewLock | LockFile) -> str:
    """Return the part of a version that names a lock, without the image that was built of it."""
    if isinstance(lock, NewLock):
        text = replace(lock, image=None).dump()
    else:
        text = lock.model_copy(update={"image": None}).dump()
    digits = digest_of(text.encode()).partition(":")[2][:_DIGITS]
    return f"vpatch.{digits}"


def plain_pin(pin: Pin) -> Pin:
    """Return a pin as a lock has it.

    Raises:
        ValueError: it has a name or a version that none can have.
    """
    version = None if pin.version is None else plain_version(pin.version)
    return replace(pin, tree=plain_name(pin.tree), version=version)
