"""Locks without a checkout."""

from __future__ import annotations

from vpatch.checkout.lockfile import LockedFile, LockedPatch, LockedPin, LockFile
from vpatch.util.digest import digest_of


def locked(path, before=b"old\n", after=b"new\n"):
    return LockedFile(
        path=path, before=None if before is None else digest_of(before), after=digest_of(after)
    )


def lock_of_files(paths, **keys):
    """A lock of vLLM 0.50.0 with patches that touch these paths each."""
    patches = [
        LockedPatch(
            id=patch,
            digest=digest_of(patch.encode()),
            variant=None,
            commit="0" * 40,
            files=tuple(locked(path) for path in touched),
        )
        for patch, touched in paths.items()
    ]
    files = {file.path: file for patch in patches for file in patch.files}
    pin = LockedPin(
        tree="vllm",
        kind="pypi",
        version="0.50.0",
        digest=digest_of(b"archive"),
        origin="vllm-0.50.0.tar.gz",
        ref=None,
    )
    settings = {"recipe": None, "source": pin, "base": "1" * 40, "head": "2" * 40, "skipped": ()}
    files = tuple(files[path] for path in sorted(files))
    return LockFile(patches=tuple(patches), files=files, **(settings | keys))
