"""Environments with the small vLLM, as an installer leaves them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from installer import install
from installer.destinations import SchemeDictionaryDestination
from installer.sources import WheelFile
from installer.utils import get_launcher_kind

_PATHS = "import sysconfig, json; print(json.dumps(sysconfig.get_paths()))"


def environment(folder):
    """Make an environment without pip, and return its Python."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    return folder / "bin" / "python"


def asked(python, code):
    # -B: nothing is compiled into the environment.
    command = [python, "-I", "-B", "-c", code]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout


def install_wheel(python, path):
    """Install a wheel as `installer` does, and return the folder of packages."""
    scheme = json.loads(asked(python, _PATHS))
    paths = {**scheme, "headers": scheme["include"]}
    destination = SchemeDictionaryDestination(paths, str(python), get_launcher_kind())
    with WheelFile.open(path) as source:
        install(source, destination, {"INSTALLER": b"installer"})
    return Path(scheme["purelib"])


def pip(python, *args):
    command = [sys.executable, "-m", "pip", "--python", str(python), *map(str, args)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout
