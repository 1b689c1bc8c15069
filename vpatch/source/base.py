"""The base repository of a cached tree, made when it is first asked for."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from vpatch.errors import UnavailableError, VpatchError
from vpatch.git import command
from vpatch.git.errors import GitError, GitMissingError
from vpatch.util.filelock import READ_ONLY, wait_for_lock
from vpatch.util.scratch import scratch_folder
from vpatch.util.untrusted import parse_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import ExitStack

    from vpatch.git.files import SourceFile
    from vpatch.progress import Progress

_REPOSITORY = "repo.git"
_STAGING = "repo.git.part"
_FACTS = "vpatch.json"


def base_repository(
    entry: Path,
    files: Callable[[], Iterable[SourceFile]],
    message: str,
    progress: Progress,
    undo: ExitStack,
) -> tuple[Path, str]:
    """Return the repository and its commit; `undo` removes it where the entry cannot keep it."""
    repository = entry / _REPOSITORY
    commit = _intact_commit(repository)
    if commit is None:
        try:
            # Not the entry's own lock: readers of the entry, we among them, share that one.
            lock = wait_for_lock(entry / "repo.lock", exclusive=True, on_wait=lambda: None)
        except OSError as error:
            if error.errno not in READ_ONLY:
                raise
            workdir = undo.enter_context(scratch_folder())
            own = Path(workdir, entry.name)
            own.mkdir()
            return own / _REPOSITORY, _make(own, files(), message, progress)
        with lock:
            commit = _intact_commit(repository) or _make(entry, files(), message, progress)
    return repository, commit


def _make(entry: Path, files: Iterable[SourceFile], message: str, progress: Progress) -> str:
    try:
        return _create(entry, files, message, progress)
    except GitMissingError:
        raise
    except (OSError, GitError) as error:
        reason = error.gist if isinstance(error, GitError) else error
        what = f"the base commit cannot be made: {reason}"
        hint = error.hint_beside if isinstance(error, GitError) else None
        if hint:
            raise VpatchError(
                what, where=str(entry), hint=hint, code="source.unsafe-path"
            ) from error
        raise UnavailableError(
            what,
            where=str(entry),
            hint="free space or correct its permissions, or set VPATCH_CACHE_DIR",
            code="source.unwritable-cache",
        ) from error
    finally:
        shutil.rmtree(entry / _STAGING, ignore_errors=True)


def _create(entry: Path, files: Iterable[SourceFile], message: str, progress: Progress) -> str:
    repository, staging = entry / _REPOSITORY, entry / _STAGING
    if repository.exists():
        progress.note(f"{repository} is damaged, and is made again")
        shutil.rmtree(repository)
    shutil.rmtree(staging, ignore_errors=True)
    task = progress.start(f"Making the base commit of {entry.name}")
    commit = command.create_base_repository(staging, files, message)
    facts = {"commit": commit, "sizes": _pack_sizes(staging)}
    (staging / _FACTS).write_text(json.dumps(facts), encoding="utf-8")
    staging.rename(repository)
    task.done()
    return commit


def _intact_commit(repository: Path) -> str | None:
    """Return the base commit, or None where the repository is missing or was cut off.

    Sizes suffice here: git itself checks the digest of every object that it reads.
    """
    try:
        facts = parse_json((repository / _FACTS).read_bytes())
        if facts["sizes"] != _pack_sizes(repository):
            return None
        commit: str = facts["commit"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return commit


def _pack_sizes(repository: Path) -> dict[str, int]:
    packs = (repository / "objects" / "pack").iterdir()
    return {pack.name: pack.stat().st_size for pack in packs}
