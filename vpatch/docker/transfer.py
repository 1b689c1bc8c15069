"""What an engine says while it sends or fetches an image, counted in bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from vpatch.progress import Task

# Each layer is fetched and then unpacked; both have a size, and only the first is the transfer.
_TRANSFERS = {"Pushing", "Downloading"}


def counted(events: Iterable[dict[str, Any]], task: Task) -> Iterator[dict[str, Any]]:
    """Pass events on, and count the bytes of all layers that are known so far."""
    sizes: dict[str, int] = {}
    done: dict[str, int] = {}
    for event in events:
        detail = event.get("progressDetail") or {}
        if event.get("status") in _TRANSFERS and "current" in detail:
            layer = event["id"]
            # The engine counts the archive as well, which is a little larger than the layer.
            size = max(detail.get("total") or 0, detail["current"])
            if size != sizes.get(layer):
                sizes[layer] = size
                task.resize(sum(sizes.values()))
            task.advance(max(0, detail["current"] - done.get(layer, 0)))
            done[layer] = max(detail["current"], done.get(layer, 0))
        yield event
