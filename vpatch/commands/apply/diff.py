"""What the patches of a checkout change, as unified diffs of fixed bytes, or as a series."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from vpatch.checkout.commits import commits_of
from vpatch.errors import UsageError
from vpatch.git import checkout as git
from vpatch.util.directories import remove, replace_dir
from vpatch.workspace.checkout import find_lock, planned_again

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from vpatch.workspace.context import Context


def diff(
    context: Context, ids: Sequence[str], version: str | None, checkout: Path | None
) -> list[bytes]:
    """Return a diff for each patch in `ids`, or one of all patches where `ids` is empty.

    The diffs come from the lock and the patches as they are declared now.

    Raises:
        UsageError: the checkout has no such patch, or needs it no more, or no lock is found.
        VpatchError: the source cannot be read, or the code of a patch is not trusted.
    """
    with _commit_again(context, ids, version, checkout) as series:
        pairs = [series.pair(patch_id) for patch_id in ids] or [(series.line[0], series.line[-1])]
        return [git.diff(series.repository, *pair) for pair in pairs]


def write_series(
    context: Context,
    ids: Sequence[str],
    version: str | None,
    checkout: Path | None,
    folder: Path,
) -> list[Path]:
    """Write a file for each patch, as `git am` reads them, and `series`, as quilt reads it.

    An earlier series in `folder` is replaced as a whole. The files depend on the lock and on the
    patches alone. With `ids`, only these are written; they may need those that are left out.

    Returns:
        The patch files, in the order in which they apply.

    Raises:
        UsageError: as `diff`, or the folder has something else.
        VpatchError: as `diff`.
    """
    _refuse_other(folder)
    with _commit_again(context, ids, version, checkout) as series:
        chosen = [patch_id for patch_id in series.ids if not ids or patch_id in ids]
        mails = [git.mail(series.repository, series.pair(patch_id)[1]) for patch_id in chosen]
    names = (f"{number:04}-{patch_id}{_SUFFIX}" for number, patch_id in enumerate(chosen, 1))
    files = dict(zip(names, mails, strict=True))
    _replace(folder, {**files, _SERIES: "".join(f"{name}\n" for name in files).encode()})
    return [folder / name for name in files]


_SERIES = "series"
_SUFFIX = ".patch"


def _refuse_other(folder: Path) -> None:
    """Refuse a folder with files that no series of ours has.

    Raises:
        UsageError: it has some, or is a file or a link.
    """
    if not folder.is_symlink() and not folder.exists():
        return
    if folder.is_symlink() or not folder.is_dir() or not all(map(_is_ours, folder.iterdir())):
        raise UsageError(
            f"{folder} has other files than a series of patches",
            where=str(folder),
            hint="give --series a folder that is not there yet",
            code="checkout.no-series",
        )


def _is_ours(path: Path) -> bool:
    """Whether a file is one that `write_series` writes. A quilt series by hand has others."""
    if path.is_symlink() or not path.is_file():
        return False
    if path.name == _SERIES:
        return True
    return path.suffix == _SUFFIX and b"\nVpatch-Id: " in path.read_bytes()


def _replace(folder: Path, files: Mapping[str, bytes]) -> None:
    folder = folder.absolute()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as beside:
        new, old = Path(beside) / "new", Path(beside) / "old"
        new.mkdir()
        for name, text in files.items():
            (new / name).write_bytes(text)
        replace_dir(new, folder, old)
        remove(old)


@dataclass(frozen=True)
class _PatchSeries:
    """A scratch repository with a commit for each patch that is needed, by the patches' ids.

    `line` has all commits, from the base on.
    """

    repository: Path
    line: Sequence[str]
    ids: Sequence[str]

    def pair(self, patch_id: str) -> tuple[str, str]:
        """The commits before and after a patch."""
        number = self.ids.index(patch_id)
        return self.line[number], self.line[number + 1]


@contextmanager
def _commit_again(
    context: Context, ids: Sequence[str], version: str | None, checkout: Path | None
) -> Iterator[_PatchSeries]:
    """Make the commits of a checkout again.

    Raises:
        UsageError: the checkout has none of `ids`, or needs it no more, or no lock is found.
    """
    _, lock = find_lock(context, version, checkout, None)
    known = [patch.id for patch in lock.patches]
    for patch_id in ids:
        if patch_id not in known:
            raise UsageError(
                f"the checkout has no patch {patch_id!r}",
                hint=f"choose among: {', '.join(known) or 'none'}",
                code="checkout.no-such-patch",
            )
    with planned_again(context, lock) as (tree, plan), tempfile.TemporaryDirectory() as folder:
        taken = [decision.patch.id for decision in plan.taken]
        missing = [patch_id for patch_id in ids if patch_id not in taken]
        if missing:
            raise UsageError(
                f"{missing[0]} changes nothing, since it is no longer needed",
                hint="vpatch check shows what changed",
                code="checkout.patch-not-needed",
            )
        repository, base = tree.base_repository(context.progress)
        scratch = Path(folder) / "repo"
        git.create_checkout(scratch, repository, base, [])
        commits = git.add_commits(scratch, base, commits_of(plan))
        yield _PatchSeries(scratch, [base, *commits], taken)
