"""A pristine source tree at a pin, as the later stages see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# What `vpatch apply` leaves at the root of a checkout; see `vpatch.lock`.
LOCK_FILE = "vpatch.lock"

SourceKind = Literal["pypi", "git", "folder", "wheel", "environment", "image"]


# What was built has no file beside its package: none of what is compiled, no build scripts.
BUILT: frozenset[SourceKind] = frozenset(["wheel", "environment", "image"])


@dataclass(frozen=True)
class Pin:
    """An exact version of a source.

    `tree` is the canonical distribution name (PEP 503: `vllm`, `vllm-ascend`). `digest` is
    `sha256:HEX` of the archive (pypi), of the wheel, of the content (folder, environment), or the
    id of the image; `sha1:HEX` of the commit (git). `origin` is the archive's file name, the git
    URL without credentials, or what the user gave: the path of a folder, of a wheel or of an
    environment, the URL of a wheel, `NAME==VERSION`, or the name of an image. `version` is None
    where the source does not tell one.
    """

    tree: str
    kind: SourceKind
    version: str | None
    digest: str
    origin: str
    ref: str | None = None

    @property
    def label(self) -> str:
        """A short name that is also safe as a folder name: `vllm-0.23.0`."""
        if self.version:
            return f"{self.tree}-{self.version}"
        return f"{self.tree}-{self.digest.partition(':')[2][:12]}"


class Tree(Protocol):
    """Read access to a tree; paths are POSIX, relative to the tree's root."""

    @property
    def pin(self) -> Pin: ...

    @property
    def carried(self) -> frozenset[str]:
        """Ids of the patches that a `vpatch.lock` in the tree says it carries."""

    @property
    def package_files(self) -> Mapping[str, bytes]:
        """The Python files of the importable package. Each is read when it is first asked for."""

    @property
    def links(self) -> frozenset[str]:
        """Paths of the symbolic links, which are no files."""

    def paths(self) -> list[str]:
        """Every regular file, sorted."""

    def holding(self, word: bytes) -> frozenset[str]:
        """The package's files that have a word, and not only as a part of another.

        `vpatch.util.words` says what a word is. Any other bytes may be asked for too.
        """

    def containing(self, text: bytes) -> frozenset[str]:
        """The package's files that have some bytes, wherever words start and end."""

    def words(self) -> Iterable[bytes]:
        """Every word of the package's files, once."""

    def read(self, path: str) -> bytes:
        """The file's bytes, checked against the digest taken when the tree was fetched."""
