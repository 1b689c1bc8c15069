"""An overlay of `vpatch run`, as the Python that runs with it finds it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from vpatch.commands.install.verification import FileDifference
from vpatch.engine.hidden import hidden_code
from vpatch.source.tree import Pin
from vpatch.util.plain_records import as_record
from vpatch.util.untrusted import LARGEST_FILE, MEGABYTE, digest_of_file, parse_json, read_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vpatch.commands.install.verification import VerifiedVllm
    from vpatch.engine.import_path import ImportPath

# Beside the folder of packages of an overlay; it says what was laid over what.
MANIFEST = "overlay.json"
_LARGEST = 64 * MEGABYTE
_LINK = "link "
# What `vpatch run` puts beside the package; no import takes it.
_INFO = ".dist-info"
_METADATA = re.compile(rf"vllm-[^/]+{re.escape(_INFO)}/METADATA")


@dataclass(frozen=True)
class OverlayManifest:
    """What an overlay says that it is; anybody can write that.

    `patches` are digests by ids. `files` are the digests before and after of what is patched, by
    paths in the tree. `contents` are all files of the package, and `beside` are those beside it, by
    paths in the folder of packages: digests, or `link PATH`.
    """

    package: Path
    release: str
    source: Pin
    patches: Mapping[str, str]
    files: Mapping[str, tuple[str | None, str]]
    contents: Mapping[str, str]
    beside: Mapping[str, str]


@dataclass(frozen=True)
class VerifiedOverlay:
    """An overlay: its package, the release below it, the patches, and what is not as it was made.

    `files` are those of the package that are patched; `base` is the vLLM below, which has the
    others: `as_released`, `other_files` and `only_record` are those. `doubts` say why it is not
    proven.
    """

    package: Path
    base: VerifiedVllm = field(repr=False)
    release: str
    patches: tuple[str, ...]
    files: tuple[str, ...]
    as_released: tuple[str, ...]
    other_files: tuple[str, ...]
    only_record: tuple[str, ...]
    differences: tuple[FileDifference, ...]
    doubts: tuple[str, ...] = ()
    # It is in no distribution.
    distribution = version = None

    @property
    def state(self) -> str:
        if self.differences:
            return "changed"
        return "unproven" if self.doubts else "overlay"

    @property
    def is_clean(self) -> bool:
        return self.state == "overlay"

    @property
    def patched(self) -> tuple[str, ...]:
        """The files of the overlay's patches, and of those below it."""
        return tuple(sorted({*self.files, *self.base.patched}))


def read_manifest(package: Path) -> OverlayManifest | None:
    """Read what lies beside a package; None if it is not an overlay."""
    try:
        manifest = parse_json(read_file(package.parent.parent / MANIFEST, _LARGEST))
        beside = manifest.get("beside", {})
        return OverlayManifest(
            package,
            str(manifest["vllm"]),
            as_record(Pin, manifest["source"]),
            {str(one["id"]): str(one["digest"]) for one in manifest["patches"]},
            {
                str(one["path"]): (
                    None if one["before"] is None else str(one["before"]),
                    str(one["after"]),
                )
                for one in manifest["files"]
            },
            {f"vllm/{name}": str(content) for name, content in manifest["contents"].items()},
            {str(name): str(content) for name, content in beside.items()},
        )
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None


def verified_overlay(
    manifest: OverlayManifest, asked: ImportPath, base: VerifiedVllm, doubts: tuple[str, ...]
) -> VerifiedOverlay:
    """Compare an overlay with its manifest, and with the vLLM that is installed below it.

    Args:
        manifest: what it says.
        asked: how the Python finds it.
        base: the vLLM below it, as it was compared with its release.
        doubts: why its patches are not proven.

    Raises:
        HiddenCodeError: bytecode cannot be compared.
        OSError: a folder cannot be read.
    """
    hidden = hidden_code(asked, manifest.package)
    problems = dict(hidden.problems)
    contents = {**manifest.contents, **manifest.beside}
    packages = manifest.package.parent
    for path, content in contents.items():
        if not _is_same(packages / path, content):
            problems[path] = "was changed after the overlay was made"
    for path in [*hidden.files.importable, *_beside(packages)]:
        if path not in contents:
            problems[path] = "is not of the overlay"
    # One that is pinned as it is need not be a release.
    is_pinned = manifest.source.kind == "environment" and base.state in {"build", "unknown"}
    if not base.is_clean and not is_pinned:
        doubts = (*doubts, f"the vLLM below it is not as it should be: {base.found}")
    as_released, other_files, only_record = (
        tuple(path for path in paths if path not in manifest.files)
        for paths in (base.as_released, base.other_files, base.only_record)
    )
    return VerifiedOverlay(
        manifest.package,
        base,
        manifest.release,
        tuple(manifest.patches),
        tuple(sorted(manifest.files)),
        as_released,
        other_files,
        only_record,
        tuple(FileDifference(path, what) for path, what in sorted(problems.items())),
        (*doubts, *_foreign(manifest, base)),
    )


def _foreign(manifest: OverlayManifest, base: VerifiedVllm) -> Iterator[str]:
    """Say which files are neither of the patches nor of the installed vLLM."""
    for path, content in sorted(manifest.contents.items()):
        if path in manifest.files:
            if manifest.files[path][1] != content:
                yield f"{path}: it is said to have other bytes than the patches make"
        elif content.startswith(_LINK):
            target = content.removeprefix(_LINK)
            if Path(target).resolve() != (base.found.site / path).resolve():
                yield f"{path}: is a link to {target}, which is not the installed file"
        elif content != base.digests.get(path):
            yield f"{path}: is not that of the installed vLLM"
    there = {path for path, digest in base.digests.items() if digest is not None}
    for path in sorted({*manifest.files, *there} - manifest.contents.keys()):
        yield f"{path}: is not in the overlay"
    for path in sorted(one for one in manifest.beside if not _METADATA.fullmatch(one)):
        yield f"{path}: is neither of vllm nor its metadata"


def _beside(packages: Path) -> Iterator[str]:
    """Return what is beside the package: Python looks there for all packages and their metadata."""
    for one in packages.iterdir():
        if one.name.endswith(_INFO) and one.is_dir() and not one.is_symlink():
            yield from (f"{one.name}/{inner.name}" for inner in one.iterdir())
        elif one.name != "vllm":
            yield one.name


def _is_same(path: Path, content: str) -> bool:
    try:
        if content.startswith(_LINK):
            return path.is_symlink() and str(path.readlink()) == content.removeprefix(_LINK)
        return digest_of_file(path, 64 * LARGEST_FILE) == content
    except OSError:
        return False
