"""Machine code, by its name: no patch reads it, and a wheel for CUDA has a gigabyte of it."""

from __future__ import annotations

import re

_COMPILED = re.compile(
    r".*\.(so|pyd|dll|dylib|a|o|exe|cubin|fatbin|hsaco)(\.\d+)*", re.IGNORECASE | re.DOTALL
)


def is_compiled(path: str) -> bool:
    return _COMPILED.fullmatch(path) is not None
