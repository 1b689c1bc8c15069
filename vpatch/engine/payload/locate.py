"""Print where this Python has vLLM, and under which names. It imports nothing of vLLM."""

import importlib.metadata
import importlib.util
import json
import re
import sys

spec = importlib.util.find_spec("vllm")
places = list(spec.submodule_search_locations or ()) if spec else []
installed: dict[str, str] = {}
for distribution in importlib.metadata.distributions():
    name = re.sub("[-_.]+", "-", distribution.metadata["Name"] or "").lower()
    rows = (distribution.read_text("RECORD") or "").splitlines() if name[:4] == "vllm" else ()
    if name == "vllm" or any(row.split(",")[0] == "vllm/__init__.py" for row in rows):
        installed.setdefault(name, distribution.version)
# That of the name vllm comes first: it is what vLLM asks for.
order = sorted(installed.items(), key=lambda pair: (pair[0] != "vllm", pair))
found = {"package": places[0] if places else None, "installed": order}
sys.stdout.write(f"\nvpatch:{json.dumps(found)}\n")
