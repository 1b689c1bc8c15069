"""Files that are read when they are first asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


class LazyFiles(Mapping[str, bytes]):
    """Maps paths to the files' bytes, and keeps what it has read."""

    def __init__(self, paths: Sequence[str], read: Callable[[str], bytes]) -> None:
        self._held: dict[str, bytes | None] = dict.fromkeys(paths)
        self._read = read

    def __getitem__(self, path: str) -> bytes:
        held = self._held[path]
        if held is None:
            held = self._held[path] = self._read(path)
        return held

    def __contains__(self, path: object) -> bool:
        return path in self._held

    def __iter__(self) -> Iterator[str]:
        return iter(self._held)

    def __len__(self) -> int:
        return len(self._held)
