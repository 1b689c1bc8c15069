"""Which releases of vLLM a target is for: what it declares, and what it is compared with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import Version

from vpatch.errors import BadValueError
from vpatch.util.versions import read_version

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vpatch.commands.compat.target import CompatTarget


@dataclass(frozen=True)
class DeclaredReleases:
    """The releases that a target declares, and the one that the others are compared with.

    `base` is None if nothing says it; `reason` is a clause for people.
    """

    releases: frozenset[str]
    base: str | None
    reason: str


def declared_by(
    target: CompatTarget, supports: str | None, base: str | None, known: Sequence[str]
) -> DeclaredReleases:
    """Return what a target declares; `known` are the releases that the index has.

    Raises:
        BadValueError: `supports` is neither a range nor a list of versions.
    """
    specifier = target.requires if supports is None else parse_supports(supports)
    releases = [one for one in known if specifier is not None and specifier.contains(one)]
    declares = frozenset(releases)
    if base is not None:
        return DeclaredReleases(declares, base, "you named it")
    if releases:
        source = "the metadata" if supports is None else "--supports"
        return DeclaredReleases(declares, releases[0], f"it is the first one that {source} allows")
    version = read_version(target.version or "")
    if version is not None and version.base_version in known:
        reason = f"the version of {target.name}, {target.version}, begins so"
        return DeclaredReleases(declares, version.base_version, reason)
    return DeclaredReleases(
        declares, None, "nothing says which release it is for (--base, --supports)"
    )


def parse_supports(text: str) -> SpecifierSet | None:
    """Read `>=0.22,<0.25`, or versions with commas.

    Raises:
        BadValueError: it is neither.
    """
    try:
        return SpecifierSet(text)
    except InvalidSpecifier:
        pass
    versions = [read_version(one.strip()) for one in text.split(",")]
    if None in versions:
        raise BadValueError(
            f"--supports {text!r} is neither a range nor a list of versions",
            hint="write for instance --supports '>=0.22,<0.25' or --supports 0.22.0,0.23.0",
        )
    several = sorted(one for one in versions if one is not None)
    return _Listed(several) if len(several) > 1 else SpecifierSet(f"=={several[0]}")


class _Listed(SpecifierSet):
    """Exactly some versions: `SpecifierSet` itself can only narrow a range."""

    def __init__(self, versions: Sequence[Version]) -> None:
        super().__init__("")
        self._versions = frozenset(versions)

    def contains(self, item: Version | str, *_: object, **__: object) -> bool:
        return Version(str(item)) in self._versions
