"""Print where this Python has vLLM, and the metadata of what calls itself vLLM.

It imports nothing of vLLM. vpatch reads the files itself.
"""

import importlib.util
import json
import sys
from pathlib import Path

spec = importlib.util.find_spec("vllm")
places = list(spec.submodule_search_locations or ()) if spec else []
infos = []
for entry in dict.fromkeys(sys.path):
    folder = Path(entry)
    if entry and folder.is_dir():
        infos += sorted(str(path.resolve()) for path in folder.glob("vllm*.dist-info"))
found = {"package": places[0] if places else None, "infos": list(dict.fromkeys(infos))}
sys.stdout.write(f"\nvpatch:{json.dumps(found)}\n")
