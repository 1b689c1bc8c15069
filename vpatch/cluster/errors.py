"""What goes wrong with a cluster."""

from __future__ import annotations

from vpatch.errors import UnavailableError


class ClusterError(UnavailableError):
    """The cluster does not answer, or cannot do what was asked of it."""
