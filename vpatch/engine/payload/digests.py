"""Digests of files of packages, as an import in this process would find them.

    PYTHON digests.py FILES RESULT

It runs inside an engine's Python, where vpatch is not. FILES is a JSON list of paths, such as
vllm/config/speculative.py; RESULT gets a mapping of them to sha256:HEX, or null.
"""

from __future__ import annotations

import hashlib
import importlib.machinery
import importlib.util
import json
import sys
from pathlib import Path


def digests_of(paths: list[str]) -> dict[str, str | None]:
    return {path: _digest(path) for path in paths}


def _digest(path: str) -> str | None:
    package, _, inside = path.partition("/")
    spec = importlib.util.find_spec(package)
    places = spec.submodule_search_locations if spec else None
    file = Path(places[0], inside) if places else None
    if file is None or not file.is_file() or not _is_taken(file):
        return None
    return f"sha256:{hashlib.sha256(file.read_bytes()).hexdigest()}"


def _is_taken(file: Path) -> bool:
    """Whether an import takes this source, and not an extension or a package of the same name."""
    if file.suffix != ".py":
        return True
    is_package = file.name == "__init__.py"
    folder, name = (
        (file.parent.parent, file.parent.name) if is_package else (file.parent, file.stem)
    )
    spec = importlib.machinery.PathFinder.find_spec(name, [str(folder)])
    return spec is not None and spec.origin is not None and Path(spec.origin) == file


if __name__ == "__main__":
    digests = digests_of(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
    Path(sys.argv[2]).write_text(json.dumps(digests), encoding="utf-8")
