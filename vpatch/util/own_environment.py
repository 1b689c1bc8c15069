"""Environment variables that vpatch sets for itself, and that its child processes do not get."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

# Plugins of other packages must not change our declarations, and looking for them takes time.
_OURS = {"PYDANTIC_DISABLE_PLUGINS": "__all__"}
_set: set[str] = set()


def set_own() -> None:
    """Set our variables, unless the user has set them: then they are the user's."""
    for name, value in _OURS.items():
        if name not in os.environ:
            os.environ[name] = value
            _set.add(name)


def inherited(environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment (by default this process's) without the variables that we set."""
    env = os.environ if environment is None else environment
    return {
        name: value for name, value in env.items() if name not in _set or value != _OURS.get(name)
    }
