"""Where an image comes from, as labels: only what is known, and nothing that its lock says."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from vpatch.errors import VpatchError
from vpatch.git.branch import head_of
from vpatch.git.checkout import changed_files
from vpatch.git.found import opened_source
from vpatch.git.origin import hosted_name, remote_url
from vpatch.util.urls import split_credentials

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from vpatch.workspace.context import Context

_OCI = "org.opencontainers.image"


def provenance_of(context: Context, epoch: int | None) -> dict[str, str]:
    """Return labels for the time of the build, for licences, and for the project's repository.

    `epoch` is SOURCE_DATE_EPOCH; without it, the time is now. The licence is that of vLLM and of
    the patches. The base and the other packages have their own, which the SBOM names.
    """
    at = datetime.now(UTC) if epoch is None else datetime.fromtimestamp(epoch, UTC)
    labels = {
        f"{_OCI}.created": at.strftime("%Y-%m-%dT%H:%M:%SZ"),
        f"{_OCI}.licenses": "Apache-2.0",
    }
    code = context.library.code
    # The library's patches alone are no project of anybody's.
    return labels | (_repository(context.project.folder, code) if code else {})


def _repository(folder: Path, code: Sequence[Path]) -> dict[str, str]:
    """Return where the project's repository is and which commit it has; both or what is known.

    A commit that is not all that was built is marked, as `git describe --dirty` does.
    """
    try:
        url = remote_url(folder)
        with opened_source(folder) as repo:
            commit = head_of(repo) if repo is not None else None
            if repo is None or repo.work_tree is None or commit is None:
                return {}
            changed = [repo.work_tree.resolve() / path for path in changed_files(repo)]
    except VpatchError:
        return {}  # git cannot read it: then nothing of it is known
    roots = [path.resolve() for path in code]
    is_dirty = any(path.is_relative_to(root) for path in changed for root in roots)
    labels = {f"{_OCI}.revision": f"{commit}-dirty" if is_dirty else commit}
    # A label is public: no password, and no folder of this machine. An empty source replaces that
    # of the base, which does not have this commit.
    hosted = hosted_name(split_credentials(url)[0]) if url else None
    address = f"https://{hosted[0]}/{hosted[1]}" if hosted else ""
    return labels | {f"{_OCI}.source": address}
