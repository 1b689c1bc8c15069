"""A lock as the build context of an image: what is laid over its vLLM, and what says so.

In a folder that becomes /opt/vpatch: `lock`; `NOTICE`, which files were modified
(Apache-2.0, section 4b); `manifest.json`, what the image is verified against; `package.json`, the
files of vllm below the patches; `vllm.openvex.json` and `vllm.cdx.json`, what security advisories
mean for the patched vLLM; `build`, the patched files and the scripts that install and verify them.
`trees/NAME` has the lock, the manifest, the package's files and the patched files of each tree
beside vLLM.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from packaging.version import Version

from vpatch import __version__
from vpatch.errors import UsageError
from vpatch.image import PAYLOAD
from vpatch.image.mode import is_laid_over, is_shipped, laid_over_digests, patches_of
from vpatch.image.probes import probes_of
from vpatch.planning.definitions import module_of
from vpatch.planning.state import overall_changes
from vpatch.util.digest import digest_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from vpatch.checkout.lockfile import LockedImage, LockFile
    from vpatch.image.payload.verify import Manifest, ManifestFile
    from vpatch.image.probes import Probe
    from vpatch.planning.state import Plan

# Where an image has its lock.
FOLDER = "/opt/vpatch"
LOCK = f"{FOLDER}/lock"
MANIFEST = f"{FOLDER}/manifest.json"
INSTALLED = f"{FOLDER}/installed.json"
PACKAGE_LIST = f"{FOLDER}/package.json"
# A folder for each tree beside vLLM; the files in it are called as those of vLLM.
TREES = f"{FOLDER}/trees"
# What scanners read, by the label that names it and by the format.
DOCUMENTS = {
    "vpatch.vex": (f"{FOLDER}/vllm.openvex.json", "openvex"),
    "vpatch.sbom": (f"{FOLDER}/vllm.cdx.json", "cyclonedx"),
}
# The time of all files that a build writes, unless SOURCE_DATE_EPOCH says another: 1980-01-01, the
# first that a zip file can have.
EPOCH = 315532800
SCRIPTS = ("install.py", "verify.py")
_LABEL = "vpatch"
_OCI = "org.opencontainers.image"
_DIGITS = 12


@dataclass(frozen=True)
class TreePayload:
    """What an image is to have of one tree. `plan` is of the lock's patches and source.

    `package` is the name by which its package is imported. `below` is the list of the package's
    files without the patches; see `LockedImage.contents`.
    """

    lock: LockFile
    plan: Plan
    below: str = "{}\n"
    package: str = "vllm"

    @property
    def tree(self) -> str:
        """The name of the tree."""
        return self.lock.source.tree

    @cached_property
    def manifest(self) -> str:
        """The text of the manifest; to find the names takes parsing every touched file."""
        manifest = manifest_of(self.lock, probes_of(self.plan), self.package)
        return json.dumps(manifest, indent=1) + "\n"


@dataclass(frozen=True, kw_only=True)
class Payload(TreePayload):
    """What an image is to have. The lock is that of vLLM, with `image`.

    `documents` are the texts of `DOCUMENTS`, by their paths. `others` are the trees beside vLLM,
    whose locks are as `vpatch apply` writes them.
    """

    image: LockedImage
    documents: Mapping[str, str] = field(default_factory=dict)
    others: Sequence[TreePayload] = ()

    def on(self, image: LockedImage, lists: Mapping[str, str]) -> Payload:
        """Return the same on what a build found below the patches, with the lists by tree."""
        lock = self.lock.model_copy(update={"image": image})
        others = [replace(one, below=lists[one.tree]) for one in self.others]
        return replace(self, lock=lock, image=image, below=lists[self.tree], others=others)


def digest_of_lock(lock: LockFile) -> str:
    """Return a lock's digest: that of everything, as the lock has the digests of all else."""
    return digest_of(lock.dump().encode())


def release_of(lock: LockFile) -> str:
    """Return the version of vLLM, as its package says it.

    Raises:
        UsageError: the source is not a release, so no image has it.
    """
    if lock.source.tree != "vllm" or lock.source.version is None:
        raise UsageError(
            f"an image needs a release of vLLM, and this lock is for {lock.source.origin}",
            hint="give --vllm VERSION",
            code="image.not-a-release",
        )
    return Version(lock.source.version).public


def version_of(lock: LockFile) -> str:
    """Return the release with a local part that names the lock (PEP 440): 0.23.0+vpatch.1a2b3c."""
    if lock.image is not None and lock.image.mode == "source":
        # A build from source writes this version into the package, before its files are listed.
        trees = {
            name: tree.model_copy(update={"package": None, "contents": None})
            for name, tree in lock.image.trees.items()
        }
        image = lock.image.model_copy(update={"package": None, "contents": None, "trees": trees})
        lock = lock.model_copy(update={"image": image})
    return f"{release_of(lock)}+vpatch.{digest_of_lock(lock).partition(':')[2][:_DIGITS]}"


def manifest_of(
    lock: LockFile, probes: Mapping[str, Sequence[Probe]], package: str = "vllm"
) -> Manifest:
    """Return what `payload/verify.py` compares an image with."""
    own: Manifest
    if package == "vllm":
        own = {"version": version_of(lock), "vllm": release_of(lock)}
        if lock.image is not None and lock.image.trees:
            own["trees"] = sorted(lock.image.trees)
    else:
        # Only an index tells the release of another tree for sure.
        release = lock.source.version if lock.source.kind == "pypi" else None
        own = {"tree": lock.source.tree, "package": package, "release": release}
    files: list[ManifestFile] = [
        {"path": file.path, "before": file.before, "after": file.after}
        for file in lock.files
        if is_laid_over(file.path, package)
    ]
    return {
        "manifest-version": 1,
        **own,
        "mode": lock.image.mode if lock.image else "overlay",
        "lock": digest_of_lock(lock),
        "files": files,
        "not-shipped": [file.path for file in lock.files if not is_shipped(file.path)],
        "modules": [name for file in files if (name := module_of(file["path"]))],
        "probes": {
            patch: [asdict(probe) for probe in names if probe.module.partition(".")[0] == package]
            for patch, names in probes.items()
        },
    }


