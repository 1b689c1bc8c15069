"""What can be wrong with a checkpoint."""

from __future__ import annotations

from vpatch.errors import UnavailableError, VpatchError

REMEDY = "fetch it again, or convert the checkpoint again"
"""What to do about a file that is damaged."""


class CheckpointError(VpatchError):
    """A checkpoint is damaged, or a graft does not fit it."""

    code = "checkpoint.damaged"


class CheckpointUnavailableError(CheckpointError, UnavailableError):
    """A checkpoint cannot be read or written now: the disk, permissions, another process."""

    code = "checkpoint.unreadable"
