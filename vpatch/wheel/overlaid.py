"""An overlay of `vpatch run`, as the Python that runs with it finds it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.util.untrusted import MEGABYTE, parse_json, read_file
from vpatch.wheel.installing import digest_at
from vpatch.wheel.verifying import FileDifference

if TYPE_CHECKING:
    from pathlib import Path

# Beside the folder of packages of an overlay; it says what was laid over what.
MANIFEST = "overlay.json"
_LARGEST = 64 * MEGABYTE
_LINK = "link "


@dataclass(frozen=True)
class VerifiedOverlay:
    """An overlay: its package, the release below it, the patches, and what is not as it was made.

    `files` are those of the package that are patched.
    """

    package: Path
    release: str
    patches: tuple[str, ...]
    files: tuple[str, ...]
    differences: tuple[FileDifference, ...]

    @property
    def state(self) -> str:
        return "changed" if self.differences else "overlay"

    @property
    def is_clean(self) -> bool:
        return not self.differences


def verified_overlay(package: Path) -> VerifiedOverlay | None:
    """Compare the overlay that has a package with its manifest; None if it is not an overlay."""
    try:
        found = parse_json(read_file(package.parent.parent / MANIFEST, _LARGEST))
        contents: dict[str, str] = found["contents"]
        release = str(found["vllm"])
        patches = tuple(str(one["id"]) for one in found["patches"])
        files = {str(one["path"]): one for one in found["files"]}
        contents = {f"vllm/{name}": content for name, content in contents.items()}
        contents |= found.get("beside", {})
        differences = tuple(
            FileDifference(name, "was changed after the overlay was made")
            for name, content in sorted(contents.items())
            if not _is_same(package.parent / name, content)
        )
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None
    return VerifiedOverlay(package, release, patches, tuple(sorted(files)), differences)


def _is_same(path: Path, content: str) -> bool:
    if content.startswith(_LINK):
        return path.is_symlink() and str(path.readlink()) == content.removeprefix(_LINK)
    return digest_at(path) == content
