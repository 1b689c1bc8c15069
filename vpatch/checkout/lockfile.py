"""vpatch.lock: what a run resolved to. JSON, the same bytes for the same inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
)

from vpatch.checkout.lock_text import lock_text, plain_name, plain_version
from vpatch.errors import UsageError, VpatchError
from vpatch.source.tree import Pin, SourceKind
from vpatch.util.untrusted import MEGABYTE, plain_path, read_file
from vpatch.util.validation import first_of

if TYPE_CHECKING:
    from pathlib import Path


ImageMode = Literal["overlay", "source", "cpu"]


# That of a hundred patches has 200 kB.
_LARGEST = 64 * MEGABYTE


Name = Annotated[str, AfterValidator(plain_name)]
TreePath = Annotated[str, AfterValidator(plain_path)]


class LockError(VpatchError):
    """A lock is missing, or it is damaged."""


class NoLockError(UsageError, LockError):
    """There is no lock at the path."""

    code = "checkout.no-lock"


class _Locked(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class LockedPin(_Locked):
    """A `Pin`; see there."""

    tree: Name
    kind: SourceKind
    version: Annotated[str, AfterValidator(plain_version)] | None
    digest: str
    origin: str
    ref: str | None

    def pin(self) -> Pin:
        return Pin(**self.model_dump())


class LockedFile(_Locked):
    """A file's `sha256:HEX` before and after; `before` is None for one that was created."""

    path: TreePath
    before: str | None
    after: str


class LockedPatch(_Locked):
    id: str
    digest: str
    variant: str | None
    commit: str
    files: tuple[LockedFile, ...]


class SkippedPatch(_Locked):
    """A patch that the run considered and had nothing to do for."""

    id: str
    state: str


class LockedPackage(_Locked):
    """A package that a build installed. `sha256` is that of its wheel, where pip tells it.

    A build hands these to apt and pip, which must not take them for options.
    """

    name: Annotated[str, Field(pattern=r"\A[A-Za-z0-9][A-Za-z0-9._+:-]*\z")]
    version: Annotated[str, Field(pattern=r"\A[A-Za-z0-9][A-Za-z0-9._+:~!-]*\z")]
    sha256: Annotated[str, Field(pattern=r"\A[0-9a-f]{64}\z")] | None = None


class LockedTree(_Locked):
    """A tree beside vLLM that an image has patched.

    `lock`, `manifest` and `source` are digests: of that tree's own lock, of what the image is asked
    about it, and of its source. `name` is what its package is imported as. `package` and `contents`
    are as in `LockedImage`, of that package.
    """

    lock: str
    manifest: str
    source: str
    name: Annotated[str, Field(pattern=r"\A[A-Za-z_]\w*\z")]
    package: str | None = None
    contents: str | None = None


class LockedImage(_Locked):
    """What an image is built on. `base` is as it was named, `pinned` what that meant then.

    `pinned` is NAME@sha256:HEX of a registry. Without a registry, it is the id sha256:HEX of an
    image of one machine, and `local` is true. `compiler` pins the image in which vLLM is compiled.
    `apt` and `pip` are what the cpu build installed on the base. `package` is the folder of vllm
    in the image, and `contents` the digest of the list of its files, without the patches. `trees`
    are those beside vLLM, by name.
    """

    mode: ImageMode
    base: str
    pinned: str
    compiler: str | None = None
    local: bool = False
    package: str | None = None
    contents: str | None = None
    apt: tuple[LockedPackage, ...] = ()
    pip: tuple[LockedPackage, ...] = ()
    trees: dict[Name, LockedTree] = Field(default_factory=dict)

    @model_serializer(mode="wrap")
    def _known(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out what is not known: locks from before these keys keep their digests."""
        later = ("local", "package", "contents", "apt", "pip", "trees")
        return {key: v for key, v in serialize(self).items() if v or key not in later}


class LockFile(_Locked):
    """`patches` are in the order of their commits; `files` sum them up over the whole run.

    `carried` are ids of patches that the source itself carried, as its own lock says. `chosen` are
    those that somebody named with --patch; without any, the recipe or the library decided.
    `security` says that somebody asked for all backports of security fixes. `image` is there once
    one was built.
    """

    lock_version: Literal[1] = 1
    recipe: str | None
    source: LockedPin
    base: str
    head: str
    patches: tuple[LockedPatch, ...]
    skipped: tuple[SkippedPatch, ...]
    files: tuple[LockedFile, ...]
    carried: tuple[str, ...] = ()
    chosen: tuple[str, ...] = ()
    security: Literal["all"] | None = None
    image: LockedImage | None = None

    def dump(self) -> str:
        return lock_text(**self.model_dump())


def read_lock(path: Path) -> LockFile:
    """Read a lock.

    Raises:
        NoLockError: there is no file at this path.
        LockError: it cannot be read, or it is damaged.
    """
    try:
        return parse_lock(read_file(path, _LARGEST), str(path))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NoLockError(
            "there is no lock",
            where=str(path),
            hint="run vpatch apply first, or correct --checkout or --lock",
        ) from error
    except OSError as error:
        raise LockError(
            f"cannot be read: {error.strerror}",
            where=str(path),
            # It may be in an environment, where nothing can be uninstalled without it.
            hint="correct its permissions"
            if isinstance(error, PermissionError)
            else "remove it and run vpatch apply --force, if it is a checkout's",
            code="checkout.unreadable-lock",
        ) from error


def parse_lock(text: bytes, where: str) -> LockFile:
    """Read a lock from its bytes; `where` they were found is for the error.

    Raises:
        LockError: it is damaged.
    """
    try:
        return LockFile.model_validate_json(text)
    except ValidationError as error:
        raise LockError(
            f"is not a lock: {first_of(error)}",
            where=where,
            hint="run vpatch apply --force to write it again",
            code="checkout.damaged-lock",
        ) from error
