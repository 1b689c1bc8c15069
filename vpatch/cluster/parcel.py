"""The files that a job needs, as one archive with a digest."""

from __future__ import annotations

import hashlib
import io
import zipfile
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_PACKAGE = Path(__file__).parents[1]
_SUFFIXES = {".py", ".html", ".typed"}
# A fixed time: the same files make the same archive.
_DATE = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class Parcel:
    """Files by their paths, and vpatch's own code below `code`.

    The node runs the driver's code. So both agree on what a job and its result look like.
    """

    files: Mapping[str, bytes] = field(default_factory=dict)

    @cached_property
    def packed(self) -> bytes:
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in sorted({**self.files, **dict(_own_code())}.items()):
                archive.writestr(zipfile.ZipInfo(name, _DATE), content, zipfile.ZIP_DEFLATED)
        return stream.getvalue()

    @cached_property
    def digest(self) -> str:
        return hashlib.sha256(self.packed).hexdigest()


def _own_code() -> Iterator[tuple[str, bytes]]:
    for path in sorted(_PACKAGE.rglob("*")):
        relative = path.relative_to(_PACKAGE)
        # Leave the library's data out: each job brings the files that it needs.
        if path.suffix in _SUFFIXES and relative.parts[0] != "data":
            yield f"code/vpatch/{relative.as_posix()}", path.read_bytes()
