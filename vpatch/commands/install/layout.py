"""What of a lock goes into an installed vLLM, and what must hold for that."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vpatch.commands.install.wheels.names import base_of, release_of
from vpatch.errors import UsageError, VpatchError
from vpatch.image.context import notice_of
from vpatch.image.mode import is_laid_over, to_build
from vpatch.planning.state import overall_changes
from vpatch.util.plural import shortened

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from vpatch.checkout.lockfile import LockedFile, LockFile
    from vpatch.planning.state import Change, Plan
    from vpatch.workspace.locked_plan import LockedPlan

# In the folder of the metadata.
LOCK = "vpatch.lock"
NOTICE = "vpatch-NOTICE"
SBOM = "sboms/vllm.cdx.json"
_SHOWN = 10


class OtherFilesError(VpatchError):
    """A wheel or an environment does not have the files that the patches were made for."""

    code = "wheel.files-differ"


@dataclass(frozen=True)
class LaidOver:
    """What takes the place of files of the package vllm.

    `released` are the digests of the package's Python files in the release, by their paths. `notes`
    are the texts that go beside the metadata, by their paths there.
    """

    lock: LockFile
    plan: Plan
    changes: Mapping[str, Change]
    released: Mapping[str, str]
    notes: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def release(self) -> str:
        return release_of(self.lock)

    def refuse_others(self, digests: Mapping[str, str | None], where: str, hint: str) -> None:
        """Refuse files that are not those of the release.

        Args:
            digests: those of the files that are to be replaced; None for what is not there.
            where: the wheel, or the folder of the environment.
            hint: what to do next.

        Raises:
            OtherFilesError: it names these files, and the patches that change them.
        """
        wrong = [f for f in self.lock.files if f.path in digests and digests[f.path] != f.before]
        if wrong:
            lines = [
                f"{file.path}: {difference(digests[file.path], file)} "
                f"({', '.join(patches_of(self.lock, [file.path]))})"
                for file in wrong
            ]
            shown = "".join(f"\n    {line}" for line in shortened(lines, _SHOWN))
            raise OtherFilesError(
                f"the files are not those of {base_of(self.lock)}:{shown}",
                where=where,
                hint=hint,
            )


def laid_over(locked: LockedPlan, notes: Mapping[str, bytes] | None = None) -> LaidOver:
    """Return what a lock and its plan put into an installed vLLM.

    Raises:
        UsageError: the lock is of sources that are no release, or a patch changes what is compiled.
    """
    plan = locked.plan
    release_of(locked.lock)
    # The same patches make the same wheel, whatever images were built of them.
    lock = locked.lock.model_copy(update={"image": None})
    compiled = to_build(lock)
    if compiled:
        raise UsageError(
            f"these files need a build: {', '.join(compiled[:_SHOWN])}",
            where=", ".join(patches_of(lock, compiled)),
            hint="leave out these patches, or use vpatch build-image --mode source",
            code="wheel.needs-a-build",
        )
    changes = {p: change for p, change in overall_changes(plan).items() if is_laid_over(p)}
    if not changes:
        raise UsageError(
            "the patches change no file of the package vllm",
            hint="name a patch that does",
            code="wheel.nothing-to-do",
        )
    texts = {
        LOCK: lock.dump().encode(),
        NOTICE: notice_of("This package", lock, plan).encode(),
        **(notes or {}),
    }
    released = {
        path: f"sha256:{record.sha256}"
        for path, record in locked.tree.records.items()
        if path.startswith("vllm/") and path.endswith(".py")
    }
    return LaidOver(lock, plan, changes, released, texts)


def patches_of(lock: LockFile, paths: Iterable[str]) -> list[str]:
    """Return the ids of the patches that touch some files, in their order."""
    wanted = set(paths)
    return [p.id for p in lock.patches if any(file.path in wanted for file in p.files)]


def difference(digest: str | None, file: LockedFile) -> str:
    """Say in words how a file is not the release's."""
    if digest is None:
        return "is missing"
    if digest == file.after:
        return "is patched already"
    if file.before is None:
        return "is there, and the release does not have it"
    return "was changed"
