"""Machine code, by its name: no patch reads it, and a wheel for CUDA has a gigabyte of it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from vpatch.errors import VpatchError

if TYPE_CHECKING:
    from collections.abc import Collection

_COMPILED = re.compile(
    r".*\.(so|pyd|dll|dylib|a|o|exe|cubin|fatbin|hsaco)(\.\d+)*", re.IGNORECASE | re.DOTALL
)


def is_compiled(path: str) -> bool:
    return _COMPILED.fullmatch(path) is not None


# What CPython takes as an extension module: `_C.so`, `_C.abi3.so`, `_C.cpython-312-linux-gnu.so`.
_EXTENSION = re.compile(r"(?P<module>.*/[^./]+)(\.abi3|\.cpython-[^./]+|\.cp\d+[^./]*)?\.(so|pyd)")


def hidden_sources(paths: Collection[str]) -> dict[str, str]:
    """Find sources that no import takes, and what Python imports in their place.

    In a folder, a package and an extension module come before a source of the same name.

    Args:
        paths: all files of a package, relative to its folder of packages.

    Returns:
        A source, and the file that hides it.
    """
    extensions = filter(None, map(_EXTENSION.fullmatch, paths))
    hiding = {f"{match['module']}.py": match[0] for match in extensions}
    suffix = "/__init__.py"
    hiding |= {f"{path.removesuffix(suffix)}.py": path for path in paths if path.endswith(suffix)}
    there = set(paths)
    return {source: other for source, other in hiding.items() if source in there}


def refuse_hidden_sources(paths: Collection[str], *, where: str, hint: str) -> None:
    """Refuse a package that is installed, if Python would import something in place of a source.

    Raises:
        VpatchError: it is so; the error names the first.
    """
    for source, other in hidden_sources(paths).items():
        raise VpatchError(
            f"{other} hides {source}: Python would import that in its place",
            where=where,
            hint=hint,
            code="source.hidden-code",
        )
