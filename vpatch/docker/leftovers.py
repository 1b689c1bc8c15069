"""Images without a name that an interrupted build leaves: one for each step that it did."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from vpatch.docker.errors import asking

if TYPE_CHECKING:
    from collections.abc import Sequence

    from docker import APIClient

_NO_NAME = "<none>:<none>"
_END_SECONDS = 30.0
_LOOK_SECONDS = 0.2


def images(api: APIClient) -> set[str]:
    """Return the ids of all images that an engine has, those without a name as well."""
    with asking("images"):
        return {one["Id"] for one in api.images(all=True)}


def remove(api: APIClient, ids: Sequence[str], before: set[str]) -> None:
    """Remove the images of a build that was interrupted; `ids` are theirs, also short ones.

    Those of `before` stay, and those that have a name by now.
    """
    with asking("images"):
        deadline = time.monotonic() + _END_SECONDS
        while _is_building(api, ids) and time.monotonic() < deadline:
            time.sleep(_LOOK_SECONDS)
        # The last one first: Docker does not remove an image while another one is built on it.
        while leaves := _leaves(api, ids, before):
            for leaf in leaves:
                api.remove_image(leaf, noprune=True)


def _is_building(api: APIClient, ids: Sequence[str]) -> bool:
    """Whether there still is a container of a step: the engine ends and removes it by itself."""
    return bool(ids) and bool(api.containers(all=True, filters={"ancestor": ids[-1]}))


def _leaves(api: APIClient, ids: Sequence[str], before: set[str]) -> list[str]:
    new_images = [one for one in api.images(all=True) if one["Id"] not in before]
    # The engine may commit one more while it cancels a build, and does not name it any more.
    ours = {o["Id"] for o in new_images if any(i in o["Id"] or i in o["ParentId"] for i in ids)}
    parents = {one["ParentId"] for one in new_images}
    named = {one["Id"] for one in new_images if any(t != _NO_NAME for t in one["RepoTags"] or ())}
    return sorted(ours - parents - named)