def labels_of(lock: LockFile, manifest: str) -> dict[str, str]:
    """Return an image's labels: they follow from the lock and its patches, and nothing else.

    The first ones are those of https://github.com/opencontainers/image-spec, annotations.md.
    """
    image = lock.image
    labels = {
        f"{_OCI}.title": "vLLM with vpatch",
        f"{_OCI}.version": version_of(lock),
        f"{_LABEL}.version": __version__,
        f"{_LABEL}.source": f"{lock.source.tree} {release_of(lock)} {lock.source.digest}",
        f"{_LABEL}.lock": digest_of_lock(lock),
        f"{_LABEL}.manifest": digest_of(manifest.encode()),
        f"{_LABEL}.patches": " ".join(f"{p.id}@{p.digest}" for p in lock.patches),
        **{label: path for label, (path, _) in DOCUMENTS.items()},
    }
    if image is not None:
        labels |= {
            f"{_OCI}.base.name": image.base,
            f"{_LABEL}.mode": image.mode,
        }
        # The digest of a manifest, as a registry has it; an id of one machine does not count.
        key = f"{_LABEL}.base.id" if image.local else f"{_OCI}.base.digest"
        labels[key] = image.pinned.rpartition("@")[2]
        trees = [f"{name}@{tree.lock}" for name, tree in sorted(image.trees.items())]
        # Also without any: a base that vpatch built has this label as well.
        labels[f"{_LABEL}.trees"] = " ".join(trees)
    return labels


def notice_of(what: str, lock: LockFile, plan: Plan) -> str:
    """Return the notice of modified files that Apache-2.0, section 4(b), asks for.

    `what` has these files: an image, or a wheel.
    """
    head = f"{what} has vLLM {release_of(lock)} with modified files."
    license_ = "vLLM is licensed under the Apache License, Version 2.0; so are the modifications."
    return _notice(head, license_, lock, plan)


def _notice_of_tree(other: TreePayload) -> str:
    """The same for a tree beside vLLM, whose license vpatch does not know."""
    source = other.lock.source
    where = source.version if source.kind == "pypi" else source.origin
    head = f"This image has {source.tree} ({where}) with modified files."
    license_ = "The modifications are under the license of that package."
    return _notice(head, license_, other.lock, other.plan)


def _notice(head: str, license_: str, lock: LockFile, plan: Plan) -> str:
    lines = [head, license_, ""]
    for file in lock.files:
        how = "added" if file.before is None else "modified"
        lines.append(f"{file.path}: {how} by {', '.join(patches_of(lock, [file.path]))}")
    lines += ["", "The patches, in the order in which they were applied:", ""]
    lines += [f"{decision.patch.id}: {decision.patch.title}" for decision in plan.taken]
    return "\n".join(lines) + "\n"


def write_context(payload: Payload, dockerfile: Path, folder: Path, epoch: int) -> None:
    """Write the context into an empty folder; the same payload makes the same bytes."""
    # With all folders above it: one that the engine makes has the time of the build.
    workdir = folder / "image" / FOLDER.lstrip("/")
    workdir.mkdir(parents=True)
    shutil.copyfile(dockerfile, folder / dockerfile.name)
    _write_tree(payload, notice_of("This image", payload.lock, payload.plan), workdir)
    for other in payload.others:
        _write_tree(other, _notice_of_tree(other), workdir / "trees" / other.tree)
    for path, text in payload.documents.items():
        (folder / "image" / path.lstrip("/")).write_text(text, encoding="utf-8")
    build = workdir / "build"
    for script in SCRIPTS:
        shutil.copyfile(PAYLOAD / script, build / script)
    give_time(folder, build, epoch)


def _write_tree(payload: TreePayload, notice: str, workdir: Path) -> None:
    """Write what an image has of a tree, and the files that its build lays over the package."""
    (workdir / "build").mkdir(parents=True)
    (workdir / "lock").write_text(payload.lock.dump(), encoding="utf-8")
    (workdir / "NOTICE").write_text(notice, encoding="utf-8")
    (workdir / "manifest.json").write_text(payload.manifest, encoding="utf-8")
    (workdir / "package.json").write_text(payload.below, encoding="utf-8")
    for path, change in laid_over(payload).items():
        target = workdir / "build" / "files" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(change)


def give_time(folder: Path, workdir: Path, epoch: int) -> None:
    """Give all that lies in a folder one time and the usual modes: layers keep both.

    `workdir` in it gets a file with the time, for what runs in the build. The engine's own builder
    also takes a layer that it knows whatever its times are, unless a file has another content.
    """
    (workdir / "epoch").write_text(f"{epoch}\n", encoding="ascii")
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
        os.utime(path, (epoch, epoch))


def laid_over(payload: TreePayload) -> Mapping[str, bytes]:
    """Return what takes the place of installed files, by paths below a folder of packages."""
    changes = overall_changes(payload.plan)
    laid = laid_over_digests(payload.lock, payload.package)
    return {path: change.after for path, change in changes.items() if path in laid}
